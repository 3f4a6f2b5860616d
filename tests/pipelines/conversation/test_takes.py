"""What is asked of the recogniser, and what its words amount to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from engines.ports import EngineError, Load, Priority, Transcript
from pipelines.conversation.echo import EchoGuard
from pipelines.conversation.events import (
    EndJudged,
    Event,
    Transcribe,
    TranscriptArrived,
    TranscriptFailed,
)
from pipelines.conversation.ports import CallSettings, Engines
from pipelines.conversation.takes import MOST_TAKES, PROMPT_GAP_S, Takes

pytestmark = pytest.mark.virtual_clock

SETTINGS = CallSettings(asr_prompt="Antiphon")


def sound(milliseconds: int) -> Pcm:
    return Pcm(np.zeros(16 * milliseconds, np.int16), 16_000)


class Asr:
    """Gives what it is told to; notes what it is asked."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.transcripts: list[Transcript] = [Transcript("I would like a tea.", "en")]
        self.takes_s = 0.1
        self.fails = False
        self.queued = 0
        self.open_now = 0

    def load(self) -> Load:
        return Load(queued=self.queued)

    @asynccontextmanager
    async def open(self, request: Any) -> AsyncIterator[AsyncIterator[Any]]:
        self.requests.append(request)
        self.open_now += 1
        try:
            yield self._hear()
        finally:
            self.open_now -= 1

    async def _hear(self) -> AsyncIterator[Any]:
        await asyncio.sleep(self.takes_s)
        if self.fails:
            raise EngineError("asr", "failed", "it broke")
        for transcript in self.transcripts:
            yield transcript


class Judge(Asr):
    """An end-of-turn model."""

    def __init__(self) -> None:
        super().__init__()
        self.transcripts = [0.75]  # type: ignore[list-item]


class Stage:
    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.asr, self.judge, self.events = Asr(), Judge(), list[Event]()
        self.spoken, self.heard = "", True
        self.looked_ahead: list[str] = []
        engines = Engines(None, self.asr, None, None, self.judge)  # type: ignore[arg-type]
        self.takes = Takes(
            engines,
            tasks,
            self.events.append,
            call_id="call_1",
            speaker=self,  # type: ignore[arg-type]
        )

    def look_ahead(self, settings: CallSettings, words: str) -> None:
        self.looked_ahead.append(words)

    def recent_text(self) -> str:
        return self.spoken

    def audible(self, last_ms: float) -> bool:
        assert last_ms in (400, 12_000), "as long as the take"
        return self.heard

    @property
    def echo(self) -> Any:
        return EchoGuard()

    def start(self, take: int = 1, purpose: Any = "final", profile: Any = None) -> None:
        self.takes.start(Transcribe(1, take, purpose), sound(12_000), SETTINGS, profile)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with asyncio.TaskGroup() as tasks:
        stage = Stage(tasks)
        yield stage
        stage.takes.close()
    assert (stage.asr.open_now, stage.judge.open_now) == (0, 0)


async def test_a_take_is_asked_for_with_its_purpose_and_told_of(stage: Stage) -> None:
    for take, purpose in enumerate(("partial", "ahead", "final"), 1):
        stage.start(take, purpose)
    await asyncio.sleep(1)
    assert [request.priority for request in stage.asr.requests] == [
        *(Priority.PARTIAL, Priority.SPECULATIVE, Priority.FINAL)
    ]
    assert {request.call for request in stage.asr.requests} == {"call_1"}
    assert [(event.take, event.text, event.kind) for event in stage.events] == [  # type: ignore[union-attr]
        (take, "I would like a tea.", "words") for take in (1, 2, 3)
    ]
    assert stage.takes.language == "en"
    assert stage.judge.requests == [], "nobody asked how it sounded"


async def test_words_are_weighed(stage: Stage) -> None:
    stage.asr.transcripts = [Transcript("", suspicion="loop"), Transcript("Because of the", "en")]
    stage.start()
    await asyncio.sleep(1)
    (event,) = stage.events
    assert isinstance(event, TranscriptArrived)
    assert (event.text, event.suspicion) == ("Because of the", "loop")
    assert event.completeness < 0


async def test_what_is_no_word_is_nothing_and_what_was_just_said_an_echo(stage: Stage) -> None:
    stage.spoken = "Our office in the old harbour is open from nine to five every day."
    for text in ("[cough]", "our office in the old harbour is open", "Mm-hm."):
        stage.asr.transcripts = [Transcript(text)]
        stage.start()
        await asyncio.sleep(1)
    assert [(event.text, event.kind) for event in stage.events] == [  # type: ignore[union-attr]
        ("", "nothing"),
        ("our office in the old harbour is open", "echo"),
        ("Mm-hm.", "backchannel"),
    ]


async def test_words_that_nothing_was_heard_with_are_nobodys_echo(stage: Stage) -> None:
    stage.spoken, stage.heard = "Our office in the old harbour is open every day.", False
    stage.asr.transcripts = [Transcript("our office in the old harbour is open")]
    stage.start()
    await asyncio.sleep(1)
    assert [event.kind for event in stage.events] == ["words"]  # type: ignore[union-attr]


async def test_what_sounded_like_the_agent_is_its_echo_whatever_is_made_of_it(
    stage: Stage,
) -> None:
    stage.spoken = "One winter the river froze, and the house was silent."
    for echoed, text in ((False, "Subpanted."), (True, "Subpanted."), (True, "No, stop!")):
        stage.asr.transcripts = [Transcript(text, "en")]
        wanted = Transcribe(1, 1, "ahead", echoed)
        stage.takes.start(wanted, sound(400), SETTINGS, None)
        await asyncio.sleep(1)
    assert [event.kind for event in stage.events] == ["words", "echo", "words"]  # type: ignore[union-attr]


async def test_a_hum_is_a_sign_of_listening_whatever_is_written_for_it(stage: Stage) -> None:
    time = np.arange(16 * 400) / 16_000
    hum = Pcm.from_floats((0.3 * np.sin(2 * np.pi * 220 * time)).astype(np.float32), 16_000)
    for text in ("Mama", "Come on.", "Who?", "Come on over."):
        stage.asr.transcripts = [Transcript(text, "en")]
        stage.takes.start(Transcribe(1, 1, "final"), hum, SETTINGS, None)
        await asyncio.sleep(1)
    assert [event.kind for event in stage.events] == [  # type: ignore[union-attr]
        *("backchannel", "backchannel"),
        *("words", "words"),  # a question that needs no open mouth, and too much for a hum
    ]


async def test_a_take_ahead_is_judged_by_its_sound_where_that_counts(stage: Stage) -> None:
    stage.start(purpose="ahead", profile="normal")
    await asyncio.sleep(1)
    assert EndJudged(1, 0.75) in stage.events
    (request,) = stage.judge.requests
    assert request.pcm.duration_ms == 8_000, "it hears no more"


async def test_a_judge_that_fails_is_none(stage: Stage) -> None:
    stage.judge.fails = True
    stage.start(purpose="ahead", profile="normal")
    await asyncio.sleep(1)
    assert [type(event) for event in stage.events] == [TranscriptArrived]


async def test_a_dropped_take_is_not_heard_of_again(stage: Stage) -> None:
    stage.start(purpose="ahead", profile="normal")
    await asyncio.sleep(0.05)
    stage.takes.drop(1)
    stage.takes.drop(2)
    await asyncio.sleep(1)
    assert stage.events == []


async def test_a_recogniser_that_fails_is_told_of(stage: Stage) -> None:
    stage.asr.fails = True
    stage.start()
    await asyncio.sleep(1)
    assert stage.events == [TranscriptFailed(1, "asr: it broke")]


async def test_a_partial_take_gives_way_to_what_waits(stage: Stage) -> None:
    stage.asr.queued = 1
    stage.start(1, "partial")
    stage.start(2, "final")
    await asyncio.sleep(1)
    assert [type(event) for event in stage.events] == [TranscriptFailed, TranscriptArrived]


async def test_no_more_takes_run_than_a_call_may_have(stage: Stage) -> None:
    for take in range(MOST_TAKES + 1):
        stage.start(take)
    (refused,) = stage.events
    assert isinstance(refused, TranscriptFailed)
    await asyncio.sleep(1)
    stage.start(MOST_TAKES + 2)
    await asyncio.sleep(1)
    assert len(stage.events) == MOST_TAKES + 2


# --- what was said before -------------------------------------------------------------------


async def prompt(stage: Stage) -> str:
    stage.start()
    await asyncio.sleep(1)
    text: str = stage.asr.requests[-1].prompt
    return text


async def test_what_was_said_before_is_a_hint(stage: Stage) -> None:
    assert await prompt(stage) == "Antiphon"
    stage.takes.accept("My name is Ada.", "")
    stage.takes.accept("I live in Bath.", "")
    assert await prompt(stage) == "Antiphon My name is Ada. I live in Bath."


async def test_what_may_be_made_up_is_no_hint_nor_is_what_was_before_it(stage: Stage) -> None:
    stage.takes.accept("My name is Ada.", "")
    stage.takes.accept("so so so", "loop")
    assert await prompt(stage) == "Antiphon"


async def test_after_a_while_it_is_no_hint_any_more(stage: Stage) -> None:
    stage.takes.accept("My name is Ada.", "")
    await asyncio.sleep(PROMPT_GAP_S)
    assert await prompt(stage) == "Antiphon"
    stage.takes.accept("I live in Bath.", "")
    assert await prompt(stage) == "Antiphon I live in Bath."


async def test_a_hint_is_short(stage: Stage) -> None:
    for _ in range(100):
        stage.takes.accept("word " * 50, "")
    assert len(await prompt(stage)) < 500


async def test_a_pause_has_the_words_so_far_looked_up(stage: Stage) -> None:
    stage.start(1, "partial")
    await asyncio.sleep(0.2)
    stage.start(2, "ahead")
    stage.start(3, "ahead")
    await asyncio.sleep(0.2)
    assert stage.looked_ahead == ["I would like a tea.", ""], "each words once"
