"""The fused graph is BERT: held to transformers' on weights drawn by lot."""

import numpy as np
import pytest

from engines.embedding.bert_graph import IDS, MASK, SHARES, graph_of
from engines.onnx_sessions import open_session


def test_small_models_of_any_depth_give_what_the_reference_gives():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(4)
    config = transformers.BertConfig(
        hidden_size=16,
        intermediate_size=24,
        num_attention_heads=2,
        num_hidden_layers=3,
        vocab_size=50,
        max_position_embeddings=12,
        initializer_range=0.5,
    )
    reference = transformers.BertModel(config, add_pooling_layer=False).eval()
    weights = {name: values.numpy() for name, values in reference.state_dict().items()}
    weights = {name: values for name, values in weights.items() if values.dtype == np.float32}
    session = open_session(graph_of(weights, 2), 1)
    ids = np.array([[3, 9, 1, 4, 7], [8, 2, 0, 0, 0]], np.int32)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], np.int32)
    shares = (mask / mask.sum(1, keepdims=True)).astype(np.float32)[:, None]
    (made,) = session.run(None, {IDS: ids, MASK: mask, SHARES: shares})
    assert made.shape == (2, 1, 16)
    with torch.no_grad():
        hidden = reference(
            input_ids=torch.tensor(ids.astype(np.int64)), attention_mask=torch.tensor(mask)
        )[0].numpy()
    for row, count in enumerate((5, 2)):
        np.testing.assert_allclose(made[row, 0], hidden[row, :count].mean(0), atol=2e-4)
