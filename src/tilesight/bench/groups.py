"""Groups of a Dynamo graph that a hand-written kernel computes in one call: softmax, norms, gated products, losses."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import Graph, Node

from tilesight import kernels

Key = tuple[str, tuple[int, ...]]
"""A bench operator and its shape."""
SOFTMAX = (F.softmax, torch.softmax, "softmax")
LOG_SOFTMAX = (F.log_softmax, torch.log_softmax, "log_softmax")
RMS_NORM = (F.rms_norm, torch.rms_norm)
LAYER_NORM = (F.layer_norm, torch.layer_norm)
MUL = (operator.mul, torch.mul, "mul")
ADD = (operator.add, torch.add, "add")
SILU = (F.silu,)
GELU = (F.gelu, torch.nn.functional.gelu)
TO = ("to", "float", "type_as")
POW = ("pow", torch.pow, operator.pow)
MEAN = ("mean", torch.mean)
RSQRT = (torch.rsqrt, "rsqrt")


@dataclass(frozen=True)
class Group:
    """Nodes whose result one hand-written kernel gives.

    Args:
        name: of the kernel's bench operator
        node: the last one, which the call takes the place of
        kernel, args, named: the call
        inputs: nodes of the tensors that it reads; the first has the shape and dtype that are asked for
        of_training: bench operators that together are a step with gradients; those of `name` alone without
    """

    name: str
    node: Node
    kernel: Callable[..., Any]
    args: tuple[Any, ...]
    named: dict[str, Any]
    inputs: tuple[Node, ...]
    of_training: tuple[str, ...]

    @property
    def value(self) -> torch.Tensor:
        return self.inputs[0].meta["example_value"]

    @property
    def has_gradient(self) -> bool:
        """Whether autograd records it."""
        return torch.is_grad_enabled() and any(node.meta["example_value"].requires_grad for node in self.inputs)

    def keys(self) -> list[Key]:
        """What has to be measured: rows by columns, however many axes the rows have."""
        *rows, columns = (int(size) for size in self.value.shape)
        names = self.of_training if self.has_gradient else (self.name,)
        return [(name, (math.prod(rows), columns)) for name in names]


def find_groups(graph: Graph) -> Iterator[Group]:
    """Every group of fixed shapes, in the graph's order; tensors of one floating-point dtype."""
    for node in graph.nodes:
        for match in MATCHES:
            group = match(node)
            if group is not None and _is_of_one_dtype(group):
                yield group
                break


def _is_of_one_dtype(group: Group) -> bool:
    values = [node.meta.get("example_value") for node in group.inputs]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    fixed = all(type(size) is int for tensor in tensors for size in tensor.shape)
    floats = [tensor for tensor in tensors if tensor.dtype.is_floating_point]
    alike = len({tensor.dtype for tensor in floats}) == 1 and len({tensor.device for tensor in tensors}) == 1
    out = group.node.meta.get("example_value")
    return len(tensors) == len(values) and fixed and alike and getattr(out, "dtype", None) == floats[0].dtype


def _is_call(node: object, targets: Sequence[object]) -> bool:
    return isinstance(node, Node) and node.op in ("call_function", "call_method") and node.target in targets


def _argument(node: Node, place: int, name: str, default: object = None) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


def _rank(node: object) -> int:
    value = node.meta.get("example_value") if isinstance(node, Node) else None
    return value.ndim if isinstance(value, torch.Tensor) else 0


def _softmax(node: Node) -> Group | None:
    for name, targets, kernel in (
        ("softmax", SOFTMAX, kernels.softmax),
        ("log_softmax", LOG_SOFTMAX, kernels.log_softmax),
    ):
        if not _is_call(node, targets):
            continue
        x, dim = _argument(node, 0, "input"), _argument(node, 1, "dim")
        is_last = _rank(x) > 0 and dim in (-1, _rank(x) - 1)
        if not is_last or node.kwargs.get("dtype") is not None or len(node.args) > 2:
            return None
        return Group(name, node, kernel, (x, -1), {}, (x,), (name, f"{name}_backward"))
    return None


def _norm(node: Node) -> Group | None:
    """torch's own calls, over the last axis, with a weight (and a bias)."""
    if _is_call(node, RMS_NORM):
        parts = [
            _argument(node, place, name) for place, name in enumerate(("input", "normalized_shape", "weight", "eps"))
        ]
        name, kernel, tensors = "rms_norm", kernels.rms_norm, (parts[0], parts[2])
    elif _is_call(node, LAYER_NORM):
        names = ("input", "normalized_shape", "weight", "bias", "eps")
        parts = [_argument(node, place, name, 1e-5 if name == "eps" else None) for place, name in enumerate(names)]
        name, kernel, tensors = "layer_norm", kernels.layer_norm, (parts[0], parts[2], parts[3])
    else:
        return None
    if len(parts[1]) != 1 or not all(isinstance(each, Node) for each in tensors):
        return None
    return Group(name, node, kernel, tuple(parts), {}, tensors, (name, f"{name}_backward"))


def _written_out_norm(node: Node) -> Group | None:
    """weight · (x · rsqrt(mean(x², −1) + eps)), with or without widening, as modeling code has it."""
    for weight, scaled in _sides(node):
        product = _without_casts(scaled)
        if _rank(weight) != 1 or not _is_call(product, MUL):
            continue
        for wide, root in _sides(product):
            eps = _eps_of(root, wide)
            x = _without_casts(wide)
            if eps is not None and isinstance(x, Node):
                columns = tuple(weight.meta["example_value"].shape)
                args = (x, columns, weight, eps)
                return Group(
                    "rms_norm", node, kernels.rms_norm, args, {}, (x, weight), ("rms_norm", "rms_norm_backward")
                )
    return None


def _sides(node: object) -> list[tuple[Node, Node]]:
    """Both orders of a product's two tensors."""
    if not (isinstance(node, Node) and _is_call(node, MUL)) or len(node.args) != 2:
        return []
    first, second = node.args
    if not (isinstance(first, Node) and isinstance(second, Node)):
        return []
    return [(first, second), (second, first)]


def _without_casts(node: object) -> object:
    while isinstance(node, Node) and _is_call(node, TO):
        node = node.args[0]
    return node


def _eps_of(root: Node, wide: Node) -> float | None:
    """eps of rsqrt(mean(wide², −1, keepdim) + eps)."""
    if not _is_call(root, RSQRT) or not _is_call(root.args[0], ADD):
        return None
    total = root.args[0]
    assert isinstance(total, Node)
    mean, eps = total.args
    if not _is_call(mean, MEAN) or not isinstance(eps, float):
        return None
    assert isinstance(mean, Node)
    square = mean.args[0]
    is_rows = _argument(mean, 1, "dim") in (-1, (-1,), [-1]) and _argument(mean, 2, "keepdim") is True
    if not (is_rows and isinstance(square, Node) and _is_call(square, POW)):
        return None
    return eps if square.args == (wide, 2) else None


def _gated(node: Node) -> Group | None:
    """silu(gate) · up and gelu(gate) · up, where nobody else reads the activation."""
    for gated, up in _sides(node):
        is_silu = _is_call(gated, SILU)
        if not (is_silu or _is_call(gated, GELU)) or len(gated.users) != 1:
            continue
        gate = gated.args[0]
        if not isinstance(gate, Node) or _shape(gate) != _shape(up):
            continue
        if is_silu:
            return Group("swiglu", node, kernels.swiglu, (gate, up), {}, (gate, up), ("swiglu", "swiglu_backward"))
        args = (gate, up, _argument(gated, 1, "approximate", "none"))
        return Group("geglu", node, kernels.geglu, args, {}, (gate, up), ("geglu", "geglu_backward"))
    return None


def _shape(node: Node) -> tuple[int, ...] | None:
    value = node.meta.get("example_value")
    return tuple(value.shape) if isinstance(value, torch.Tensor) else None


def _loss(node: Node) -> Group | None:
    """F.cross_entropy of a matrix and class indices, its mean."""
    if not _is_call(node, (F.cross_entropy,)) or len(node.args) > 2:
        return None
    x, target = _argument(node, 0, "input"), _argument(node, 1, "target")
    named = {
        name: value for name, value in node.kwargs.items() if name not in ("input", "target") and value is not None
    }
    known = set(named) <= {"ignore_index", "reduction", "label_smoothing"} and named.get("reduction", "mean") == "mean"
    if not known or (_rank(x), _rank(target)) != (2, 1) or target.meta["example_value"].dtype != torch.int64:
        return None
    return Group(
        "cross_entropy", node, kernels.cross_entropy, (x, target), named, (x, target), ("cross_entropy_both",)
    )  # fmt: skip


MATCHES = (_softmax, _norm, _written_out_norm, _gated, _loss)
