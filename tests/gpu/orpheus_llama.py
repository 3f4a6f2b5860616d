"""A Llama of Orpheus's shape in plain PyTorch: random weights, static cache, one CUDA graph a step.

For measuring what a GPU can do where nothing but PyTorch is installed. No kernel is written by
hand and nothing is compiled, so a serving engine should be faster, never slower. The cache is
read to its end at each step, whatever the position: a step costs what the last one of a piece
of ``context`` tokens costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it


@dataclass(frozen=True)
class Shape:
    """config.json of canopylabs/orpheus-3b-0.1-ft; the rotary scaling is left out, since it
    changes numbers and not their count."""

    hidden: int = 3072
    layers: int = 28
    heads: int = 24
    kv_heads: int = 8
    head_dim: int = 128
    intermediate: int = 8192
    vocabulary: int = 156_940
    theta: float = 500_000.0
    context: int = 1024


TINY = Shape(64, 2, 4, 2, 16, 128, 512, context=32)


class Linear:
    """A matrix (out, in): in 16 or 32 bits, or in FP8 with one scale, as the engine has it."""

    def __init__(self, out: int, width: int, device: torch.device, dtype: torch.dtype) -> None:
        self.weight = torch.empty(out, width, device=device, dtype=dtype).normal_(std=0.02)
        self.scale: torch.Tensor | None = None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self.scale is None:
            return F.linear(x, self.weight)
        # Inputs come out of a norm or a gate, so a fixed scale holds them; a real one would be
        # calibrated, and costs the same. An engine rounds within the kernel before; here it is
        # two kernels more.
        flat = x.reshape(-1, x.shape[-1])
        one = torch.ones_like(self.scale)
        rounded = flat.clamp(-448, 448).to(torch.float8_e4m3fn)
        out = torch._scaled_mm(
            rounded, self.weight.t(), scale_a=one, scale_b=self.scale, out_dtype=x.dtype
        )
        return out.view(*x.shape[:-1], -1)

    def to_fp8(self) -> None:
        scale = self.weight.float().abs().max() / 448
        self.weight = (self.weight / scale).to(torch.float8_e4m3fn)
        self.scale = scale


class Layer:
    def __init__(self, shape: Shape, device: torch.device, dtype: torch.dtype) -> None:
        width, of_heads = shape.hidden, shape.heads * shape.head_dim
        of_cache = 2 * shape.kv_heads * shape.head_dim
        self.norm = torch.ones(width, device=device, dtype=dtype)
        self.qkv = Linear(of_heads + of_cache, width, device, dtype)
        self.out = Linear(width, of_heads, device, dtype)
        self.mlp_norm = torch.ones(width, device=device, dtype=dtype)
        self.gate_up = Linear(2 * shape.intermediate, width, device, dtype)
        self.down = Linear(width, shape.intermediate, device, dtype)

    @property
    def linears(self) -> list[Linear]:
        return [self.qkv, self.out, self.gate_up, self.down]


class Llama:
    """All sequences of a batch are at the same position."""

    def __init__(self, shape: Shape, device: torch.device, dtype: torch.dtype) -> None:
        self.shape, self.device, self.dtype = shape, device, dtype
        self.embedding = Linear(shape.vocabulary, shape.hidden, device, dtype)  # and the head
        self.layers = [Layer(shape, device, dtype) for _ in range(shape.layers)]
        self.norm = torch.ones(shape.hidden, device=device, dtype=dtype)
        half = torch.arange(0, shape.head_dim, 2, device=device, dtype=torch.float32)
        turns = shape.theta ** (-half / shape.head_dim)
        angles = torch.arange(shape.context, device=device)[:, None] * turns
        self.cos, self.sin = angles.cos().to(dtype), angles.sin().to(dtype)
        self.places = torch.arange(shape.context, device=device)

    def cache(self, streams: int) -> torch.Tensor:
        """Zeros (layers, 2, streams, kv heads, context, head dim)."""
        s = self.shape
        size = (s.layers, 2, streams, s.kv_heads, s.context, s.head_dim)
        return torch.zeros(size, device=self.device, dtype=self.dtype)

    def step(self, ids: torch.Tensor, at: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        """Logits (streams, vocabulary) after one more token of each, ``ids`` (streams,) at the
        position ``at`` (1,); their keys and values are written to ``cache``."""
        s, x = self.shape, F.embedding(ids, self.embedding.weight)
        unseen = torch.zeros(s.context, device=self.device, dtype=self.dtype)
        unseen.masked_fill_(self.places > at, float("-inf"))
        mask = unseen.expand(1, 1, s.heads // s.kv_heads, s.context)
        cos, sin = self.cos[at], self.sin[at]
        for layer, (keys, values) in zip(self.layers, cache, strict=True):
            q, k, v = self._qkv(layer, x)
            q, k = _turned(q, cos, sin), _turned(k, cos, sin)
            keys.index_copy_(2, at, k[:, :, None])
            values.index_copy_(2, at, v[:, :, None])
            # The queries that share a key are rows of one product: no key is copied for them.
            grouped = q.view(-1, s.kv_heads, s.heads // s.kv_heads, s.head_dim)
            seen = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask)
            x = x + layer.out(seen.reshape(len(ids), -1))
            x = x + self._mlp(layer, x)
        return F.linear(self._normed(x, self.norm), self.embedding.weight)

    def whole(self, ids: torch.Tensor) -> torch.Tensor:
        """Logits (streams, tokens, vocabulary) of ``ids`` (streams, tokens), without a cache."""
        s, x = self.shape, F.embedding(ids, self.embedding.weight)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for layer in self.layers:
            q, k, v = (part.transpose(1, 2) for part in self._qkv(layer, x))
            q, k = _turned(q, cos, sin), _turned(k, cos, sin)
            k, v = (part.repeat_interleave(s.heads // s.kv_heads, 1) for part in (k, v))
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + layer.out(seen.transpose(1, 2).flatten(2))
            x = x + self._mlp(layer, x)
        return F.linear(self._normed(x, self.norm), self.embedding.weight)

    def to_fp8(self) -> None:
        """Round the layers, not the embedding and head, as ModelOpt's default does."""
        for layer in self.layers:
            for linear in layer.linears:
                linear.to_fp8()

    @property
    def bytes(self) -> int:
        """Of the weights that a step reads."""
        linears = [self.embedding, *(one for layer in self.layers for one in layer.linears)]
        return sum(one.weight.numel() * one.weight.element_size() for one in linears)

    def _qkv(self, layer: Layer, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        s = self.shape
        mixed = layer.qkv(self._normed(x, layer.norm)).unflatten(-1, (-1, s.head_dim))
        return mixed.split([s.heads, s.kv_heads, s.kv_heads], dim=-2)

    def _mlp(self, layer: Layer, x: torch.Tensor) -> torch.Tensor:
        gate, up = layer.gate_up(self._normed(x, layer.mlp_norm)).chunk(2, -1)
        return layer.down(F.silu(gate) * up)

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (self.shape.hidden,), weight, 1e-5)


class Decoding:
    """A batch that goes on by itself: the likeliest token of each stream is its next one."""

    def __init__(self, model: Llama, cache: torch.Tensor, begin: int) -> None:
        self.model, self.cache = model, cache
        streams = cache.shape[2]
        self.ids = torch.zeros(streams, device=model.device, dtype=torch.long)
        self.at = torch.full((1,), begin, device=model.device, dtype=torch.long)
        self.logits: torch.Tensor | None = None
        self._graph: torch.cuda.CUDAGraph | None = None

    def step(self) -> None:
        if self._graph is not None:
            self._graph.replay()
        else:
            self._step()

    def capture(self, pool: object) -> None:
        """From now on a step is one launch."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            self._step()
        self._graph = graph

    def _step(self) -> None:
        self.logits = self.model.step(self.ids, self.at, self.cache)
        self.ids.copy_(self.logits.argmax(-1))
        self.at.add_(1).remainder_(self.model.shape.context)


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
