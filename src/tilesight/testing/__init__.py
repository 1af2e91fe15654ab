"""Kernels checked in a project's own tests, where there is no GPU.

```
def test_softmax():
    tilesight.testing.check_kernel(CASE)
```
"""

from tilesight.testing.kernels import check_kernel

__all__ = ["check_kernel"]
