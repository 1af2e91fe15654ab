"""Which lines copy a tensor, as Provenance lists them."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest
import torch

from tilesight.capture.provenance import Provenance

COPYING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x.T.contiguous(),
    "reshape": lambda x: x.T.reshape(-1),
    "clone": lambda x: x.clone(),
    "to": lambda x: x.to(torch.float16),
}
KEEPING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x.contiguous(),
    "reshape": lambda x: x.reshape(-1),
    "view": lambda x: x.T.view(3, 2),
    "to": lambda x: x.to(torch.float32),
    "add": lambda x: x + 1,
}


@pytest.mark.parametrize("name", COPYING)
def test_a_copy_and_its_line(name: str) -> None:
    x = torch.ones(2, 3)
    with Provenance() as provenance:
        copy = COPYING[name](x)
    (found,) = provenance.copies
    assert (found.source, found.copy) == (x.untyped_storage().data_ptr(), copy.untyped_storage().data_ptr())
    assert (found.file, found.line) == (__file__, inspect.getsourcelines(COPYING[name])[1])


@pytest.mark.parametrize("name", KEEPING)
def test_what_is_no_copy(name: str) -> None:
    x = torch.ones(2, 3)
    with Provenance() as provenance:
        KEEPING[name](x)
    assert provenance.copies == []
