"""Graphs are written so that onnxruntime reads them."""

import numpy as np
import pytest

from engines.embedding.onnx_writing import Graph, Port, _varint
from engines.onnx_sessions import open_session


def test_a_graph_computes_what_its_nodes_say():
    weight = np.arange(6, dtype=np.float32).reshape(2, 3).T  # not contiguous
    graph = Graph([Port("x", np.float32, ("rows", 3))], [Port("y", np.float32, ("rows", 2))])
    product = graph.node("MatMul", ("x", graph.weight("w", weight)), "product")
    graph.node("LeakyRelu", (product,), "y", alpha=0.5)
    session = open_session(graph.model(), 1)
    x = np.array([[1, 2, 3], [-1, -2, -3]], np.float32)
    (y,) = session.run(None, {"x": x})
    expected = x @ weight
    np.testing.assert_allclose(y, np.where(expected > 0, expected, expected / 2))
    assert session.get_inputs()[0].shape == ["rows", 3]


def test_operators_of_other_sets_are_named_with_theirs():
    graph = Graph(
        [Port("x", np.float32, (2,))], [Port("y", np.float32, (2,))], {"com.microsoft": 1}
    )
    bias = graph.weight("b", np.zeros(2, np.float32))
    graph.node("BiasGelu", ("x", bias), "y", domain="com.microsoft")
    (y,) = open_session(graph.model(), 1).run(None, {"x": np.array([0, 10], np.float32)})
    np.testing.assert_allclose(y, [0, 10], atol=1e-5)


def test_whole_numbers_are_attributes_of_their_own_kind():
    graph = Graph([Port("x", np.int32, (2, 2))], [Port("y", np.int64, ("n",))])
    graph.node("ReduceSum", ("x", graph.weight("a", np.array([1], np.int64))), "s", keepdims=0)
    graph.node("Cast", ("s",), "y", to=7)
    (y,) = open_session(graph.model(), 1).run(None, {"x": np.array([[1, 2], [3, 4]], np.int32)})
    assert y.tolist() == [3, 7]


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**35, "808080808001")],
)
def test_numbers_take_seven_bits_a_byte(value, encoded):
    assert _varint(value).hex() == encoded
