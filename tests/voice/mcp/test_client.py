"""The client of an MCP server: against the official SDK's server, and against servers that err."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.voice.mcp.servers import tool_server
from voice.mcp.client import MOST_TOOLS, Access, McpClient
from voice.mcp.guard import open_client
from voice.mcp.messages import MOST_BYTES, VERSION, McpError
from voice.mcp.settings import McpSettings

SECRET = "tok-7f31c2"
ACCESS = Access("http://tools.test/mcp", SECRET, (("X-Team", "blue-team"),))


@asynccontextmanager
async def client_of(url: str, **settings: Any) -> AsyncIterator[McpClient]:
    http = await open_client(public_only=False, connect_s=5)
    client = McpClient(http, Access(url, SECRET), McpSettings(servers=(url,), **settings))
    try:
        yield client
    finally:
        await client.close()


@pytest.mark.parametrize("options", [{}, {"json_response": True}, {"stateless_http": True}])
async def test_the_sdks_own_server_tells_its_tools_and_runs_them(options: dict[str, bool]) -> None:
    async with tool_server(**options) as server, client_of(server.url) as client:
        tools = {tool.name: tool for tool in await client.list_tools()}
        server.go.set()
        answers = [
            await client.call("weather", '{"city":"Rom"}'),
            await client.call("slow", ""),
            await client.call("with.dots", "{}"),
        ]
        with pytest.raises(McpError, match="broken") as caught:
            await client.call("broken", "{}")
    assert set(tools) == {"weather", "slow", "broken", "long", "with.dots"}
    assert tools["weather"].description == "The weather of a city."
    assert tools["weather"].input_schema["required"] == ["city"]
    assert tools["weather"].to_wire().is_read_only
    assert answers[:2] == ["rain in Rom", "at last"]
    assert json.loads(answers[2]) == {"answer": 42}
    assert caught.value.fault == "tool"
    assert {each["authorization"] for each in server.headers} == {f"Bearer {SECRET}"}
    assert {each["mcp-protocol-version"] for each in server.headers[1:]} == {VERSION}


async def test_a_long_result_is_cut_and_a_slow_one_given_up() -> None:
    async with (
        tool_server() as server,
        client_of(server.url, max_result_characters=100, call_s=0.5) as client,
    ):
        await client.list_tools()
        cut = await client.call("long", '{"count": 5000}')
        with pytest.raises(McpError, match="took longer"):
            await client.call("slow", "{}")
        server.go.set()
        assert await client.call("weather", '{"city":"Rom"}') == "rain in Rom"
    assert cut == "a" * 100 + " … [cut: 5000 characters in all]"


async def test_a_session_that_the_server_keeps_is_ended() -> None:
    async with tool_server() as server:
        async with client_of(server.url) as client:
            await client.list_tools()
        assert server.headers[-1][":method"] == "DELETE"
        assert server.headers[-1]["mcp-session-id"] == server.headers[1]["mcp-session-id"]


async def test_nobody_there() -> None:
    async with client_of("http://127.0.0.1:9/mcp") as client:
        with pytest.raises(McpError, match="cannot be reached") as caught:
            await client.list_tools()
    assert caught.value.fault == "http"


# --- servers that err -----------------------------------------------------------------------

Answer = Callable[[dict[str, Any]], httpx.Response]


class Bytes(httpx.AsyncByteStream):
    """A body as it is on the wire."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._data


def unread(response: httpx.Response) -> httpx.Response:
    """As it comes from a server: nobody has read its body yet."""
    if not isinstance(response.stream, httpx.ByteStream):
        return response
    return httpx.Response(
        response.status_code,
        headers=response.headers,
        stream=Bytes(response.content),
        extensions=response.extensions,
    )


def result(request: dict[str, Any], value: Any) -> httpx.Response:
    return httpx.Response(200, json={"jsonrpc": "2.0", "id": request["id"], "result": value})


def greeting(request: dict[str, Any]) -> httpx.Response | None:
    """What every server says at first."""
    if request["method"] == "initialize":
        return result(request, {"protocolVersion": "2025-06-18"})
    if request["method"] == "notifications/initialized":
        return httpx.Response(202)
    return None


def pretended(answer: Answer, seen: list[httpx.Request] | None = None) -> McpClient:
    """A client of a server that answers like this, once it was greeted."""

    def handle(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request)
        asked = json.loads(request.content or "{}")
        return unread((asked and greeting(asked)) or answer(asked))

    http = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    return McpClient(http, ACCESS, McpSettings(max_result_characters=200))


def streamed(*events: Any) -> httpx.Response:
    body = "".join(f"event: message\ndata: {json.dumps(event)}\n\n" for event in events)
    return httpx.Response(200, text=body, headers={"content-type": "text/event-stream"})


CALL = {"content": [{"type": "text", "text": "done"}]}


async def failure(answer: Answer) -> McpError:
    client = pretended(answer)
    with pytest.raises(McpError) as caught:
        await client.list_tools()
    await client.close()
    return caught.value


@pytest.mark.parametrize(
    ("answer", "fault", "code", "told"),
    [
        (lambda _: httpx.Response(500), "http", 500, "it answers 500 Internal Server Error"),
        (lambda _: httpx.Response(401), "http", 401, "it answers 401 Unauthorized"),
        (lambda _: httpx.Response(302, headers={"location": "http://10.0.0.1/"}),
         "http", 302, "it sends elsewhere, which is not followed"),
        (lambda _: httpx.Response(200, text="<html>"), "protocol", 0, "cannot be understood"),
        (lambda _: httpx.Response(202), "protocol", 0, "without a result"),
        (lambda _: streamed({"jsonrpc": "2.0", "method": "ping", "id": 7}),
         "protocol", 0, "without a result"),
        (lambda _: httpx.Response(200, text="x" * (MOST_BYTES + 1)), "protocol", 0, "more than"),
        (lambda _: httpx.Response(200, headers={"content-encoding": "br"}, stream=Bytes(b"x")),
         "protocol", 0, "compresses"),
        (lambda asked: result(asked, {"tools": "none"}), "protocol", 0, "cannot be understood"),
        (lambda asked: httpx.Response(200, json={"jsonrpc": "2.0", "id": asked["id"],
                                                 "error": {"code": -32601, "message": SECRET}}),
         "protocol", -32601, "[secret]"),
        (lambda _: httpx.Response(500, extensions={"reason_phrase": SECRET.encode() + b"x" * 999}),
         "http", 500, "it answers 500 [secret]xxx"),
    ],
)  # fmt: skip
async def test_what_a_server_does_wrong_is_told(
    answer: Answer, fault: str, code: int, told: str
) -> None:
    error = await failure(answer)
    assert (error.fault, error.code) == (fault, code)
    assert told in str(error)
    assert SECRET not in str(error)
    assert len(str(error)) < 300


async def test_what_else_a_server_says_is_passed_over() -> None:
    def answer(asked: dict[str, Any]) -> httpx.Response:
        note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}
        ping = {"jsonrpc": "2.0", "method": "ping", "id": asked["id"]}
        return streamed(note, ping, {"jsonrpc": "2.0", "id": asked["id"], "result": CALL})

    client = pretended(answer)
    assert await client.call("x", "{}") == "done"
    await client.close()


async def test_pages_of_tools_are_read_to_a_bound() -> None:
    asked_for: list[Any] = []

    def answer(asked: dict[str, Any]) -> httpx.Response:
        asked_for.append(asked["params"].get("cursor"))
        page = len(asked_for)
        tools = [{"name": f"t{page}_{n}", "inputSchema": {}} for n in range(20)]
        return result(asked, {"tools": tools, "nextCursor": str(page)})

    client = pretended(answer)
    tools = await client.list_tools()
    await client.close()
    assert len(tools) == MOST_TOOLS
    assert asked_for[:3] == [None, "1", "2"]
    assert len(asked_for) == 16


async def test_a_session_that_was_ended_is_begun_again_once() -> None:
    sessions: Iterator[str] = iter(("one", "two"))
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            return httpx.Response(405)
        asked = json.loads(request.content)
        seen.append(request.headers.get("mcp-session-id", ""))
        if asked["method"] == "initialize":
            response = result(asked, {"protocolVersion": VERSION})
            response.headers["mcp-session-id"] = next(sessions)
            return unread(response)
        if asked["method"] == "tools/call" and seen[-1] == "one":
            return httpx.Response(404)
        given = CALL if asked["method"] == "tools/call" else {"tools": []}
        return unread(greeting(asked) or result(asked, given))

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    client = McpClient(http, ACCESS, McpSettings())
    await client.list_tools()
    assert await client.call("x", "{}") == "done"
    await client.close()
    assert seen == ["", "one", "one", "one", "", "two", "two"]


async def test_arguments_that_are_no_object_are_the_models_mistake() -> None:
    client = pretended(lambda asked: result(asked, CALL))
    for arguments in ("[1]", "{", "7"):
        with pytest.raises(McpError, match="no JSON object") as caught:
            await client.call("x", arguments)
        assert caught.value.fault == "tool"
    await client.close()


async def test_secrets_are_sent_and_not_shown() -> None:
    seen: list[httpx.Request] = []
    text = f"you sent {SECRET} and blue-team"
    client = pretended(
        lambda asked: result(asked, {"content": [{"type": "text", "text": text}], "isError": True}),
        seen,
    )
    with pytest.raises(McpError) as caught:
        await client.call("x", "{}")
    await client.close()
    assert str(caught.value) == "you sent [secret] and [secret]"
    assert seen[0].headers["authorization"] == f"Bearer {SECRET}"
    assert seen[0].headers["x-team"] == "blue-team"
    assert seen[0].headers["accept-encoding"] == "identity"
    assert SECRET not in repr(ACCESS)


async def test_a_server_that_does_not_answer_a_farewell_is_left() -> None:
    never = asyncio.Event()

    async def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            await never.wait()
        asked = json.loads(request.content)
        if asked["method"] == "initialize":
            response = result(asked, {})
            response.headers["mcp-session-id"] = "one"
            return unread(response)
        return unread(greeting(asked) or result(asked, {"tools": []}))

    http = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    client = McpClient(http, ACCESS, McpSettings())
    assert await client.list_tools() == []
    async with asyncio.timeout(5):
        await client.close()
    assert http.is_closed


async def test_a_server_whose_version_is_no_header_is_no_server() -> None:
    async def handle(request: httpx.Request) -> httpx.Response:
        return unread(result(json.loads(request.content), {"protocolVersion": "zwölf"}))

    client = McpClient(
        httpx.AsyncClient(transport=httpx.MockTransport(handle)), ACCESS, McpSettings()
    )
    with pytest.raises(McpError, match="cannot be reached"):
        await client.list_tools()
    await client.close()


async def test_tls_that_breaks_off_with_garbage_is_an_error_of_the_server() -> None:
    async def handle(request: httpx.Request) -> httpx.Response:
        raise ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number")

    client = McpClient(
        httpx.AsyncClient(transport=httpx.MockTransport(handle)), ACCESS, McpSettings()
    )
    with pytest.raises(McpError, match="WRONG_VERSION_NUMBER"):
        await client.list_tools()
    await client.close()


async def test_the_answer_to_a_farewell_is_not_read() -> None:
    read: list[bytes] = []

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            while True:
                read.append(b"x" * 65_536)
                yield read[-1]
                await asyncio.sleep(0)

    async def handle(request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            return httpx.Response(200, stream=Endless())
        asked = json.loads(request.content)
        response = unread(greeting(asked) or result(asked, {"tools": []}))
        response.headers["mcp-session-id"] = "one"
        return response

    client = McpClient(
        httpx.AsyncClient(transport=httpx.MockTransport(handle)), ACCESS, McpSettings()
    )
    await client.list_tools()
    await client.close()
    assert read == []


async def test_others_have_their_turn_while_an_answer_comes_in_crumbs() -> None:
    class Crumbs(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for _ in range(2_000):
                yield b" "

    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    busy = asyncio.ensure_future(others())
    error = await failure(lambda _: httpx.Response(200, stream=Crumbs()))
    busy.cancel()
    assert error.fault == "protocol"
    assert turns > 2_000
