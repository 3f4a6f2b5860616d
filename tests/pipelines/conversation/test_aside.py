"""A reply beside the dialogue, on a clock that jumps."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from engines.ports import Message, ToolCallDelta
from engines.scripted import SENTENCES, LlmOptions, ScriptedLlm, ScriptedTts
from pipelines.conversation.aside import Aside
from pipelines.conversation.events import ReplyAudio, ReplyText
from pipelines.conversation.ports import CallSettings
from pipelines.conversation.reply import READ_LEAD_MS

pytestmark = pytest.mark.virtual_clock

MESSAGES = (Message("user", "hello"),)


class Listener:
    """Notes what it is told, and when."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any, float]] = []

    def _note(self, name: str, thing: Any) -> None:
        self.told.append((name, thing, asyncio.get_running_loop().time()))

    def began_item(self, item: Any) -> None:
        self._note("began", item)

    def said(self, item: Any, output: Any) -> None:
        self._note("said", output)

    def called(self, item: Any) -> None:
        self._note("called", item.call.name)

    def finished(self, output: Any) -> None:
        self._note("finished", output)

    def all(self, kind: type) -> list[tuple[Any, float]]:
        return [(thing, at) for _, thing, at in self.told if isinstance(thing, kind)]


def aside_of(listener: Listener, llm: Any = None, **changes: Any) -> Aside:
    settings = replace(CallSettings(), **changes)
    return Aside(
        settings, MESSAGES, llm or ScriptedLlm(), ScriptedTts(), listener,
        new_id=lambda: "item_1", call_id="call",
    )  # fmt: skip


async def test_it_speaks_no_faster_than_it_can_be_listened_to() -> None:
    """Three sentences of a second each, and a listener who is two seconds behind at most."""
    listener, began = Listener(), asyncio.get_running_loop().time()
    await aside_of(listener).run()
    sounds = listener.all(ReplyAudio)
    assert sum(output.pcm.duration_ms for output, _ in sounds) == 3_000
    assert sounds[-1][1] - began == pytest.approx((3_000 - READ_LEAD_MS) / 1000, abs=0.3)
    assert "".join(output.text for output, _ in listener.all(ReplyText)) == "".join(SENTENCES)
    names = [name for name, _, _ in listener.told]
    assert (names[0], names[-1], names.count("began")) == ("began", "finished", 1)
    assert listener.told[0][1].status == "completed"


async def test_it_may_be_written_and_call_tools() -> None:
    listener = Listener()
    script = ("Wait.", ToolCallDelta(0, "a", "weather", "{}"), ToolCallDelta(1, "b", "time", "{}"))
    aside = aside_of(listener, ScriptedLlm(LlmOptions(script=script)), spoken=False)
    await aside.run()
    assert listener.all(ReplyAudio) == []
    assert [thing for name, thing, _ in listener.told if name == "called"] == ["weather", "time"]
    assert aside.item is not None
    assert aside.item.status == "completed"


async def test_one_that_fails_says_why() -> None:
    listener = Listener()
    llm = ScriptedLlm(LlmOptions(fail_code="unavailable", fail_after=14))
    aside = aside_of(listener, llm)
    await aside.run()
    assert listener.told[-1][1].code == "unavailable"
    assert aside.item is not None
    assert aside.item.status == "incomplete"


async def test_one_that_fails_at_once_has_no_item() -> None:
    listener = Listener()
    aside = aside_of(listener, ScriptedLlm(LlmOptions(fail_code="unavailable")))
    await aside.run()
    assert [name for name, _, _ in listener.told] == ["finished"]
    assert aside.item is None
