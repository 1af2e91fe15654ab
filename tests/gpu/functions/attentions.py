"""Attention by torch's own operator and written out, forward and backward."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.gpu.functions.sample import sample

HEADS = ",".join(["bf16[2,8,512,64]"] * 3)
FLOATS = ",".join(["f32[2,8,500,64]"] * 3)


@sample(HEADS)
@sample(HEADS, backward=True)
@sample(HEADS, dynamic=True)
@sample(",".join(["f16[2,8,512,256]"] * 3))
@sample(",".join(["f32[2,8,512,64]"] * 3), backward=True)
@sample(",".join(["f64[2,8,128,64]"] * 3))
@sample(",".join(["bf16[2,8,512,100]"] * 3))
@sample(",".join(["bf16[8,512,64]"] * 3))
def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


@sample(",".join(["bf16[2,8,512,128]"] * 3))
@sample(",".join(["bf16[2,8,512,128]"] * 3), backward=True)
@sample(",".join(["f32[2,8,512,63]"] * 3))
@sample("bf16[2,8,64,64],bf16[2,8,512,64],bf16[2,8,512,64]")
def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@sample(HEADS + ",bool[512,512]")
@sample(",".join(["bf16[2,8,500,64]"] * 3) + ",bool[500,500]")
@sample(FLOATS + ",bool[2,1,500,500]")
@sample(HEADS + ",bf16[2,8,512,512]")
@sample(HEADS + ",bf16[2,8,512,512]", backward=True)
@sample(FLOATS + ",f32[1,8,500,500]")
def masked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@sample("bf16[2,8,512,64],bf16[2,2,512,64],bf16[2,2,512,64]")
@sample("bf16[2,8,512,64],bf16[2,2,512,64],bf16[2,2,512,64]", backward=True)
@sample("f32[2,8,512,64],f32[2,2,512,64],f32[2,2,512,64]")
def grouped_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


@sample(HEADS, backward=True)
def attention_with_dropout(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)


@sample("bf16[2,512,512],bf16[512,1536]")
@sample("bf16[2,512,512],bf16[512,1536]", backward=True)
@sample("bf16[2,512,512],bf16[512,1536]", dynamic=True)
def heads_of_rows(x: Tensor, w: Tensor) -> Tensor:
    batch, length, width = x.shape
    q, k, v = (part.view(batch, length, 8, -1).transpose(1, 2) for part in (x @ w).chunk(3, -1))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)


@sample(HEADS)
@sample(HEADS, backward=True)
def attention_by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q @ k.transpose(-1, -2)).float() / 8.0
    mask = torch.ones(512, 512, dtype=torch.bool, device=q.device).triu(1)
    return torch.softmax(scores.masked_fill(mask, float("-inf")), -1).to(q.dtype) @ v


@sample("f32[2,8,128,64],f32[2,8,128,64],f32[2,8,128,64]")
@sample("f32[2,8,128,64],f32[2,8,128,64],f32[2,8,128,64]", backward=True)
def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k = F.elu(q) + 1, F.elu(k) + 1
    context = k.transpose(-1, -2) @ v
    return (q @ context) / (q * k.sum(-2, keepdim=True)).sum(-1, keepdim=True)


@sample("bf16[2,8,1,64],bf16[2,8,1024,64],bf16[2,8,1024,64]")
def one_query(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


@sample(HEADS)
def attention_with_alibi(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    places = torch.arange(512, device=q.device)
    slopes = torch.exp2(-torch.arange(1, 9, device=q.device).float())
    bias = (-(places[None] - places[:, None]).abs() * slopes[:, None, None]).to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
