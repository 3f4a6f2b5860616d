"""Embeddings through the stock openai client."""

import asyncio
import base64
from typing import Any

import numpy as np
import pytest
from openai import (
    AuthenticationError,
    BadRequestError,
    InternalServerError,
    NotFoundError,
    RateLimitError,
)

from engines.embedding.minilm import Options, create
from engines.embedding.scripted import Options as ScriptedOptions
from engines.embedding.scripted import ScriptedEmbedder
from engines.models import ModelStore
from engines.ports import EmbeddingRequest, EngineError, Priority
from pipelines.strain import Strain
from tests.voice.conftest import eventually
from tests.voice.doors.stock import plain_client, stock_client


class Embedder(ScriptedEmbedder):
    """Notes what it is asked; waits for ``goes_on`` where there is one."""

    def __init__(self, **options: Any) -> None:
        super().__init__(ScriptedOptions(**options))
        self.requests: list[EmbeddingRequest] = []
        self.asked = asyncio.Event()
        self.goes_on: asyncio.Event | None = None

    async def _embeddings(self, request: EmbeddingRequest) -> Any:
        self.requests.append(request)
        self.asked.set()
        if self.goes_on is not None:
            await self.goes_on.wait()
        async for embeddings in super()._embeddings(request):
            yield embeddings


def url_of(server: Any) -> str:
    return f"http://127.0.0.1:{server.port}/v1/embeddings"


async def test_the_stock_client_gets_its_numbers_whichever_way_it_asks(serve: Any) -> None:
    server = await serve(embedder=Embedder())
    async with stock_client(server) as client:
        usual = await client.embeddings.create(model="any", input=["one two", "three"])
        plain = await client.embeddings.create(
            model="any", input=["one two", "three"], encoding_format="float"
        )
        one = await client.embeddings.create(model="any", input="three", dimensions=64)
    np.testing.assert_allclose(
        [each.embedding for each in usual.data], [each.embedding for each in plain.data], atol=1e-7
    )
    assert one.data[0].embedding == usual.data[1].embedding
    assert len(one.data[0].embedding) == 64
    assert np.linalg.norm(one.data[0].embedding) == pytest.approx(1, abs=1e-5)
    assert (usual.model, usual.object) == ("antiphon/scripted", "list")
    assert (usual.usage.prompt_tokens, usual.usage.total_tokens) == (3, 3)


async def test_base64_is_sent_as_it_is_asked_for(serve: Any) -> None:
    server = await serve(embedder=Embedder())
    async with plain_client(server) as client:
        body = {"model": "m", "input": "hello", "encoding_format": "base64"}
        answer = (await client.post(url_of(server), json=body)).json()
    numbers = np.frombuffer(base64.b64decode(answer["data"][0]["embedding"]), "<f4")
    assert len(numbers) == 64


async def test_many_texts_are_embedded_in_parts_as_work_that_may_wait(serve: Any) -> None:
    embedder = Embedder()
    server = await serve(embedder=embedder)
    texts = [f"word{n}" for n in range(70)]
    async with stock_client(server) as client:
        answer = await client.embeddings.create(model="m", input=texts)
    assert [len(request.texts) for request in embedder.requests] == [32, 32, 6]
    assert {request.priority for request in embedder.requests} == {Priority.BATCH}
    assert all(request.call.startswith("file_") for request in embedder.requests)
    assert [each.index for each in answer.data] == list(range(70))
    assert answer.usage.total_tokens == 70


@pytest.mark.parametrize(
    ("fields", "told", "param"),
    [
        ({"input": [[1, 2]]}, "token numbers", "input"),
        ({"input": []}, "it is empty", "input"),
        ({"input": "x", "dimensions": 32}, "cannot be cut", "dimensions"),
    ],
)
async def test_what_cannot_be_is_refused_as_openai_does(
    serve: Any, fields: Any, told: str, param: str
) -> None:
    server = await serve(embedder=Embedder())
    async with stock_client(server) as client:
        with pytest.raises(BadRequestError, match=told) as refused:
            await client.embeddings.create(model="m", **fields)
    assert refused.value.param == param
    assert refused.value.type == "invalid_request_error"


async def test_a_body_that_is_too_long_is_not_read(serve: Any) -> None:
    server = await serve(embedder=Embedder())
    async with stock_client(server) as client:
        with pytest.raises(Exception, match="more than the 8388608 bytes"):
            await client.embeddings.create(model="m", input="x" * 9_000_000)


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("bad_request", 400, BadRequestError),
        ("rate_limited", 429, RateLimitError),
        ("unavailable", 503, InternalServerError),
        ("failed", 500, InternalServerError),
    ],
)
async def test_what_fails_is_told_with_its_status(
    serve: Any, code: str, status: int, kind: type[Exception]
) -> None:
    server = await serve(embedder=Embedder(fail_code=code))
    async with stock_client(server) as client:
        with pytest.raises(kind) as failed:
            await client.embeddings.create(model="m", input="x")
    assert failed.value.status_code == status  # type: ignore[attr-defined]
    assert failed.value.code == f"engine_{code}"  # type: ignore[attr-defined]


async def test_a_later_text_that_fails_is_told_with_where_it_is(serve: Any) -> None:
    class Picky(Embedder):
        async def _embeddings(self, request: EmbeddingRequest) -> Any:
            if "long" in request.texts:
                place = request.texts.index("long")
                raise EngineError("picky", "bad_request", f"text {place} is too long")
            async for embeddings in super()._embeddings(request):
                yield embeddings

    server = await serve(embedder=Picky())
    async with stock_client(server) as client:
        with pytest.raises(BadRequestError, match="counted from text 32 on, text 5 is too long"):
            await client.embeddings.create(model="m", input=["x"] * 37 + ["long"])
        with pytest.raises(BadRequestError, match="picky: text 1 is too long"):
            await client.embeddings.create(model="m", input=["x", "long"])


async def test_without_an_embedder_it_says_what_to_set(serve: Any) -> None:
    server = await serve()
    async with stock_client(server) as client:
        with pytest.raises(InternalServerError, match=r"see \[embedding\] engine") as failed:
            await client.embeddings.create(model="m", input="x")
    assert failed.value.status_code == 503


async def test_it_is_for_those_who_have_a_key(serve: Any) -> None:
    server = await serve("server.api_keys=key1", embedder=Embedder())
    async with stock_client(server, "key2") as stranger:
        with pytest.raises(AuthenticationError):
            await stranger.embeddings.create(model="m", input="x")


async def test_calls_that_need_everything_stop_it_and_it_begins_again(serve: Any) -> None:
    embedder = Embedder()
    embedder.goes_on = asyncio.Event()
    server = await serve(embedder=embedder)
    async with stock_client(server) as client:
        asked = asyncio.create_task(client.embeddings.create(model="m", input="x"))
        await embedder.asked.wait()
        server.house.strain = Strain.NO_FILES
        server.house.reception.settle()
        displaced = server.house.metrics.files_displaced._value
        await eventually(lambda: displaced.get() == 1)
        embedder.goes_on.set()
        server.house.strain = Strain.NONE
        server.house.reception.settle()
        answer = await asked
    assert len(answer.data) == 1
    assert len(embedder.requests) == 2


async def test_a_client_who_goes_is_not_worked_for(serve: Any) -> None:
    embedder = Embedder()
    embedder.goes_on = asyncio.Event()
    server = await serve(embedder=embedder)
    async with plain_client(server) as client:
        body = {"model": "m", "input": ["x"] * 40}
        asked = asyncio.create_task(client.post(url_of(server), json=body))
        await embedder.asked.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
    await eventually(lambda: server.house.files.count == 0)
    assert len(embedder.requests) == 1


async def test_it_is_listed_among_the_models(serve: Any) -> None:
    server = await serve("embedding.engine=minilm", embedder=Embedder())
    async with stock_client(server) as client:
        listed = [model.id async for model in client.models.list()]
        assert listed[-1] == "antiphon/minilm"
        assert (await client.models.retrieve("antiphon/minilm")).id == "antiphon/minilm"
    alone = await serve("embedding.engine=minilm")
    async with stock_client(alone) as client:
        with pytest.raises(NotFoundError):
            await client.models.retrieve("antiphon/minilm")


async def test_other_methods_are_told_what_there_is(serve: Any) -> None:
    server = await serve(embedder=Embedder())
    async with plain_client(server) as client:
        answer = await client.get(url_of(server))
    assert answer.status_code == 404
    assert "POST /v1/embeddings" in answer.json()["error"]["message"]


@pytest.mark.engine
async def test_the_real_model_through_the_stock_client(serve: Any) -> None:
    embedder = create(Options(), ModelStore())
    server = await serve("embedding.engine=minilm", embedder=embedder)
    async with stock_client(server) as client:
        answer = await client.embeddings.create(
            model="text-embedding-3-small",
            input=["When is breakfast?", "Food from seven to ten.", "A garage of two metres."],
        )
        with pytest.raises(BadRequestError, match="text 0 has 602 tokens"):
            await client.embeddings.create(model="m", input="word " * 600)
    question, food, garage = np.array([each.embedding for each in answer.data])
    assert question @ food > question @ garage
    assert len(question) == 384
    await embedder.close()
