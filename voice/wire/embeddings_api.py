"""OpenAI's embeddings endpoint as types: what a client may ask for, and what it is answered.

See https://platform.openai.com/docs/api-reference/embeddings/create. Fields that we do not know are
let pass, so that newer clients work; values that we cannot give are refused.
"""

from __future__ import annotations

import base64
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from engines.ports import FloatArray
from voice.wire.realtime_errors import WireError, wire_error

MOST_TEXTS: Final = 2_048
"""As many as OpenAI's takes."""

_TOKENS: Final = (
    "Invalid value for 'input': it holds token numbers, and those of one model mean nothing to"
    " another. Send text (in LangChain: check_embedding_ctx_length=False)."
)


class EmbeddingsBody(Struct):
    """The body of POST /v1/embeddings. ``texts`` is what it holds."""

    input: str | list[Any]
    model: str
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Meta(ge=1)] | None = None

    @property
    def texts(self) -> list[Any]:
        """One or several, in order; they have been looked at."""
        return [self.input] if isinstance(self.input, str) else self.input


class _Embedding(Struct):
    embedding: msgspec.Raw | str
    index: int
    object: Literal["embedding"] = "embedding"


class _Usage(Struct):
    prompt_tokens: int
    total_tokens: int


class _Embeddings(Struct):
    data: list[_Embedding]
    model: str
    usage: _Usage
    object: Literal["list"] = "list"


def embeddings_body(data: bytes) -> EmbeddingsBody:
    """A request as it came. Raises WireError."""
    try:
        body = msgspec.json.decode(data, type=EmbeddingsBody)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise wire_error(error, kind=EmbeddingsBody) from error
    texts = body.texts
    if any(isinstance(text, int | list) for text in texts):
        raise WireError("unsupported_value", _TOKENS, "input")
    if not texts:
        raise WireError("invalid_value", "Invalid value for 'input': it is empty.", "input")
    if len(texts) > MOST_TEXTS:
        told = f"Invalid value for 'input': it has {len(texts)} texts, and {MOST_TEXTS} are the"
        raise WireError("array_above_max_length", f"{told} most: send several requests.", "input")
    for place, text in enumerate(texts):
        name = "input" if isinstance(body.input, str) else f"input[{place}]"
        if not isinstance(text, str):
            told = f"Invalid type for '{name}': expected text."
            raise WireError("invalid_type", told, name)
        if not text:
            raise WireError("invalid_value", f"Invalid value for '{name}': it is empty.", name)
    return body


def check_dimensions(body: EmbeddingsBody, dimensions: int) -> None:
    """Raises WireError where other vectors are asked for than the model has. Cut ones would be of
    little use, unless a model was trained for it."""
    if body.dimensions not in (None, dimensions):
        told = (
            f"Invalid value for 'dimensions': the model's vectors have {dimensions}, and cannot be"
            " cut. Leave it out."
        )
        raise WireError("unsupported_value", told, "dimensions")


def embeddings_answer(body: EmbeddingsBody, vectors: FloatArray, model: str, tokens: int) -> bytes:
    """The whole answer. ``vectors`` (texts, dimensions)."""
    data = [_Embedding(_written(body, vector), place) for place, vector in enumerate(vectors)]
    return msgspec.json.encode(_Embeddings(data, model, _Usage(tokens, tokens)))


def _written(body: EmbeddingsBody, vector: FloatArray) -> msgspec.Raw | str:
    """By itself: to write all of them at once would keep calls' threads waiting for 100 ms."""
    if body.encoding_format == "float":
        return msgspec.Raw(msgspec.json.encode(vector.tolist()))
    return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
