"""Tokens over HTTP, from servers that are as strict as vLLM, trtllm-serve and llama.cpp are."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from engines.models import ModelStore
from engines.ports import EngineError, TokenRequest
from engines.tokens.completions import create_source
from engines.tts.orpheus import Options

STOP = 128_258
REQUEST = TokenRequest((128_259, 128_000, 7), 700, STOP, seed=11)
TOKENS = [128_266, 132_363, 136_460, 140_557, 144_654, 148_751, 152_848]
KEY = "sk-very-secret-0123456789"

_INTS = ("prompt", "stop_token_ids")
_OPENAI = {
    "model": str,
    "prompt": list,
    "max_tokens": int,
    "temperature": float,
    "top_p": float,
    "seed": int,
    "stop": list,
    "stream": bool,
}
_SAMPLING = {"repetition_penalty": float, "stop_token_ids": list, "skip_special_tokens": bool}
SCHEMAS = {
    # vllm/entrypoints/openai/completion/protocol.py: CompletionRequest
    "vllm": {**_OPENAI, **_SAMPLING, "return_token_ids": bool},
    # tensorrt_llm/serve/openai_protocol.py: CompletionRequest, extra="forbid"
    "trtllm": {**_OPENAI, **_SAMPLING, "detokenize": bool},
    # llama.cpp tools/server/README.md
    "llama.cpp": {
        **_OPENAI,
        "repeat_penalty": float,
        "repeat_last_n": int,
        "top_k": int,
        "min_p": float,
        "cache_prompt": bool,
    },
}
OWNERS = {"vllm": "vllm", "trtllm": "tensorrt_llm", "llama.cpp": "llamacpp"}


def text_of(tokens):
    return "".join(f"<custom_token_{token - 128_256}>" for token in tokens)


class CompletionServer:
    """Answers with ``tokens`` the way its kind does; ``script`` overrides the bytes of the body,
    in which an Event is waited for, and None hangs."""

    def __init__(self, kind, tokens=TOKENS):
        self.kind = kind
        self.tokens = tokens
        self.script = None
        self.status = "200 OK"
        self.requests = []
        self.headers = []
        self.connections = 0
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.headers.append(headers)
                await self.answer(lines[0], body, reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone.set()
        finally:
            writer.close()

    async def answer(self, line, body, reader, writer):
        if line.startswith("GET /v1/models "):
            listed = {"data": [{"id": "orpheus-3b", "owned_by": OWNERS[self.kind]}]}
            return await self.send(writer, [json.dumps(listed).encode()], reader)
        assert line.startswith("POST /v1/completions ")
        asked = json.loads(body)
        self.requests.append(asked)
        self.asked.set()
        if fault := self.fault(asked):
            self.status = "400 Bad Request"
            return await self.send(writer, [json.dumps({"message": fault}).encode()], reader)
        return await self.send(writer, self.script or self.events(asked), reader)

    def fault(self, asked):
        schema = SCHEMAS[self.kind]
        for name, value in asked.items():
            if name not in schema:
                return f"Extra inputs are not permitted: {name}"
            if type(value) is not schema[name]:
                return f"{name} is a {type(value).__name__}"
            if name in _INTS and not all(type(item) is int for item in value):
                return f"{name} holds something else than ids"
        return "" if asked.get("stream") else "this test only streams"

    def events(self, asked):
        """The tokens, two an event, and how the server tells that it stopped."""
        pairs = [self.tokens[n : n + 2] for n in range(0, len(self.tokens), 2)]
        if self.kind == "llama.cpp":
            text = text_of(self.tokens)
            return [
                *[self.event(text[n : n + 25]) for n in range(0, len(text), 25)],
                self.event("", finish="stop"),
                b"data: [DONE]\n\n",
            ]
        with_text = self.kind == "vllm"
        return [
            *[self.event(text_of(pair) if with_text else "", pair) for pair in pairs],
            self.event("", [STOP], "stop", stop_reason=STOP),
            b"data: [DONE]\n\n",
        ]

    def event(self, text, ids=None, finish=None, **more):
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish, **more}
        if self.kind != "llama.cpp":
            choice["token_ids"] = ids
        chunk = {"id": "cmpl-1", "object": "text_completion", "choices": [choice]}
        return b"data: " + json.dumps(chunk).encode() + b"\n\n"

    async def send(self, writer, steps, reader):
        writer.write(f"HTTP/1.1 {self.status}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for step in steps:
            if step is None:
                await reader.readexactly(1)
            elif isinstance(step, asyncio.Event):
                await step.wait()
            else:
                writer.write(f"{len(step):x}\r\n".encode() + step + b"\r\n")
                await writer.drain()
        writer.write(b"0\r\n\r\n")


@asynccontextmanager
async def asking(kind="vllm", *, warm=True, **options):
    server = CompletionServer(kind)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    source = create_source(Options(base_url=f"http://127.0.0.1:{port}/v1", **options), ModelStore())
    try:
        if warm:
            await source.warm_up()
        yield server, source
    finally:
        await source.close()
        listener.close()


async def chunks_of(source, request=REQUEST):
    async with source.open(request) as chunks:
        return [chunk async for chunk in chunks]


async def tokens_of(source, request=REQUEST):
    return [token for chunk in await chunks_of(source, request) for token in chunk]


async def error_of(source):
    with pytest.raises(EngineError) as caught:
        await tokens_of(source)
    return caught.value


@pytest.mark.parametrize("kind", SCHEMAS)
async def test_each_server_is_found_out_and_asked_in_its_own_words(kind):
    async with asking(kind) as (server, source):
        assert await tokens_of(source) == TOKENS
        chunks = await chunks_of(source)
    assert all(chunks)
    sent = server.requests[0]
    assert (sent["model"], sent["prompt"]) == ("orpheus-3b", [128_259, 128_000, 7])


async def test_a_server_that_is_named_need_not_be_found_out():
    options = {"server": "llama.cpp", "served_model": "mine", "api_key": KEY}
    async with asking("llama.cpp", warm=False, **options) as (server, source):
        assert await tokens_of(source) == TOKENS
    assert server.requests[0]["model"] == "mine"
    assert server.headers[0]["authorization"] == f"bearer {KEY}"


async def test_extra_fields_go_along():
    async with asking("vllm", extra_body={"top_p": 0.5}) as (server, source):
        await tokens_of(source)
    assert server.requests[0]["top_p"] == 0.5


async def test_the_first_tokens_come_while_the_rest_is_still_unwritten():
    async with asking() as (server, source):
        rest = asyncio.Event()
        first, *others = server.events({})
        server.script = [first, rest, *others]
        async with source.open(REQUEST) as chunks:
            got = [*await anext(chunks)]
            rest.set()
            got += [token async for chunk in chunks for token in chunk]
    assert got == TOKENS


async def test_the_next_request_uses_the_same_connection():
    async with asking() as (server, source):
        for _ in range(4):
            assert await tokens_of(source) == TOKENS
    assert server.connections == 1


async def test_leaving_the_context_closes_the_connection():
    async with asking() as (server, source):
        server.script = [server.events({})[0], None]
        async with source.open(REQUEST) as chunks:
            await anext(chunks)
        async with asyncio.timeout(5):
            await server.gone.wait()


async def test_cancelling_the_reader_closes_the_connection():
    async with asking() as (server, source):
        server.script = [None]
        reader = asyncio.create_task(tokens_of(source))
        async with asyncio.timeout(5):
            await server.asked.wait()
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            await server.gone.wait()


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("401 Unauthorized", "unauthorized"),
        ("429 Too Many Requests", "rate_limited"),
        ("400 Bad Request", "bad_request"),
        ("404 Not Found", "bad_request"),
        ("503 Service Unavailable", "unavailable"),
    ],
)
async def test_a_refusal_is_told_in_the_server_s_words_without_the_key(status, code):
    async with asking(api_key=KEY) as (server, source):
        server.status = status
        server.script = [json.dumps({"error": {"message": f"no, {KEY}"}}).encode()]
        error = await error_of(source)
    assert (error.engine, error.code) == ("completions", code)
    assert "no, [api key]" in error.message


async def test_a_field_that_a_server_does_not_know_is_told():
    async with asking("trtllm", extra_body={"return_token_ids": True}) as (_, source):
        error = await error_of(source)
    assert error.code == "bad_request"
    assert "return_token_ids" in error.message


async def test_silence_is_a_timeout():
    async with asking(timeout_s=0.05) as (server, source):
        server.script = [server.events({})[0], None]
        error = await error_of(source)
    assert error.code == "timeout"


async def test_a_connection_that_breaks_is_unavailable():
    async with asking() as (server, source):

        async def hang_up(writer, steps, reader):
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nda")
            writer.close()

        server.send = hang_up
        assert (await error_of(source)).code == "unavailable"


async def test_where_nobody_listens_it_is_unavailable():
    source = create_source(Options(base_url="http://127.0.0.1:1/v1"), ModelStore())
    with pytest.raises(EngineError, match="is it running") as caught:
        await source.warm_up()
    assert caught.value.code == "unavailable"
    await source.close()


async def test_before_the_server_is_known_nothing_is_asked():
    async with asking(warm=False) as (server, source):
        assert (await error_of(source)).code == "unavailable"
    assert server.requests == []


async def test_a_server_without_models_must_be_told_which():
    async with asking(warm=False) as (server, source):

        async def nothing(writer, steps, reader):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        server.send = nothing
        with pytest.raises(EngineError, match="served_model"):
            await source.warm_up()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"server": "ollama"}, "vllm, trtllm, llama.cpp"),
        ({"base_url": "localhost:8000"}, "base_url"),
        ({"base_url": "http://x:port"}, "base_url"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(EngineError, match=words) as caught:
        create_source(Options(**options), ModelStore())
    assert caught.value.code == "bad_request"
