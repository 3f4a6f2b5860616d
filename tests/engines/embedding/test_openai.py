"""The remote embedder against a server that says whatever a test wants."""

import base64
import json
from contextlib import asynccontextmanager

import numpy as np
import pytest

from engines.embedding.openai import Options, create
from engines.ports import EmbeddingRequest, EngineError

KEY = "sk-very-secret-0123456789"


def whole(body, status="200 OK"):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def answer_of(*rows, encoded=True, tokens=3):
    def told(row):
        return base64.b64encode(np.array(row, "<f4")).decode() if encoded else row

    data = [{"index": n, "embedding": told(row)} for n, row in enumerate(rows)]
    return {"object": "list", "data": data[::-1], "usage": {"prompt_tokens": tokens}}


@pytest.fixture
def asking(serve_http):
    @asynccontextmanager
    async def asking(*answers, **options):
        left = list(answers)

        def answer(*_):
            given = left.pop(0) if len(left) > 1 else left[0]
            return given if isinstance(given, list) else [given]

        async with serve_http(answer) as server:
            settings = {"base_url": f"{server.url}/v1", "model": "m", "retries": 0} | options
            engine = create(Options(**settings), None)
            try:
                yield engine, server
            finally:
                await engine.close()

    return asking


async def embed(engine, *texts):
    async with engine.open(EmbeddingRequest(texts)) as stream:
        [embeddings] = [each async for each in stream]
    return embeddings


@pytest.mark.parametrize("encoded", [True, False])
async def test_vectors_come_in_order_and_have_length_one(asking, encoded):
    answer = whole(answer_of([3.0, 4.0], [0.0, 2.0], encoded=encoded))
    async with asking(answer, api_key=KEY, dimensions=2) as (engine, server):
        made = await embed(engine, "one", "two")
    np.testing.assert_allclose(made.vectors, [[0.6, 0.8], [0, 1]], atol=1e-6)
    assert made.model == "m"
    assert made.tokens == 3
    line, headers, body = server.requests[0]
    assert line.startswith("POST /v1/embeddings")
    assert headers["authorization"] == f"bearer {KEY}"
    assert json.loads(body) == {
        "model": "m",
        "input": ["one", "two"],
        "encoding_format": "base64",
        "dimensions": 2,
    }


async def test_many_texts_are_sent_in_parts(asking):
    parts = (whole(answer_of([1, 0], [0, 1])), whole(answer_of([1, 0])))
    async with asking(*parts, texts=2) as (engine, server):
        made = await embed(engine, "a", "b", "c")
    assert made.vectors.shape == (3, 2)
    assert made.tokens == 6
    assert [json.loads(body)["input"] for _, _, body in server.requests] == [["a", "b"], ["c"]]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("400 Bad Request", "bad_request"),
        ("401 Unauthorized", "unauthorized"),
        ("429 Too Many Requests", "rate_limited"),
        ("503 Service Unavailable", "unavailable"),
    ],
)
async def test_a_refusal_is_told_in_the_words_of_the_endpoint(asking, status, code):
    said = {"error": {"message": f"no, {KEY} is not for this"}}
    async with asking(whole(said, status), api_key=KEY) as (engine, _):
        with pytest.raises(EngineError, match="is not for this") as refused:
            await engine.warm_up()
    assert refused.value.code == code
    assert KEY not in str(refused.value)


async def test_what_passes_is_tried_again(asking):
    busy = whole({}, "503 Service Unavailable")
    async with asking(busy, busy, whole(answer_of([1, 0])), retries=2) as (engine, server):
        await embed(engine, "a")
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        answer_of([1, 0]),
        answer_of([1, 0], [1, 0, 0]),
        answer_of([0, 0], [1, 0]),
        answer_of([float("nan"), 0], [1, 0]),
        {"data": [{"index": 0, "embedding": "???"}, {"index": 1, "embedding": "???"}]},
    ],
)
async def test_what_is_no_answer_is_told(asking, body):
    async with asking(whole(body)) as (engine, _):
        with pytest.raises(EngineError) as refused:
            await embed(engine, "a", "b")
    assert refused.value.code == "bad_response"


async def test_a_server_that_is_not_there_or_silent_is_told(asking):
    async with asking([...]) as (engine, _):
        with pytest.raises(EngineError, match="is it running") as gone:
            await embed(engine, "a")
    assert gone.value.code == "unavailable"
    async with asking([None], timeout_s=0.05) as (engine, _):
        with pytest.raises(EngineError, match=r"nothing for 0\.05 s") as silent:
            await embed(engine, "a")
    assert silent.value.code == "timeout"


def test_a_model_must_be_named():
    with pytest.raises(EngineError, match=r"set \[embedding\] model"):
        create(Options(), None)
