"""The names of what hears, thinks and speaks."""

from typing import Any

import httpx
import pytest
from openai import AuthenticationError, NotFoundError

from tests.voice.doors.stock import stock_client


async def test_the_whole_and_its_parts_are_listed(serve: Any) -> None:
    server = await serve()
    async with stock_client(server) as client:
        listed = [model async for model in client.models.list()]
    assert [model.id for model in listed] == [
        "antiphon/scripted+scripted+scripted",
        "antiphon/scripted",
    ]
    assert listed[0].id == server.house.model
    assert {(model.object, model.owned_by) for model in listed} == {("model", "antiphon")}
    assert listed[0].created > 1_700_000_000


async def test_each_can_be_asked_for_by_name(serve: Any) -> None:
    server = await serve()
    async with stock_client(server) as client:
        for name in server.house.models:
            assert (await client.models.retrieve(name)).id == name
        with pytest.raises(NotFoundError, match="does not exist") as missing:
            await client.models.retrieve("gpt-9")
    assert (missing.value.code, missing.value.param) == ("model_not_found", "model")


async def test_they_are_for_those_who_have_a_key(serve: Any) -> None:
    server = await serve("server.api_keys=key1")
    async with stock_client(server, "key2") as stranger:
        with pytest.raises(AuthenticationError) as refused:
            await stranger.models.list()
    assert refused.value.code == "invalid_api_key"
    async with httpx.AsyncClient(trust_env=False) as client:
        nobody = await client.get(f"http://127.0.0.1:{server.port}/v1/models")
    assert "didn't provide an API key" in nobody.json()["error"]["message"]
    async with stock_client(server, "key1") as known:
        assert (await known.models.list()).data
