"""Requests for embeddings are read as OpenAI's are, and answered so that openai's types hold."""

import base64
import json
from typing import Any

import numpy as np
import pytest
from openai.types import CreateEmbeddingResponse

from voice.wire.embeddings_api import (
    MOST_TEXTS,
    check_dimensions,
    embeddings_answer,
    embeddings_body,
)
from voice.wire.realtime_errors import WireError


def body(**fields: Any) -> Any:
    return embeddings_body(json.dumps({"model": "m", "input": "hello"} | fields).encode())


def test_one_text_or_several() -> None:
    assert body().texts == ["hello"]
    assert body(input=["a", "b"]).texts == ["a", "b"]
    assert body(user="u", unknown=1).encoding_format == "float"
    assert len(body(input=["a"] * MOST_TEXTS).texts) == MOST_TEXTS


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"input": [1, 2, 3]}, "unsupported_value", "input"),
        ({"input": [[1, 2], [3]]}, "unsupported_value", "input"),
        ({"input": ["a", 5]}, "unsupported_value", "input"),
        ({"input": []}, "invalid_value", "input"),
        ({"input": ""}, "invalid_value", "input"),
        ({"input": ["a", ""]}, "invalid_value", "input[1]"),
        ({"input": ["a", None]}, "invalid_type", "input[1]"),
        ({"input": ["a"] * (MOST_TEXTS + 1)}, "array_above_max_length", "input"),
        ({"input": None}, "invalid_type", "input"),
        ({"model": 5}, "invalid_type", "model"),
        ({"encoding_format": "hex"}, "invalid_value", "encoding_format"),
        ({"dimensions": 0}, "invalid_value", "dimensions"),
    ],
)
def test_what_cannot_be_is_refused_by_its_name(
    fields: dict[str, Any], code: str, param: str
) -> None:
    with pytest.raises(WireError) as refused:
        body(**fields)
    assert (refused.value.code, refused.value.param) == (code, param)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"input": "x"}', b"\xff", b"[" * 100_000])
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        embeddings_body(data)


def test_token_numbers_are_refused_with_what_to_do() -> None:
    with pytest.raises(WireError, match="check_embedding_ctx_length=False"):
        body(input=[[1, 2]])


def test_only_the_models_own_dimensions_can_be_asked_for() -> None:
    check_dimensions(body(), 384)
    check_dimensions(body(dimensions=384), 384)
    with pytest.raises(WireError, match="have 384, and cannot be cut") as refused:
        check_dimensions(body(dimensions=256), 384)
    assert refused.value.param == "dimensions"


@pytest.mark.parametrize("form", ["float", "base64"])
def test_answers_are_openais(form: str) -> None:
    vectors = np.array([[0.25, -0.5], [1.0, 1e-7]], np.float32)
    answer = embeddings_answer(body(encoding_format=form), vectors, "antiphon/minilm", 9)
    plain = json.loads(answer)
    if form == "base64":
        for each in plain["data"]:
            numbers = np.frombuffer(base64.b64decode(each["embedding"]), "<f4")
            each["embedding"] = numbers.tolist()
    read = CreateEmbeddingResponse.model_validate(plain, strict=True)
    assert [each.index for each in read.data] == [0, 1]
    np.testing.assert_array_equal([each.embedding for each in read.data], vectors)
    assert (read.model, read.usage.prompt_tokens, read.usage.total_tokens) == (
        "antiphon/minilm",
        9,
        9,
    )
