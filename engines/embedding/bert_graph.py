"""BERT's encoder (arXiv 1810.04805) as an ONNX graph of fused operators, made from its weights.

The operators are onnxruntime's own, so that there is nothing to be fused when it is loaded: see
https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from engines.embedding.onnx_writing import Graph, Port
from engines.ports import FloatArray

IDS: Final = "ids"
MASK: Final = "mask"
SHARES: Final = "shares"
EPSILON: Final = 1e-12
_FUSED: Final = "com.microsoft"

Weights = Mapping[str, FloatArray]


def graph_of(weights: Weights, heads: int) -> bytes:
    """A model's bytes. Its inputs: token ids and a mask of ones where there are any, int32, both
    (texts, tokens); and the share of each token in its text's vector, float32, (texts, 1, tokens).
    Its output: one vector for each text, (texts, 1, width), not yet of length 1.
    """
    width = weights["embeddings.word_embeddings.weight"].shape[1]
    graph = Graph(
        [
            Port(IDS, np.int32, ("texts", "tokens")),
            Port(MASK, np.int32, ("texts", "tokens")),
            Port(SHARES, np.float32, ("texts", 1, "tokens")),
        ],
        [Port("vectors", np.float32, ("texts", 1, width))],
        {_FUSED: 1},
    )
    hidden, layer = _embedded(graph, weights), 0
    while f"encoder.layer.{layer}.output.dense.weight" in weights:
        hidden = _Layer(graph, weights, f"encoder.layer.{layer}").append(hidden, heads)
        layer += 1
    graph.node("MatMul", (SHARES, hidden), "vectors")
    return graph.model()


def _embedded(graph: Graph, weights: Weights) -> str:
    def keep(name: str, values: FloatArray | None = None) -> str:
        kept = weights[f"embeddings.{name}"] if values is None else values
        return graph.weight(f"embeddings.{name}", kept)

    # All tokens are of the first kind: texts are not compared in pairs.
    kind = weights["embeddings.token_type_embeddings.weight"][0]
    places = weights["embeddings.position_embeddings.weight"] + kind
    inputs = (
        IDS,
        "",
        keep("word_embeddings.weight"),
        keep("position_embeddings.weight", places),
        "",
        keep("LayerNorm.weight"),
        keep("LayerNorm.bias"),
    )
    outputs = ("embedded", "lengths")  # nobody reads the second, and it must be there
    return graph.node("EmbedLayerNormalization", inputs, *outputs, domain=_FUSED, epsilon=EPSILON)


class _Layer:
    """A layer's nodes; ``name`` is that of its weights."""

    def __init__(self, graph: Graph, weights: Weights, name: str) -> None:
        self._graph = graph
        self._weights = weights
        self._name = name

    def append(self, hidden: str, heads: int) -> str:
        """Attention, then each token by itself, both added to what there was."""
        graph = self._graph
        joined = [self._joined(part) for part in ("weight", "bias")]
        inputs = (hidden, *joined, MASK)
        mixed = graph.node("Attention", inputs, self._new("mixed"), domain=_FUSED, num_heads=heads)
        hidden = self._added(self._product(mixed, "attention.output"), hidden, "attention.output")
        wide = self._product(hidden, "intermediate")
        inputs = (wide, self._kept("intermediate.dense.bias"))
        bent = graph.node("BiasGelu", inputs, self._new("bent"), domain=_FUSED)
        return self._added(self._product(bent, "output"), hidden, "output")

    def _product(self, hidden: str, part: str) -> str:
        name = f"{part}.dense.weight"
        weight = self._graph.weight(self._new(name), self._weights[f"{self._name}.{name}"].T)
        return self._graph.node("MatMul", (hidden, weight), self._new(f"{part}.product"))

    def _added(self, new: str, old: str, part: str) -> str:
        norms = [self._kept(f"{part}.LayerNorm.{each}") for each in ("weight", "bias")]
        inputs = (new, old, *norms, self._kept(f"{part}.dense.bias"))
        name = self._new(f"{part}.normed")
        return self._graph.node(
            "SkipLayerNormalization", inputs, name, domain=_FUSED, epsilon=EPSILON
        )

    def _joined(self, part: str) -> str:
        """Query, key and value side by side, as the fused attention takes them."""
        prefix = f"{self._name}.attention.self"
        each = [self._weights[f"{prefix}.{name}.{part}"].T for name in ("query", "key", "value")]
        return self._graph.weight(self._new(f"attention.self.{part}"), np.concatenate(each, -1))

    def _kept(self, name: str) -> str:
        return self._graph.weight(self._new(name), self._weights[f"{self._name}.{name}"])

    def _new(self, name: str) -> str:
        return f"{self._name}.{name}"
