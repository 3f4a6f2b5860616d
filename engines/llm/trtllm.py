"""A chat model on TensorRT-LLM in this process, with the checkpoint's own chat template.

Where a model is shared by several servers, or its tool calls need a parser of their own, serve it
with trtllm-serve or vLLM and talk to it by ``openai``. Prompts are kept: a dialogue that goes on
pays for what was said since.
"""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engines.checkpoints import located
from engines.llm.detokenizing import Detokenizer
from engines.llm.plain_text import PlainText
from engines.llm.tool_calls import AnswerText, as_template_message, as_template_tool
from engines.llm.window import recent
from engines.ports import ChatRequest, Delta, EngineError, Load, Message, Priority, Usage
from engines.trtllm import Runtime, Written, decoder_arguments
from engines.workers import Workers

if TYPE_CHECKING:
    from engines.models import ModelStore

_NAME: Final = "trtllm"
_LEAST_ROOM: Final = 64
"""Tokens below which it is no use to leave out more of the history."""


@dataclass(frozen=True, slots=True)
class Options:
    """``model``: a folder, or the hub's name. ``slots``: answers written at the same time.
    ``context``: tokens of one dialogue, its answer included; the oldest turns are left out where
    it is longer. ``max_tokens`` and ``temperature`` hold where a request names none.
    ``kv_fraction``: of the device's free memory, for what is kept of prompts; ``kv_dtype``:
    ``fp8`` or ``auto``. ``template``: further arguments of the chat template, as
    {"enable_thinking": false}."""

    model: str = ""
    slots: int = 16
    context: int = 8192
    max_tokens: int = 400
    temperature: float = 0.6
    top_p: float = 0.95
    kv_fraction: float = 0.6
    kv_dtype: str = "fp8"
    template: dict[str, Any] = field(default_factory=dict)


def create(options: Options, models: ModelStore) -> TrtLlm:
    """The plug-in contract: loads nothing yet."""
    if not options.model:
        raise EngineError(_NAME, "bad_request", "no model: set [llm] model to a folder or a name")
    if options.max_tokens >= options.context:
        raise EngineError(
            _NAME,
            "bad_request",
            f"an answer of {options.max_tokens} tokens leaves nothing of the {options.context} for "
            "its question: set a smaller max_tokens, or a larger context",
        )
    return TrtLlm(options, located(_NAME, options.model, models))


class TrtLlm:
    """An Llm. It cannot be made to call a tool: it may or may not (``tool_choice`` auto)."""

    def __init__(self, options: Options, model: str) -> None:
        self._options = options
        self._model = model
        self._runtime = Runtime(
            _NAME,
            slots=options.slots,
            arguments=lambda api: decoder_arguments(
                api,
                model,
                slots=options.slots,
                kv_fraction=options.kv_fraction,
                kv_dtype=options.kv_dtype,
                context=options.context,
            ),
        )
        # One thread with a tokenizer of its own: it must not be encoding while it decodes.
        self._workers = Workers(f"{_NAME} prompts")
        self._tokenizer: Any = None
        self._plain = PlainText(())
        self._ends: list[int] = []

    async def warm_up(self) -> None:
        """Load, and answer once. Raises EngineError where that cannot be."""
        await self._runtime.start()
        llm = self._runtime.llm
        self._ends = _ends(getattr(llm, "_hf_model_dir", None) or self._model)
        self._tokenizer = await self._workers.run(Priority.FINAL, copy.deepcopy, llm.tokenizer)
        self._plain = PlainText(llm.tokenizer.get_added_vocab())
        hello = ChatRequest((Message("user", "Hello."),), max_tokens=0)
        async with self.open(hello) as deltas:
            async for _ in deltas:
                pass

    async def close(self) -> None:
        """Free the device."""
        self._workers.close()
        await self._workers.wait_closed()
        await self._runtime.close()

    def load(self) -> Load:
        """Answers that are being written, and those that wait for a slot."""
        return self._runtime.load()

    def open(self, request: ChatRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """Answer. Iterating raises EngineError; see ``Runtime.open``.

        With ``max_tokens=0`` the prompt is read into the cache where a slot is free, else
        nothing is done: its finish reason is then ``skipped``.
        """
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: ChatRequest) -> AsyncGenerator[AsyncIterator[Delta], None]:
        async with aclosing(self._deltas(request)) as deltas:
            yield deltas

    async def _deltas(self, request: ChatRequest) -> AsyncGenerator[Delta, None]:
        ahead = request.max_tokens == 0
        load = self._runtime.load()
        if ahead and load.busy >= load.slots:
            yield Usage(finish_reason="skipped")
            return
        tools = _tools(request)
        llm = self._runtime.llm
        ids = await self._workers.run(request.priority, self._prompt, request, tools)
        async with self._runtime.open(ids, self._sampling(request)) as answer:
            if ahead:
                last = [written async for written in answer][-1]
                yield Usage(last.prompt_tokens, 0, last.cached_tokens)
                return
            text = AnswerText(_NAME, [tool["function"]["name"] for tool in tools])
            async with aclosing(_read(answer, text, llm.tokenizer)) as deltas:
                async for delta in deltas:
                    yield delta

    def _sampling(self, request: ChatRequest) -> Any:
        options = self._options
        given = request.temperature
        limit = options.max_tokens if request.max_tokens is None else max(1, request.max_tokens)
        return self._runtime.sampling(
            max_tokens=limit,
            temperature=options.temperature if given is None else given,
            top_p=options.top_p,
            stop_token_ids=self._ends or None,
            detokenize=False,
        )

    def _prompt(self, request: ChatRequest, tools: list[dict[str, Any]]) -> list[int]:
        """In the worker: the prompt's ids, with less of the history if it does not fit."""
        # Not the request's own limit: a prompt must not begin differently for it, see recent.
        most = room = self._options.context - self._options.max_tokens
        while room >= _LEAST_ROOM:
            ids = self._encode(recent(request.messages, room), tools)
            if len(ids) <= most:
                return ids
            room //= 2
        raise EngineError(
            _NAME,
            "bad_request",
            f"the instructions, tools and last message exceed the {most} tokens that are left of "
            f"its context of {self._options.context}: shorten them, or set a larger context",
        )

    def _encode(self, messages: tuple[Message, ...], tools: list[dict[str, Any]]) -> list[int]:
        try:
            text = self._tokenizer.apply_chat_template(
                self._plain.of([as_template_message(message) for message in messages]),
                tools=self._plain.of(tools) or None,
                tokenize=False,
                add_generation_prompt=True,
                **self._options.template,
            )
        except Exception as error:  # a template raises what it likes: jinja2's errors, ValueError
            raise EngineError(
                _NAME, "bad_request", f"the model's chat template refused the dialogue: {error}"
            ) from error
        return list(self._tokenizer.encode(text, add_special_tokens=False))


async def _read(
    answer: AsyncIterator[Written], text: AnswerText, tokenizer: Any
) -> AsyncGenerator[Delta, None]:
    """The answer's tokens as deltas, then what it cost."""
    words = Detokenizer(lambda ids: str(tokenizer.decode(ids, skip_special_tokens=True)))
    count = said = 0
    last = Written(())
    async for last in answer:
        count += len(last.tokens)
        for delta in text.feed(words.feed(last.tokens)):
            said += 1
            yield delta
    for delta in (*text.feed(words.finish()), *text.finish()):
        said += 1
        yield delta
    if not said:
        raise EngineError(_NAME, "empty", "the model had nothing to say: ask again")
    finish = "tool_calls" if text.calls and last.finish == "stop" else last.finish
    yield Usage(last.prompt_tokens, count, last.cached_tokens, finish)


def _tools(request: ChatRequest) -> list[dict[str, Any]]:
    if request.tool_choice not in ("auto", "none"):
        raise EngineError(
            _NAME,
            "bad_request",
            f"tool_choice {request.tool_choice!r}: it cannot be made to call a tool; leave it at "
            "auto, or serve the model with trtllm-serve or vLLM and use the engine openai",
        )
    return [as_template_tool(tool) for tool in request.tools if request.tool_choice == "auto"]


def _ends(folder: str | Path) -> list[int]:
    """The ids of generation_config.json that end an answer: a chat model has several, and the
    engine by itself stops at the tokenizer's one only."""
    try:
        config = json.loads((Path(folder) / "generation_config.json").read_bytes())
    except (OSError, ValueError):
        return []
    found = config.get("eos_token_id", []) if isinstance(config, dict) else []
    return [found] if isinstance(found, int) else list(found or [])
