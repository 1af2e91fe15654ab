"""Run Inductor's generated wrapper on the CPU: its kernels on the engine, its extern calls in torch."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tilesight.capture.inductor.kernels import LoadedKernel, load_kernel
from tilesight.capture.launches import installed_session
from tilesight.capture.provenance import fill_with_poison
from tilesight.errors import CaptureError, TilesightError

_CUDA_ONLY_IMPORTS = {"AsyncCompile", "_cuda_getCurrentRawStream"}
_REPLACED_NAMES = {"async_compile", "empty_strided_cuda"}


class _Loader:
    """Stands in for Inductor's AsyncCompile: loads each kernel when the module defines it."""

    def triton(self, name: str, source: str, **_: Any) -> LoadedKernel:
        return load_kernel(name, source)

    def wait(self, scope: Any) -> None:
        return None


class _ExternKernels:
    """Inductor's extern kernels; those that only a GPU has are made of what the CPU has."""

    def __init__(self, kernels: Any) -> None:
        self._kernels = kernels

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernels, name)

    def mm_dtype(self, lhs: Any, rhs: Any, *, out_dtype: torch.dtype, out: Any) -> Any:
        """lhs · rhs of narrow operands with a wide result: 16-bit products are exact in f32."""
        return torch.mm(lhs.to(out_dtype), rhs.to(out_dtype), out=out)

    def bmm_dtype(self, lhs: Any, rhs: Any, *, out_dtype: torch.dtype, out: Any) -> Any:
        return torch.bmm(lhs.to(out_dtype), rhs.to(out_dtype), out=out)


class _ForCpu(ast.NodeTransformer):
    """Rewrites what only a CUDA build has: device guards, the raw stream, `cuda` devices."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        return None if any(alias.name in _CUDA_ONLY_IMPORTS for alias in node.names) else node

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        return None if names & _REPLACED_NAMES else self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """An extern call's result may lie otherwise on the CPU: laid out anew where its strides are asserted.

        With the operator's name in torch 2.13, and with the dtype before it in 2.14, which names inputs so too.
        """
        match node.value:
            case ast.Call(
                func=ast.Name(id="assert_size_stride" | "assert_tensor_metadata"),
                args=[ast.Name(id=name), _, _, *_, ast.Constant(value=str(operator))],
            ) if operator != "input":
                arguments = [*node.value.args[:3], node.value.args[-1]]
                call = ast.Call(ast.Name("_laid_out", ast.Load()), arguments, [])
                return ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], call), node)
            case _:
                return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        match ast.unparse(node):
            case "torch.cuda._DeviceGuard":
                return ast.copy_location(ast.Name(id="_device_guard", ctx=ast.Load()), node)
            case "torch.cuda.set_device":
                return ast.copy_location(ast.Name(id="_set_device", ctx=ast.Load()), node)
            case "torch.ops.aten._embedding_bag.default" | "torch.ops.aten._embedding_bag_forward_only.default":
                return ast.copy_location(ast.Name(id="_embedding_bag", ctx=ast.Load()), node)
            case _:
                return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if node.value in ("cuda", "cuda:0"):
            return ast.copy_location(ast.Constant("cpu"), node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if ast.unparse(node.func) in ("device", "torch.device"):
            node.keywords = [k for k in node.keywords if k.arg != "index"]
        return node


def executable(code: str) -> dict[str, Any]:
    """The namespace of a generated wrapper, ready to run on CPU tensors."""
    tree = ast.fix_missing_locations(_ForCpu().visit(ast.parse(code)))
    scope: dict[str, Any] = {
        "__name__": "tilesight_generated",
        "__file__": "<generated wrapper>",
        "async_compile": _Loader(),
        "get_raw_stream": lambda device: 0,
        "empty_strided_cuda": _undefined_memory,
        "_laid_out": _laid_out,
        "_device_guard": lambda device: contextlib.nullcontext(),
        "_set_device": lambda device: None,
        "_embedding_bag": _embedding_bag,
    }
    exec(compile(tree, "<generated wrapper>", "exec"), scope)
    if "extern_kernels" in scope:
        scope["extern_kernels"] = _ExternKernels(scope["extern_kernels"])
    return scope


def _laid_out(tensor: torch.Tensor, shape: Sequence[int], strides: Sequence[int], operator: str) -> torch.Tensor:
    """An extern call's result with the strides that the GPU's own would have."""
    if tuple(tensor.shape) != tuple(shape):
        raise CaptureError(f"{operator} gives {tuple(tensor.shape)} on the CPU", expected=f"{tuple(shape)}")
    if all(have == want or size < 2 for have, want, size in zip(tensor.stride(), strides, shape, strict=True)):
        return tensor
    return torch.empty_strided(tuple(shape), tuple(strides), dtype=tensor.dtype).copy_(tensor)


def _embedding_bag(
    weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, scales: bool = False, mode: int = 0, *rest: Any
) -> tuple[torch.Tensor, ...]:
    """`aten._embedding_bag` as CUDA gives it: the bag of each index also for sums, which the CPU leaves out, a size for
    each offset, the last one too, and the places of maxima for maxima (mode 2) alone."""
    given = torch.ops.aten._embedding_bag.default(weight, indices, offsets, scales, mode, *rest)
    bags = (
        torch.searchsorted(offsets, torch.arange(indices.numel()).to(offsets.dtype), right=True).to(indices.dtype) - 1
    )
    sizes = torch.cat([given[2], given[2].new_zeros(offsets.numel() - given[2].numel())])
    return given[0], bags, sizes, given[3] if mode == 2 else given[3].new_empty(0)


def _undefined_memory(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A new tensor that promises nothing: NaN, or a large odd number, in every element."""
    session = installed_session()
    device = "cpu" if session is None or session.lent is None else "cuda"
    return fill_with_poison(torch.empty_strided(tuple(shape), tuple(strides), dtype=dtype, device=device))


def run_wrapper(code: str, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a generated wrapper on CPU tensors; the engine's session must be installed.

    Args:
        code: Inductor's output code
        inputs: the graph's inputs in the order of its placeholders
    Raises:  CaptureError: when the wrapper needs what only a GPU has, with what it was
    """
    return load_wrapper(code)(list(inputs))


def load_wrapper(code: str, constants: Mapping[str, Any] | None = None) -> Callable[[list[Any]], list[Any]]:
    """The wrapper's `call`, which takes the graph's inputs in a list and empties the list.

    Args:
        code: Inductor's output code; empty of a graph without results, which it leaves out
        constants: values of the module's attributes that the code leaves to be filled in
    """
    scope = executable(code) if code else {"call": lambda inputs: []}
    scope.update(constants or {})

    def call(inputs: list[Any]) -> list[Any]:
        try:
            return list(scope["call"](inputs))
        except TilesightError:
            raise
        except (NotImplementedError, AttributeError, ImportError) as error:
            raise CaptureError(
                f"the generated wrapper needs what a CPU lacks: {type(error).__name__}: {str(error).splitlines()[0]}",
                next_step="run it on a GPU with --on gpu",
            ) from error

    return call
