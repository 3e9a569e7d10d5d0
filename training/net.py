"""A small Llama: RMSNorm, RoPE on adjacent pairs (llama.cpp's order for it), SwiGLU, tied embeddings."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FUSED_FROM = 768  # below this length plain matmuls beat the fused bf16 attention on a CPU


@dataclass(frozen=True)
class Shape:
    dim: int
    layers: int
    heads: int
    kv_heads: int
    hidden: int
    vocab: int = 1024
    context: int = 2048
    theta: float = 10000.0
    epsilon: float = 1e-5

    @property
    def head_dim(self) -> int:
        return self.dim // self.heads


SHAPES = {
    "spark": Shape(dim=96, layers=4, heads=3, kv_heads=3, hidden=192),
    "ember": Shape(dim=128, layers=5, heads=4, kv_heads=2, hidden=320),
}


class Norm(nn.Module):
    def __init__(self, dim: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), self.epsilon)


def angles(shape: Shape) -> tuple[Tensor, Tensor]:
    rates = shape.theta ** (-torch.arange(0, shape.head_dim, 2).float() / shape.head_dim)
    turned = torch.outer(torch.arange(shape.context).float(), rates)
    return turned.cos(), turned.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns each adjacent pair of the last dimension by its position's angle."""
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


class Block(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        kv = shape.kv_heads * shape.head_dim
        self.attn_norm = Norm(shape.dim, shape.epsilon)
        self.qkv = nn.Linear(shape.dim, shape.dim + 2 * kv, bias=False)
        self.out = nn.Linear(shape.dim, shape.dim, bias=False)
        self.ffn_norm = Norm(shape.dim, shape.epsilon)
        self.gate_up = nn.Linear(shape.dim, 2 * shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.dim, bias=False)

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        s, (batch, length, _) = self.shape, x.shape
        kv = s.kv_heads * s.head_dim
        q, k, v = self.qkv(x).split([s.dim, kv, kv], dim=-1)
        q = rotate(q.view(batch, length, s.heads, s.head_dim).transpose(1, 2), cos, sin)
        k = rotate(k.view(batch, length, s.kv_heads, s.head_dim).transpose(1, 2), cos, sin)
        v = v.view(batch, length, s.kv_heads, s.head_dim).transpose(1, 2)
        if s.kv_heads != s.heads:
            k, v = (t.repeat_interleave(s.heads // s.kv_heads, dim=1) for t in (k, v))
        if length >= FUSED_FROM:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = ((q @ k.transpose(-1, -2)) * s.head_dim**-0.5 + mask).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, length, s.dim))  # type: ignore[no-any-return]

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        x = x + self.attend(self.attn_norm(x), cos, sin, mask)
        gate, up = self.gate_up(self.ffn_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)  # type: ignore[no-any-return]


class Net(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocab, shape.dim)
        self.stack = [Block(shape) for _ in range(shape.layers)]
        self.blocks = nn.ModuleList(self.stack)
        self.norm = Norm(shape.dim, shape.epsilon)
        self.cos, self.sin = (turned.bfloat16() for turned in angles(shape))
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.5 * shape.dim**-0.5)

    def hidden(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        x = self.embed(ids).to(torch.bfloat16)
        mask = x
        if length < FUSED_FROM:
            mask = torch.full((length, length), float("-inf"), dtype=x.dtype).triu(1)
        for block in self.stack:
            x = block(x, self.cos[:length], self.sin[:length], mask)
        return self.norm(x)  # type: ignore[no-any-return]

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.embed.weight)
