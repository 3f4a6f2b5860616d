"""The bodies of /v1/completions: a request for tokens as JSON, its streamed chunks as token ids.

Pure: no connection in here. Three servers are known, and each has its own names. What was read:
vLLM ``entrypoints/openai/completion/protocol.py``; TensorRT-LLM ``serve/openai_protocol.py``
(which refuses a field that it does not know) and ``serve/postprocess_handlers.py``; llama.cpp
``tools/server/README.md`` and ``server-task.cpp``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from engines.llm.chat_wire import code_of, upstream_message
from engines.llm.sse import EventData
from engines.ports import EngineError
from engines.tokens.ports import TokenRequest, Tokens
from engines.tts.orpheus_tokens import CUSTOM_TOKEN_0, seed_of

NAME: Final = "completions"

Server: TypeAlias = Literal["vllm", "trtllm", "llama.cpp"]
_OWNERS: Final[Mapping[str, Server]] = {"tensorrt_llm": "trtllm", "llamacpp": "llama.cpp"}
SERVERS: Final[tuple[Server, ...]] = ("vllm", "trtllm", "llama.cpp")


def failure(code: str, message: str) -> EngineError:
    """An error of the server or of what it sent."""
    return EngineError(NAME, code, message)


def server_of(owner: str) -> Server:
    """Which server says ``owned_by`` so in its list of models. Others follow vLLM."""
    return _OWNERS.get(owner, "vllm")


# --- what we send ---------------------------------------------------------------------------


def request_body(
    request: TokenRequest, model: str, server: Server, extra: Mapping[str, Any]
) -> bytes:
    """``request`` as JSON for that ``server``; ``extra`` fields go over ours."""
    body: dict[str, Any] = {
        "model": model,
        "prompt": list(request.prompt),
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        # A server begins each request with a fresh generator: one that goes on from the tokens
        # of another must not draw the same lots again.
        "seed": seed_of(request.seed, len(request.prompt)),
        "stream": True,
    }
    return msgspec.json.encode({**body, **_dialect(request, server), **extra})


def _dialect(request: TokenRequest, server: Server) -> dict[str, Any]:
    if server == "llama.cpp":
        return {
            "repeat_penalty": request.repetition_penalty,
            "repeat_last_n": -1,  # its default is 64 tokens, less than a second
            "top_k": 0,
            "min_p": 0.0,
            "stop": [_text_of(request.stop)],
            "cache_prompt": True,
        }
    ids = {"return_token_ids": True} if server == "vllm" else {"detokenize": False}
    return {
        "repetition_penalty": request.repetition_penalty,
        "stop_token_ids": [request.stop],
        "skip_special_tokens": False,
        **ids,
    }


def _text_of(token: int) -> str:
    return f"<custom_token_{token - CUSTOM_TOKEN_0}>"


# --- what comes back ------------------------------------------------------------------------


class _Choice(msgspec.Struct):
    text: str | None = None
    token_ids: list[int] | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    error: Any = None
    message: Any = None
    code: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode
_TOKEN: Final = re.compile(r"<custom_token_(\d{1,6})>")
_LONGEST: Final = len("<custom_token_999999>")


class TokenReader:
    """Turns the bytes of a streamed answer into token ids, up to ``stop``.

    Where a server gives ids, those are taken. Otherwise they are read off the text, wherever an
    event may cut it. ``started`` is set by the first event, ``done`` by the end mark or ``stop``.
    """

    def __init__(self, stop: int) -> None:
        self.started = False
        self.done = False
        self._stop = stop
        self._data = EventData()
        self._text = ""
        self._gives_ids = False
        self._finished = False
        self._has_tokens = False
        self._has_text = False

    def feed(self, chunk: bytes) -> Tokens:
        """The tokens that ``chunk`` completes, often none.

        Raises EngineError: ``bad_response``, or what the server says went wrong.
        """
        try:
            events = self._data.feed(chunk)
        except ValueError as error:
            raise failure(
                "bad_response", f"{error}: is base_url that of /v1/completions?"
            ) from None
        return self._tokens(events)

    def finish(self) -> Tokens:
        """The body has ended: what was left. Raises EngineError where it is no whole answer."""
        tokens = self._tokens(self._data.finish())
        if not self.started:
            raise failure("bad_response", "what came is no stream of events: see to base_url")
        if not (self.done or self._finished):
            raise failure("bad_response", "the answer broke off: look into the server's log")
        if self._has_text and not self._has_tokens:
            raise failure(
                "bad_response",
                "the answer is text without audio tokens: is it an Orpheus model, and are its "
                "special tokens shown (llama-server: --special)?",
            )
        return tokens

    def _tokens(self, events: Iterable[bytes]) -> Tokens:
        tokens: list[int] = []
        for event in events:
            if self.done:
                break
            data = event.strip()
            if data == b"[DONE]":
                self.started = self.done = True
            elif data:
                tokens += self._read(data)
        self._has_tokens = self._has_tokens or bool(tokens)
        if self._stop in tokens:
            self._has_tokens = self.done = True
            del tokens[tokens.index(self._stop) :]
        return tuple(tokens)

    def _read(self, event: bytes) -> list[int]:
        try:
            chunk = _decode(event)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise failure("bad_response", f"an event is unreadable: {error}") from None
        if chunk.error or (chunk.choices is None and chunk.message):
            raise _stream_error(chunk, event)
        self.started = True
        tokens: list[int] = []
        for choice in chunk.choices or ():
            self._finished = self._finished or _is_end(choice.finish_reason)
            if choice.token_ids is not None:
                self._gives_ids = True
                tokens += choice.token_ids
            elif not self._gives_ids:
                tokens += self._from_text(choice.text or "")
        return tokens

    def _from_text(self, text: str) -> list[int]:
        self._has_text = self._has_text or bool(text.strip())
        self._text += text
        found = list(_TOKEN.finditer(self._text))
        rest = self._text[found[-1].end() :] if found else self._text
        # What is left may be the beginning of a token, and is then no longer than one.
        begin = rest.rfind("<")
        self._text = rest[begin:] if begin >= 0 and len(rest) - begin < _LONGEST else ""
        return [CUSTOM_TOKEN_0 + int(match[1]) for match in found]


def _is_end(reason: str | None) -> bool:
    if reason and reason not in ("stop", "length"):
        raise failure("failed", f"the server gave the answer up ({reason}): look into its log")
    return bool(reason)


def _stream_error(chunk: _Chunk, event: bytes) -> EngineError:
    said = chunk.error if isinstance(chunk.error, dict) else {"code": chunk.code}
    status = said.get("code")
    code = code_of(status) if isinstance(status, int) else "failed"
    return failure(code, f"the server broke the answer off: {upstream_message(event)}")
