"""The launchers that many kernels of the corpus share, and their inputs."""

# pyright: basic

from __future__ import annotations

import torch
import triton


def normal(*sizes: int, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.randn(*sizes)


def on_contiguous(launch, kernel, *tensors):
    """The launch of a kernel whose offsets are those of row-major tensors: others are copied first."""
    return launch(kernel, *(tensor.contiguous() for tensor in tensors))


def binary_inputs():
    return normal(1500, seed=1), normal(1500, seed=2)


def binary(kernel):
    """kernel(x, y, out, n, BLOCK), one program a block."""
    x, y = binary_inputs()
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 512),)](x, y, out, x.numel(), BLOCK=512)
    return out


def added():
    x, y = binary_inputs()
    return x.double() + y.double()


def vector():
    return normal(1500, seed=3)


def unary(make, kernel):
    """kernel(x, out, n, BLOCK), one program a block; the output is like the input."""
    x = make()
    out = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
    return out


def matrix():
    return normal(37, 93, seed=4)


def rows(make, kernel):
    """kernel(x, out, x_stride, out_stride, cols, BLOCK), one program a row."""
    x = make()
    out = torch.empty(x.shape, dtype=x.dtype)
    cols = x.shape[1]
    kernel[(x.shape[0],)](x, out, x.stride(0), out.stride(0), cols, BLOCK=triton.next_power_of_2(cols))
    return out


def row_values(make, kernel):
    """kernel(x, out, x_stride, cols, BLOCK), one number a row."""
    x = make()
    out = torch.empty(x.shape[0], dtype=x.dtype)
    kernel[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def factors():
    return normal(50, 72, seed=5), normal(72, 40, seed=6)


def matmul(kernel):
    """kernel(a, b, c, M, N, K, BM, BN, BK) on row-major matrices, a 2-D grid."""
    a, b = factors()
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N)
    kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](a, b, c, M, N, K, BM=32, BN=32, BK=32)
    return c


def product():
    a, b = factors()
    return a.double() @ b.double()


def small_integers():
    torch.manual_seed(7)
    shapes = (50, 96), (96, 40)
    return tuple(torch.randint(-8, 8, shape, dtype=torch.int8) for shape in shapes)


def integer_product():
    a, b = small_integers()
    return a.long() @ b.long()


def heads():
    return tuple(normal(50, 32, seed=seed) for seed in (8, 9, 10))


def attention(kernel):
    """kernel(q, k, v, o, S, scale, D, BM, BN), one head, one program a block of queries."""
    q, k, v = heads()
    out = torch.empty_like(q)
    kernel[(triton.cdiv(50, 32),)](q, k, v, out, 50, 32**-0.5, D=32, BM=32, BN=32)
    return out


def attended(causal: bool = False):
    q, k, v = (t.double() for t in heads())
    scores = q @ k.T * 32**-0.5
    if causal:
        scores = scores.masked_fill(torch.ones(50, 50, dtype=torch.bool).triu(1), float("-inf"))
    return torch.softmax(scores, dim=1) @ v
