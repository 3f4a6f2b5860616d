"""Tokens over HTTP, from servers that are as strict as vLLM, trtllm-serve and llama.cpp are."""

import asyncio
import itertools
import json
from contextlib import asynccontextmanager

import pytest

from engines.models import ModelStore
from engines.ports import EngineError
from engines.tokens.completions import create_source
from engines.tokens.ports import TokenRequest
from engines.tts.orpheus import Options

STOP = 128_258
REQUEST = TokenRequest((128_259, 128_000, 7), 700, STOP, seed=11)
TOKENS = [128_266, 132_363, 136_460, 140_557, 144_654, 148_751, 152_848]
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
FRAMED = b"%x\r\n%b\r\n"
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
    """Answers with ``tokens`` the way its kind does; ``script`` overrides the steps of the body,
    ``status`` that of the answer, and ``models`` the list of models."""

    def __init__(self, kind, tokens=TOKENS):
        self.kind = kind
        self.tokens = tokens
        self.script = None
        self.status = "200 OK"
        self.requests = []
        listed = {"data": [{"id": "orpheus-3b", "owned_by": OWNERS[kind]}]}
        self.models = [*self.whole([json.dumps(listed).encode()])]

    def answer(self, line, _headers, body):
        if line.startswith("GET /v1/models "):
            return self.models
        assert line.startswith("POST /v1/completions ")
        asked = json.loads(body)
        self.requests.append(asked)
        if fault := self.fault(asked):
            self.status = "400 Bad Request"
            return self.whole([json.dumps({"message": fault}).encode()])
        return self.whole(self.script or self.events(asked))

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

    def whole(self, steps):
        """A response of these steps, its pieces framed."""
        yield HEAD.replace(b"200 OK", self.status.encode())
        for step in steps:
            yield FRAMED % (len(step), step) if isinstance(step, bytes) else step
        yield b"0\r\n\r\n"


@pytest.fixture
def asking(serve_http):
    @asynccontextmanager
    async def asking(kind="vllm", *, warm=True, **options):
        said = CompletionServer(kind)
        async with serve_http(said.answer) as server:
            said.http = server
            source = create_source(Options(base_url=f"{server.url}/v1", **options), ModelStore())
            try:
                if warm:
                    await source.warm_up()
                yield said, source
            finally:
                await source.close()

    return asking


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
async def test_each_server_is_found_out_and_asked_in_its_own_words(asking, kind):
    async with asking(kind) as (server, source):
        assert await tokens_of(source) == TOKENS
        chunks = await chunks_of(source)
    assert all(chunks)
    sent = server.requests[0]
    assert (sent["model"], sent["prompt"]) == ("orpheus-3b", [128_259, 128_000, 7])


async def test_a_server_that_is_named_need_not_be_found_out(asking):
    options = {"server": "llama.cpp", "served_model": "mine", "api_key": KEY}
    async with asking("llama.cpp", warm=False, **options) as (server, source):
        assert await tokens_of(source) == TOKENS
    assert server.requests[0]["model"] == "mine"
    assert server.http.requests[0][1]["authorization"] == f"bearer {KEY}"


async def test_extra_fields_go_along(asking):
    async with asking("vllm", extra_body={"top_p": 0.5}) as (server, source):
        await tokens_of(source)
    assert server.requests[0]["top_p"] == 0.5


async def test_the_first_tokens_come_while_the_rest_is_still_unwritten(asking):
    async with asking() as (server, source):
        rest = asyncio.Event()
        first, *others = server.events({})
        server.script = [first, rest, *others]
        async with source.open(REQUEST) as chunks:
            got = [*await anext(chunks)]
            rest.set()
            got += [token async for chunk in chunks for token in chunk]
    assert got == TOKENS


async def test_the_next_request_uses_the_same_connection(asking):
    async with asking() as (server, source):
        for _ in range(4):
            assert await tokens_of(source) == TOKENS
    assert server.http.connections == 1


async def test_leaving_the_context_closes_the_connection(asking):
    async with asking() as (server, source):
        server.script = [server.events({})[0], None]
        async with source.open(REQUEST) as chunks:
            await anext(chunks)
        async with asyncio.timeout(5):
            await server.http.gone.wait()


async def test_cancelling_the_reader_closes_the_connection(asking):
    async with asking() as (server, source):
        server.script = [None]
        server.http.asked.clear()
        reader = asyncio.create_task(tokens_of(source))
        async with asyncio.timeout(5):
            await server.http.asked.wait()
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
            await server.http.gone.wait()


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
async def test_a_refusal_is_told_in_the_server_s_words_without_the_key(asking, status, code):
    async with asking(api_key=KEY) as (server, source):
        server.status = status
        server.script = [json.dumps({"error": {"message": f"no, {KEY}"}}).encode()]
        error = await error_of(source)
    assert (error.engine, error.code) == ("completions", code)
    assert "no, [api key]" in error.message


async def test_a_field_that_a_server_does_not_know_is_told(asking):
    async with asking("trtllm", extra_body={"return_token_ids": True}) as (_, source):
        error = await error_of(source)
    assert error.code == "bad_request"
    assert "return_token_ids" in error.message


async def test_silence_is_a_timeout(asking):
    async with asking(timeout_s=0.05) as (server, source):
        server.script = [server.events({})[0], None]
        error = await error_of(source)
    assert error.code == "timeout"


@pytest.mark.parametrize(
    "alive", [b": ping\n\n", b"d", b'data: {"choices": [{"token_ids": []}]}\n\n']
)
async def test_what_only_keeps_the_connection_alive_is_no_answer(asking, alive):
    async with asking(timeout_s=0.5) as (server, source):
        server.script = itertools.repeat(alive)
        async with asyncio.timeout(60):
            assert (await error_of(source)).code == "timeout"


async def test_an_answer_that_the_server_gives_up_is_no_whole_one(asking):
    async with asking() as (server, source):
        first, *_ = server.events({})
        server.script = [first, server.event("", [], "abort"), b"data: [DONE]\n\n"]
        error = await error_of(source)
    assert error.code == "failed"
    assert "(abort)" in error.message


async def test_a_list_of_models_that_cannot_be_unpacked_is_told(asking):
    async with asking(warm=False) as (server, source):
        server.models = [
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nxyz"
        ]
        with pytest.raises(EngineError, match="sent garbage") as caught:
            await source.warm_up()
    assert caught.value.code == "bad_response"


async def test_a_connection_that_breaks_is_unavailable(asking):
    async with asking() as (server, source):
        server.script = [server.events({})[0], ...]
        assert (await error_of(source)).code == "unavailable"


async def test_where_nobody_listens_it_is_unavailable():
    source = create_source(Options(base_url="http://127.0.0.1:1/v1"), ModelStore())
    with pytest.raises(EngineError, match="is it running") as caught:
        await source.warm_up()
    assert caught.value.code == "unavailable"
    await source.close()


async def test_before_the_server_is_known_nothing_is_asked(asking):
    async with asking(warm=False) as (server, source):
        assert (await error_of(source)).code == "unavailable"
    assert server.requests == []


async def test_a_server_without_models_must_be_told_which(asking):
    async with asking(warm=False) as (server, source):
        server.models = [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"]
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
