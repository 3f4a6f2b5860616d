"""SmolLM2-135M-Instruct on llama.cpp, inside this process: a chat model that is always there.

It is a demonstration: it shows that the pipeline speaks, and knows next to nothing. llama.cpp's
own server does the batching: every call gets a slot, whose evaluated prompt it keeps, so that
the next turn of a dialogue pays only for what was said since.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tempfile
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from engines.llm.window import recent
from engines.ports import (
    ChatRequest,
    Delta,
    EngineError,
    Load,
    Message,
    Priority,
    TextDelta,
    Usage,
)
from engines.workers import Workers

if TYPE_CHECKING:
    from engines.models import ModelStore

_NAME: Final = "smollm2"
_log = logging.getLogger(__name__)

_BATCH_TOKENS: Final = 32
"""Tokens evaluated at a go, about 110 ms on two cores: what a caller who is let in, or a
prompt that is given up, waits at worst. 512 would be faster by less than a tenth."""

_SPIN_COUNT: Final = "1000"
"""How long OpenMP threads spin before they sleep at a barrier. By its default, some
milliseconds, two threads fall from 70 to 3 tokens a second as soon as one other process wants a
core. With this they write 76, and 30 beside another; with 300 it is 46 and 36, with 3000 it is 77
and 22. Measured with ``python -m loadtest.llm_tts_bench --contended``."""

_PROMPT_CACHE_MIB: Final = 256
"""Where llama.cpp keeps the prompts of calls that have lost their slot to others."""

_SAME_DIALOGUE: Final = 0.5
"""The share of a prompt that a slot must hold already to be taken for it. By llama.cpp's
default, 0.1, the instructions that all calls share suffice, and calls take each other's slot:
every turn then reads its whole history again."""

_LEAST_ROOM: Final = 64
"""Tokens below which it is no use to leave out more of the history."""


@dataclass(frozen=True, slots=True)
class Options:
    """``slots``: answers written at the same time. ``context``: tokens of one dialogue, its
    answer included; the oldest turns are left out where it is longer. ``max_tokens`` and
    ``temperature`` hold where a request names none."""

    model: str = "smollm2-135m"
    slots: int = 4
    threads: int = 2
    context: int = 2048
    max_tokens: int = 120
    temperature: float = 0.3
    repeat_penalty: float = 1.1


def create(options: Options, models: ModelStore) -> SmolLm2:
    """The model; ``warm_up`` loads it."""
    models.path(options.model)  # tells of missing files before any engine has been loaded
    return SmolLm2(options, models)


class SmolLm2:
    """An Llm. Tools are not offered to the model: it is too small to call one."""

    def __init__(self, options: Options, models: ModelStore) -> None:
        self._options = options
        self._models = models
        self._workers = Workers(_NAME, options.slots)
        self._answers: dict[_Answer, asyncio.Task[None]] = {}
        self._server: Any = None

    async def warm_up(self) -> None:
        """Load and answer once. Raises EngineError where the model is missing or broken."""
        self._server = await self._workers.run(Priority.FINAL, self._load)
        async with self.open(ChatRequest((Message("user", "Hello."),), max_tokens=2)) as deltas:
            async for _ in deltas:
                pass
        _log.warning(
            "SmolLM2-135M is a demonstration model: it speaks, but what it says is often wrong. "
            'For a real one, set in the configuration: [llm] engine = "openai", base_url = '
            '"http://HOST:PORT/v1" and model = "NAME" (vLLM, Ollama, or a hosted service)'
        )

    async def close(self) -> None:
        """Free the model."""
        for answer in self._answers:
            answer.leave()
        if self._answers:
            await asyncio.wait(self._answers.values())
        # Dropping the last reference joins llama.cpp's thread, which takes a moment.
        last, self._server = [self._server], None
        await self._workers.run(Priority.FINAL, last.clear)
        self._workers.close()
        await self._workers.wait_closed()

    def load(self) -> Load:
        """Answers that are written now, and those that wait for a slot."""
        return self._workers.load()

    def open(self, request: ChatRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """Answer ``request`` as the model's temperature has it.

        With ``max_tokens=0`` nothing is written: the prompt is evaluated into the cache, so
        that a later request that begins the same starts sooner. Such a request only uses time
        that is left over: if the model is busy, or as soon as it is wanted, it ends with the
        finish reason ``skipped``.
        """
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: ChatRequest) -> AsyncGenerator[AsyncIterator[Delta], None]:
        answer = _Answer(prefill=request.max_tokens == 0)
        if answer.prefill and self._answers:
            answer.skip()
        else:
            work = asyncio.create_task(self._work(request, answer), name=f"{_NAME} answer")
            self._answers[answer] = work
            work.add_done_callback(lambda _: self._answers.pop(answer))
            answer.follow(work)
        deltas = answer.read()
        try:
            yield deltas
        finally:
            # The task outlives its opener by a token: then its slot is free again, and
            # whatever comes next waits for it in _work, rather than lose the slot's cache.
            answer.leave()
            await deltas.aclose()

    async def _work(self, request: ChatRequest, answer: _Answer) -> None:
        if not answer.prefill:
            await self._make_way()
        priority = Priority.BATCH if answer.prefill else request.priority
        await self._workers.run(priority, self._write, request, answer)

    async def _make_way(self) -> None:
        """End the prompts that nobody waits for yet, and wait for all that is ending."""
        ending = []
        for answer, work in self._answers.items():
            if answer.prefill:
                answer.leave()
            if answer.left and answer.started:
                ending.append(work)
        if ending:
            await asyncio.wait(ending)

    def _write(self, request: ChatRequest, answer: _Answer) -> None:
        """In a worker: have the answer written, with less of the history if it does not fit."""
        if self._server is None:
            raise EngineError(_NAME, "unavailable", "it is not loaded: call warm_up first")
        options = self._options
        limit = options.max_tokens if request.max_tokens is None else request.max_tokens
        # Not the request's own limit: a prompt must not begin differently for it, see recent.
        room = max(options.context - options.max_tokens, options.context // 2)
        answer.started = True
        while not answer.left:
            messages = recent(request.messages, room)
            try:
                self._server.handle_chat_completions(
                    self._body(request, messages, limit), answer.take
                )
            except (RuntimeError, ValueError) as error:
                raise EngineError(_NAME, "bad_request", f"llama.cpp refused: {error}") from error
            if not answer.overflowed:
                return
            if room < _LEAST_ROOM:
                raise EngineError(
                    _NAME,
                    "bad_request",
                    f"the instructions and the last message exceed its {options.context} "
                    "tokens: shorten them, or set a larger context",
                )
            answer.overflowed = False
            room //= 2

    def _body(
        self, request: ChatRequest, messages: tuple[Message, ...], limit: int
    ) -> dict[str, Any]:
        given = request.temperature
        return {
            "messages": [{"role": m.role, "content": m.content} for m in messages if m.content],
            "stream": True,
            "stream_options": {"include_usage": True},
            "return_progress": True,  # so that it can be given up while it still reads
            "max_tokens": limit,
            "temperature": self._options.temperature if given is None else given,
            "top_p": 0.9,
            "min_p": 0.05,
            "repeat_penalty": self._options.repeat_penalty,
        }

    def _load(self) -> Any:
        path = self._models.path(self._options.model) / "model.gguf"
        with _modest_spinning():
            import xllamacpp

        with tempfile.TemporaryDirectory() as folder:
            # llama.cpp's server listens in any case. On a socket in a folder of our own, which
            # is gone as soon as the model is loaded, nobody can reach it.
            params = self._params(xllamacpp.CommonParams(), f"{folder}/llama.sock", str(path))
            try:
                return xllamacpp.Server(params)
            except RuntimeError as error:
                raise EngineError(
                    _NAME,
                    "unavailable",
                    f"llama.cpp cannot load {path}: verify it with `voice models verify`, and "
                    "check that memory is left",
                ) from error

    def _params(self, params: Any, socket: str, path: str) -> Any:
        options = self._options
        params.model.path = path
        params.hostnames = [socket]
        params.ui = params.endpoint_slots = params.fit_params = False
        params.prefill_assistant = False  # a new message, even after one of its own
        params.n_threads_http = 1
        params.verbosity = -1
        params.n_parallel = options.slots
        params.n_ctx = options.context * options.slots
        params.n_batch = params.n_ubatch = max(_BATCH_TOKENS, options.slots)
        params.cache_ram_mib = _PROMPT_CACHE_MIB
        params.slot_prompt_similarity = _SAME_DIALOGUE
        for threads in (params.cpuparams, params.cpuparams_batch):
            threads.n_threads = options.threads
            threads.poll = 0
        return params


class _Answer:
    """One answer on its way from llama.cpp's callback to the loop.

    What has piled up by the time the reader looks comes as one delta, so at most one wake-up
    is ever on its way, and the text is bounded by the token limit.
    """

    def __init__(self, prefill: bool) -> None:
        self.prefill = prefill
        self.left = False
        self.started = False
        self.overflowed = False
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._arrived = asyncio.Event()
        self._chunks: list[dict[str, Any]] = []
        self._usage = Usage(finish_reason="skipped")
        self._empty = True
        self._work: asyncio.Task[None] | None = None

    def follow(self, work: asyncio.Task[None]) -> None:
        """``work`` has the answer written; when it ends, so does the answer."""
        self._work = work
        work.add_done_callback(self._end)

    def _end(self, work: asyncio.Task[None]) -> None:
        if not work.cancelled():
            work.exception()  # read here, since nobody reads it where the context was left
        self._arrived.set()

    def skip(self) -> None:
        """End it before it has begun."""
        self._arrived.set()

    def leave(self) -> None:
        """Nobody wants the rest."""
        self.left = True

    def take(self, chunk: dict[str, Any]) -> bool:
        """llama.cpp's callback, in a worker; True stops it. Must not raise: it would be lost."""
        if chunk.get("error", {}).get("type") == "exceed_context_size_error":
            self.overflowed = True
            return True
        with self._lock:
            self._chunks.append(chunk)
            first = len(self._chunks) == 1
        if first and not self.left:
            self._loop.call_soon_threadsafe(self._arrived.set)
        return self.left

    async def read(self) -> AsyncGenerator[Delta, None]:
        """The text as it comes, then the usage. Raises EngineError."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            ended = self._work is None or self._work.done()
            with self._lock:
                chunks, self._chunks = self._chunks, []
            text = "".join(map(self._text, chunks))
            if text and not self.prefill:
                self._empty = False
                yield TextDelta(text)
            if ended:
                break
        if self._work is not None:
            self._work.result()
        if self._empty and not self.prefill:
            raise EngineError(_NAME, "empty", "the model had nothing to say: ask again")
        yield self._usage

    def _text(self, chunk: dict[str, Any]) -> str:
        if error := chunk.get("error"):
            raise EngineError(_NAME, _code(error), f"llama.cpp refused: {error.get('message')}")
        reason = self._usage.finish_reason
        text = ""
        for choice in chunk["choices"]:
            text += choice["delta"].get("content") or ""
            reason = choice["finish_reason"] or reason
        counts = chunk.get("usage", {})
        self._usage = Usage(
            counts.get("prompt_tokens", 0),
            counts.get("completion_tokens", 0),
            counts.get("prompt_tokens_details", {}).get("cached_tokens", 0),
            reason,
        )
        return text


def _code(error: dict[str, Any]) -> str:
    return "bad_request" if error.get("code") == 400 else "failed"


@contextmanager
def _modest_spinning() -> Iterator[None]:
    """libgomp reads its settings once, when it is loaded: they are given for that moment."""
    before = os.environ.get("GOMP_SPINCOUNT")
    os.environ["GOMP_SPINCOUNT"] = before or _SPIN_COUNT
    try:
        yield
    finally:
        if before is None:
            del os.environ["GOMP_SPINCOUNT"]
