"""Responses out of band (``conversation: "none"``), and those with an input of their own.

The first are no part of the conversation: they have no items in it, several may be under way, and
neither speech nor other responses stop them. Source:
https://platform.openai.com/docs/guides/realtime-conversations#create-responses-outside-the-default-conversation
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from engines.ports import EngineError, Message, Tts, Usage
from pipelines.conversation.aside import Aside
from pipelines.conversation.call import Call
from pipelines.conversation.dialogue import (
    AgentItem,
    Dialogue,
    DuplicateItemError,
    Item,
    ToolCallItem,
    UnknownItemError,
)
from pipelines.conversation.events import ReplyAudio, ReplyFinished, ReplyText
from pipelines.conversation.memory import fitted, tokens_of_tools
from pipelines.conversation.ports import CallSettings
from voice.doors.ration import RationedLlm
from voice.doors.realtime_replies import Response
from voice.wire.realtime_errors import WireError
from voice.wire.realtime_objects import (
    RealtimeItem,
    RealtimeItemReference,
    RealtimeResponseCreateParams,
)

MOST_ASIDES: Final = 4
"""At once, of one call."""


class Asides:
    """Those of one call. Opened by ``open_asides``."""

    def __init__(
        self, llm: RationedLlm, tts: Tts, tasks: asyncio.TaskGroup, new_id: Callable[[str], str]
    ) -> None:
        self._llm = llm
        self._tts = tts
        self._tasks = tasks
        self._new_id = new_id
        self._running: dict[str, asyncio.Task[None]] = {}

    def start(
        self,
        response: Response,
        settings: CallSettings,
        messages: tuple[Message, ...],
        call_id: str,
    ) -> None:
        """Make this response. Raises WireError where there are too many."""
        if len(self._running) >= MOST_ASIDES:
            raise WireError(
                "too_many_active_responses",
                f"{MOST_ASIDES} responses outside the conversation are in progress: wait until one"
                " of them is finished, or cancel it.",
                "response.conversation",
            )
        listener = _Listener(response)
        response.start()
        try:
            llm = self._llm.aside()
        except EngineError as error:
            listener.finished(ReplyFinished(0, Usage(), error.code, str(error)))
            return
        item_id = lambda: self._new_id("item")  # noqa: E731
        settings = replace(settings, own_tools=(), hosted=())  # they would do something to the call
        aside = Aside(settings, messages, llm, self._tts, listener,
                      new_id=item_id, call_id=call_id)  # fmt: skip
        self._running[response.id] = self._tasks.create_task(self._run(aside, response))

    def cancel(self, response_id: str | None) -> bool:
        """Stop the response of this id; False where it is none of these."""
        task = self._running.get(response_id or "")
        if task is None:
            return False
        task.cancel()
        return True

    def close(self) -> None:
        """The call is over."""
        for task in self._running.values():
            task.cancel()

    async def _run(self, aside: Aside, response: Response) -> None:
        try:
            await aside.run()
        except asyncio.CancelledError:
            if aside.item is not None:
                aside.item.status = "incomplete"
            response.end_message(complete=False)
            response.cancel("client_cancelled")
            raise
        finally:
            del self._running[response.id]


@asynccontextmanager
async def open_asides(
    llm: RationedLlm, tts: Tts, new_id: Callable[[str], str]
) -> AsyncIterator[Asides]:
    """The asides of a call, from here to the end of the context; a bug in one ends the body."""
    async with asyncio.TaskGroup() as tasks:
        asides = Asides(llm, tts, tasks, new_id)
        try:
            yield asides
        finally:
            asides.close()


class _Listener:
    """Tells of an aside by the events of its response."""

    def __init__(self, response: Response) -> None:
        self._response = response

    def began_item(self, item: AgentItem) -> None:
        self._response.begin_message(item, None)

    def said(self, item: AgentItem, output: ReplyText | ReplyAudio) -> None:
        self._response.say(item, output)

    def called(self, item: ToolCallItem) -> None:
        self._response.call_tool(item, None)

    def finished(self, output: ReplyFinished) -> None:
        self._response.end_message(complete=not output.code)
        self._response.finish(output)


def messages_for(
    params: RealtimeResponseCreateParams,
    settings: CallSettings,
    call: Call,
    from_wire: Callable[[RealtimeItem, str], Item],
) -> tuple[Message, ...]:
    """What the model is given to read for a response: the conversation, unless it has an ``input``
    of its own. Raises WireError where that cannot be."""
    if params.input is None:
        return call.messages(settings)
    read = Dialogue()
    for place, item in enumerate(params.input):
        _add(read, item, f"response.input[{place}]", call, from_wire)
    messages = read.messages(settings.instructions)
    if not messages:
        raise WireError(
            "invalid_value",
            "There is nothing to answer: give 'instructions', or an 'input' that has words.",
            "response.input",
        )
    tools = (*settings.tools, *(hosted.tool for hosted in settings.hosted))
    return fitted(messages, settings.context_tokens - tokens_of_tools(tools))


def _add(
    read: Dialogue,
    item: RealtimeItem | RealtimeItemReference,
    path: str,
    call: Call,
    from_wire: Callable[[RealtimeItem, str], Item],
) -> None:
    try:
        if isinstance(item, RealtimeItemReference):
            read.add(call.dialogue.get(item.id))
        else:
            read.add(from_wire(item, path))
    except UnknownItemError as error:
        raise WireError(
            "item_reference_invalid_item_id",
            f"The item with id '{error.args[0]}' does not exist.",
            f"{path}.id",
        ) from error
    except DuplicateItemError as error:
        raise WireError(
            "item_create_duplicate_item_id",
            f"The item with id '{error.args[0]}' is in the input twice.",
            f"{path}.id",
        ) from error
