"""What attention is asked for, checked and brought into the form that its kernels take."""

from __future__ import annotations

from typing import Any

import torch

from tilesight.kernels.attention_plan import LARGEST_HEAD, UNBOUNDED

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
MOST_SEQUENCES = 1 << 14
"""That a program counts the blocks of."""


def in_autocast(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors in autocast's dtype where it is on, as torch does for its own attention."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    return tuple(each.to(torch.get_autocast_dtype(device)) for each in tensors)


def require_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, enable_gqa: bool) -> None:
    """Raises: as `attention`, for dtypes, devices and shapes of the three tensors"""
    tensors = {"query": query, "key": key, "value": value}
    for dtype in (each.dtype for each in tensors.values()):
        if dtype not in DTYPES:
            raise TypeError(f"attention takes float16, bfloat16 or float32, not {dtype}")
    for what in ("dtype", "device"):
        found = {name: getattr(each, what) for name, each in tensors.items()}
        if len(set(found.values())) > 1:
            raise RuntimeError(f"expected query, key and value of one {what}, got {_listed(found)}")
    got = f"got {_listed({name: list(each.shape) for name, each in tensors.items()})}"
    if len({each.ndim for each in tensors.values()}) > 1 or query.ndim < 2:
        raise RuntimeError(f"expected query, key and value of as many axes, at least 2, {got}")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2] or key.shape[:-2] != value.shape[:-2]:
        raise RuntimeError(f"expected as many keys as values, and keys as wide as queries, {got}")
    _require_heads(query, key, enable_gqa, got)
    if max(query.shape[-1], value.shape[-1]) > LARGEST_HEAD:
        raise ValueError(f"attention takes heads of up to {LARGEST_HEAD} elements, {got}")


def _require_heads(query: torch.Tensor, key: torch.Tensor, enable_gqa: bool, got: str) -> None:
    if query.shape[:-3] != key.shape[:-3]:
        raise RuntimeError(f"expected query and key of one batch, without broadcasting, {got}")
    if query.shape[:-2] == key.shape[:-2]:
        return
    if not enable_gqa:
        raise RuntimeError(f"expected as many heads of the key as of the query; enable_gqa=True allows fewer, {got}")
    heads, kv_heads = query.shape[-3], key.shape[-3]
    if kv_heads == 0 or heads % kv_heads:
        raise RuntimeError(f"the number of heads of key and value must divide the query's, {got}")


def _listed(found: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in found.items())


def four_axes(tensor: torch.Tensor) -> torch.Tensor:
    """[..., rows, head] as [batch, heads, rows, head]."""
    if tensor.ndim > 4:
        return tensor.flatten(0, tensor.ndim - 4)
    return tensor[(None,) * (4 - tensor.ndim)]


def window_bounds(window: Any, is_causal: bool) -> tuple[int, int]:
    """(left, right): how many keys before and after its own place a query sees.

    Args:
        window: a pair of numbers, or None
    Raises: ValueError: for a window that is no pair of numbers from −1
    """
    sides = (-1, -1) if window is None else tuple(window)
    if len(sides) != 2 or any(not isinstance(side, int) or side < -1 for side in sides):
        raise ValueError(f"window must be two numbers of keys, or -1 for no bound, got {window}")
    left, right = (UNBOUNDED if side < 0 else min(side, UNBOUNDED) for side in sides)
    return left, 0 if is_causal else right


def expanded_mask(mask: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """The mask as [batch, heads, queries, keys], without a copy.

    Raises: RuntimeError: for a dtype, device or shape that does not fit, or where its gradient is wanted
    """
    if mask.dtype not in (torch.bool, torch.float32, query.dtype):
        raise RuntimeError(f"expected attn_mask of bool, float32 or the query's {query.dtype}, got {mask.dtype}")
    if mask.device != query.device:
        raise RuntimeError(f"expected attn_mask on the query's {query.device}, got {mask.device}")
    if mask.requires_grad and torch.is_grad_enabled():
        raise RuntimeError("attention has no gradient of attn_mask; give it detached")
    wanted = (*query.shape[:-1], key.shape[-2])
    pairs = zip(reversed(mask.shape), reversed(wanted), strict=False)
    if mask.ndim > len(wanted) or any(mine not in (1, size) for mine, size in pairs):
        raise RuntimeError(f"attn_mask of shape {list(mask.shape)} does not broadcast to {list(wanted)}")
    return four_axes(mask.expand(wanted))


def require_starts(
    starts: torch.Tensor | None,
    key_starts: torch.Tensor | None,
    query: torch.Tensor,
    key: torch.Tensor,
    mask: torch.Tensor | None,
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Where sequences begin among queries and among keys: int32 [sequences + 1] each, or None twice.

    What they hold is checked on the CPU alone; on a GPU that would wait for it, and kernels keep inside the tensors.

    Raises: as `attention`
    """
    if starts is None:
        if key_starts is not None:
            raise ValueError("cu_seqlens_key needs cu_seqlens")
        return None, None
    key_starts = starts if key_starts is None else key_starts
    if mask is not None:
        raise RuntimeError("attention does not support attn_mask together with cu_seqlens")
    if query.shape[0] != 1:
        raise RuntimeError(f"with cu_seqlens the batch is 1, got query {list(query.shape)}")
    if starts.shape != key_starts.shape:
        raise ValueError(f"cu_seqlens is {list(starts.shape)}, cu_seqlens_key {list(key_starts.shape)}")
    return _starts("cu_seqlens", starts, query), _starts("cu_seqlens_key", key_starts, key)


def _starts(name: str, starts: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    if starts.ndim != 1 or not 1 <= starts.numel() <= MOST_SEQUENCES + 1 or starts.dtype.is_floating_point:
        raise ValueError(
            f"{name} must be int32 of 1 to {MOST_SEQUENCES + 1:,} numbers, got {starts.dtype} {list(starts.shape)}"
        )
    if starts.device != rows.device:
        raise RuntimeError(f"expected {name} on the query's {rows.device}, got {starts.device}")
    if not starts.is_cuda and not torch.compiler.is_compiling():
        numbers = starts.tolist()
        if numbers != sorted(numbers) or numbers[0] < 0 or numbers[-1] > rows.shape[2]:
            raise ValueError(f"{name} must rise from 0 to at most {rows.shape[2]}, got {numbers}")
    return starts.to(torch.int32).contiguous()


def require_decoding(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_table: torch.Tensor,
    lengths: torch.Tensor,
    scale: float,
) -> None:
    """Raises: as `decode_attention`"""
    floats = {"query": query, "key_cache": key_cache, "value_cache": value_cache}
    tensors = {**floats, "block_table": block_table, "lengths": lengths}
    for dtype in (each.dtype for each in floats.values()):
        if dtype not in DTYPES:
            raise TypeError(f"decode_attention takes float16, bfloat16 or float32, not {dtype}")
    got = f"got {_listed({name: f'{each.dtype} {list(each.shape)}' for name, each in tensors.items()})}"
    if len({each.dtype for each in floats.values()}) > 1:
        raise RuntimeError(f"decode_attention: query and caches must have one dtype, {got}")
    if any(each.dtype not in (torch.int32, torch.int64) for each in (block_table, lengths)):
        raise RuntimeError(f"decode_attention: block_table and lengths must be int32, {got}")
    if len({each.device for each in tensors.values()}) > 1:
        raise RuntimeError(
            f"decode_attention: expected one device, got {_listed({n: t.device for n, t in tensors.items()})}"
        )
    if [each.ndim for each in tensors.values()] != [3, 4, 4, 2, 1] or not _fit(*tensors.values()):
        raise RuntimeError(
            "decode_attention: expected query [sequences, heads, head], key_cache [pages, tokens, kv heads, head],"
            f" value_cache the same, block_table [sequences, pages], lengths [sequences], {got}"
        )
    if max(query.shape[-1], value_cache.shape[-1]) > LARGEST_HEAD:
        raise ValueError(f"decode_attention takes heads of up to {LARGEST_HEAD} elements, {got}")
    if not scale > 0:
        raise ValueError(f"decode_attention takes a scale above 0, got {scale}")
    if not lengths.is_cuda and not torch.compiler.is_compiling() and lengths.numel():
        _require_pages(key_cache, block_table, lengths)


def _fit(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor) -> bool:
    is_cache = k.shape[:3] == v.shape[:3] and k.shape[3] == q.shape[2]
    is_grouped = k.shape[2] > 0 and q.shape[1] % k.shape[2] == 0
    return is_cache and is_grouped and q.shape[0] == table.shape[0] == lengths.shape[0]


def _require_pages(cache: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor) -> None:
    pages, tokens = cache.shape[:2]
    most = table.shape[1] * tokens
    if int(lengths.min()) < 0 or int(lengths.max()) > most:
        raise IndexError(f"decode_attention: lengths must be 0 to {most}, got {lengths.tolist()}")
    used = torch.arange(table.shape[1])[None, :] * tokens < lengths[:, None]
    wrong = table[used & ((table < 0) | (table >= pages))]
    if wrong.numel():
        raise IndexError(f"decode_attention: block_table must name pages 0 to {pages - 1}, got {int(wrong[0])}")
