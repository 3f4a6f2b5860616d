"""The stock openai package through a reply that is cut in vain and goes on."""

import base64
from collections import Counter
from typing import Any

import pytest
from openai.types import realtime as sdk

from engines.scripted import AsrOptions, LlmOptions, ScriptedAsr, ScriptedLlm, tokens_of
from tests.voice.conftest import RATE, sound
from tests.voice.doors.stock import TYPES, stock_call

STORY = " ".join(f"Then came the {number}th of many days." for number in range(4, 11))
STORYTELLER = ScriptedLlm(LlmOptions(script=tokens_of(STORY)))
STORY_S = len(STORY.split()) / 12
HEARD_S = 2.5
"""Audio that has come once the caller makes a sound: 2 s of it are still to be heard."""


class Caller:
    """Talks through the package, and keeps what it hears as the package understands it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.events: list[Any] = []

    async def sound(self, milliseconds: int, level: int) -> None:
        data = sound(milliseconds, level)
        for start in range(0, len(data), 960):
            audio = base64.b64encode(data[start : start + 960]).decode()
            await self.connection.input_audio_buffer.append(audio=audio)

    async def until(self, kind: str) -> Any:
        async for event in self.connection:
            self.events.append(event)
            if event.type == kind:
                return event
        pytest.fail(f"the call ended before {kind}")

    async def hear(self, seconds: float) -> None:
        while sum(map(len, self.audio.values())) < seconds * 2 * RATE:
            await self.until("response.output_audio.delta")

    def all(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type == kind]

    @property
    def audio(self) -> dict[str, bytes]:
        """By item."""
        audio: dict[str, bytes] = {}
        for event in self.all("response.output_audio.delta"):
            audio[event.item_id] = audio.get(event.item_id, b"") + base64.b64decode(event.delta)
        return audio

    async def retrieve(self, item_id: str) -> str:
        """What the server believes that was heard of it."""
        await self.connection.conversation.item.retrieve(item_id=item_id)
        event = await self.until("conversation.item.retrieved")
        return str(event.item.content[0].transcript)


def assert_valid(events: list[Any]) -> None:
    """The package takes what it cannot read for whatever comes nearest: be stricter."""
    for event in events:
        known = TYPES.get(event.type) or type(event)
        assert type(event) is known
        known.model_validate(event.to_dict(), strict=False)
    assert max(Counter(event.event_id for event in events).values()) == 1


def assert_each_response_is_whole(events: list[Any]) -> None:
    """What belongs to a response comes between its beginning and its end, in order, and names
    the one item that it has."""
    open_response, item = None, None
    for event in events:
        if event.type == "response.created":
            assert open_response is None
            open_response, item = event.response.id, None
        elif event.type == "response.done":
            assert event.response.id == open_response
            assert [output.id for output in event.response.output] == [item]
            open_response = None
        elif event.type == "response.output_item.added":
            assert (event.response_id, item) == (open_response, None)
            item = event.item.id
        elif event.type.startswith("response."):
            assert event.response_id == open_response
            assert getattr(event, "item_id", item) == item
    assert open_response is None


async def test_a_reply_that_goes_on_is_a_response_of_its_own(serve: Any) -> None:
    server = await serve(asr=ScriptedAsr(AsrOptions(text="Mm-hm.")), llm=STORYTELLER)
    async with stock_call(server) as connection:
        caller = Caller(connection)
        await connection.response.create()
        await caller.hear(HEARD_S)
        await caller.sound(400, 8_000)
        cut = (await caller.until("response.done")).response
        await caller.sound(700, 0)
        await caller.until("response.created")
        late = {"content_index": 0, "audio_end_ms": 10_000}
        await connection.conversation.item.truncate(item_id=cut.output[0].id, **late)
        gone_on = (await caller.until("response.done")).response
        heard = [await caller.retrieve(answer.output[0].id) for answer in (cut, gone_on)]
        story = caller.events[:]
    assert_valid(story)
    assert_each_response_is_whole(story)
    assert (cut.status, gone_on.status) == ("cancelled", "completed")
    assert cut.status_details.reason == "turn_detected"
    assert cut.id != gone_on.id
    assert cut.output[0].id != gone_on.output[0].id
    assert (cut.output[0].status, gone_on.output[0].status) == ("incomplete", "completed")
    assert 3 <= len(heard[0].split()) < 40
    assert " ".join(heard).split() == STORY.split(), "every word is heard once"
    first, second = (len(audio) / 2 / RATE for audio in caller.audio.values())
    assert first >= HEARD_S
    assert second == pytest.approx(STORY_S - len(heard[0].split()) / 12, abs=0.25)
    (words,) = caller.all("conversation.item.input_audio_transcription.completed")
    assert words.transcript == "Mm-hm."
    assert isinstance(
        caller.all("conversation.item.truncated")[0], sdk.ConversationItemTruncatedEvent
    )
    assert len(server.llm.requests) == 1, "nobody answers a sign of listening"


async def test_a_cough_changes_nothing_that_the_client_sees(serve: Any) -> None:
    server = await serve(asr=ScriptedAsr(AsrOptions(text="[cough]")), llm=STORYTELLER)
    async with stock_call(server) as connection:
        caller = Caller(connection)
        await connection.response.create()
        await caller.hear(0.5)
        await caller.sound(120, 8_000)
        await caller.sound(700, 0)
        done = (await caller.until("response.done")).response
    assert_valid(caller.events[2:])
    assert_each_response_is_whole(caller.events[2:])
    assert done.status == "completed"
    assert len(caller.all("response.created")) == 1
    assert [event.type for event in caller.events if "input_audio" in event.type] == []
