"""What all clients of model servers share: the URL, the pool, and what is never shown."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from engines.endpoint import drain, endpoint_client, endpoint_url, without_key
from engines.ports import EngineError


@pytest.mark.parametrize("text", ["", "localhost:8000", "http://x:port", "ftp://host/v1"])
def test_what_is_no_url_is_told_with_its_setting(text: str) -> None:
    with pytest.raises(EngineError, match=r"\[tts\] base_url must look like") as caught:
        endpoint_url(text, "orpheus", "tts")
    assert (caught.value.engine, caught.value.code) == ("orpheus", "bad_request")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "models.example"])
async def test_a_proxy_is_for_other_machines_only(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    url = endpoint_url(f"http://{host}:8000/v1/", "x", "llm")
    async with endpoint_client(url, "", connections=2, connect_s=1.0) as client:
        assert client.trust_env == (host == "models.example")
        assert str(client.base_url) == f"http://{host}:8000/v1/"
        assert client.timeout == httpx.Timeout(None, connect=1.0)
        assert "authorization" not in client.headers


async def test_a_key_is_sent_and_not_shown() -> None:
    url = endpoint_url("http://models.example/v1", "x", "llm")
    async with endpoint_client(url, "secret", connections=2, connect_s=1.0) as client:
        assert client.headers["authorization"] == "Bearer secret"
    assert without_key("no such key: secret", "secret") == "no such key: [api key]"
    assert without_key("no such key: secret", "") == "no such key: secret"


@pytest.mark.virtual_clock
async def test_what_follows_the_end_is_waited_for_a_moment_only() -> None:
    read: list[bytes] = []

    async def body() -> AsyncIterator[bytes]:
        read.append(b"rest")
        yield b"rest"
        await asyncio.Event().wait()

    began = asyncio.get_running_loop().time()
    await drain(body())
    assert read == [b"rest"]
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.1)


async def test_a_connection_that_breaks_after_the_end_is_no_failure() -> None:
    async def body() -> AsyncIterator[bytes]:
        raise httpx.ReadError("gone")
        yield b""

    await drain(body())
