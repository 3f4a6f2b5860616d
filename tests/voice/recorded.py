"""A call that was journalled: an interrupted reply in it, a failure, and one more answer."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pipelines.conversation.events import (
    Event,
    ReplyEnded,
    ReplySounded,
    SettingsChanged,
    Transcribe,
    TranscriptArrived,
    TranscriptFailed,
    WindowHeard,
)
from pipelines.conversation.machine import TurnMachine
from pipelines.conversation.reply import Stages
from pipelines.conversation.settings import TurnSettings
from voice.journal import Closed, Entry, Header, Recorded, Said, Staged, Step, encode

CLOCK_MS = 5_000_000.0
SETTINGS = TurnSettings(partials=False)


class Teller:
    """Tells a machine what happens, and notes it as a journal does."""

    def __init__(self) -> None:
        self.now = CLOCK_MS
        self.entries: list[Entry] = []
        self.take = 0
        self._machine = TurnMachine(SETTINGS)

    def step(self, event: Event) -> None:
        commands = tuple(self._machine.step(event, int(self.now)))
        self.entries.append(Step(int(self.now), event, commands))
        for command in commands:
            if isinstance(command, Transcribe):
                self.take = command.take

    def hear(self, milliseconds: int, probability: float, level_db: float, echo: float = 0) -> None:
        for _ in range(milliseconds // 32):
            self.now += 32
            self.step(WindowHeard(probability, level_db, echo))

    def speak(self, milliseconds: int) -> None:
        self.hear(milliseconds, 1.0, -20.0)

    def hush(self, milliseconds: int) -> None:
        self.hear(milliseconds, 0.0, -70.0)

    def answer(self, epoch: int, text: str, pieces: int) -> None:
        """A reply's words and audio go out at once, 200 ms a piece."""
        self.say("ReplyText", epoch=epoch, text=text)
        for index in range(pieces):
            self.say("ReplyAudio", epoch=epoch, duration_ms=200.0)
            if index == 0:
                self.step(ReplySounded(epoch))

    def say(self, name: str, **fields: object) -> None:
        self.entries.append(Said(self.now, name, fields))


def story() -> Iterator[Entry]:
    """Asked and answered, cut off after about a second by a turn whose words fail, asked again."""
    call = Teller()
    call.step(SettingsChanged(SETTINGS))
    call.hush(640)
    call.speak(960)
    call.hush(192)
    call.step(TranscriptArrived(call.take, "what is <b>this</b>?", completeness=1.0))
    call.hush(480)
    call.answer(1, "It is a long story,", 5)
    call.answer(1, " and there is no end to it.", 20)
    call.hush(960)
    call.speak(640)
    call.hush(192)
    call.step(TranscriptFailed(call.take, "out of memory"))
    call.hush(960)
    call.step(TranscriptFailed(call.take, "out of memory"))
    call.speak(640)
    call.hush(192)
    call.step(TranscriptArrived(call.take, "stop it", completeness=1.0))
    call.hush(480)
    call.answer(2, "All right.", 3)
    call.step(ReplyEnded(2, 600))
    call.say("ReplyFinished", epoch=2, usage={"input_tokens": 3}, code="", message="")
    began = call.now / 1000 - 0.3
    call.entries.append(Staged(call.now, Stages(began, began + 0.1, began + 0.15, began + 0.2)))
    call.hush(960)
    call.entries.append(Closed(call.now))
    yield from call.entries


def recorded(entries: list[Entry] | None = None) -> Recorded:
    began = datetime(2026, 5, 4, 12, 30, tzinfo=UTC)
    header = Header("sess_story", began, CLOCK_MS, 24_000, SETTINGS)
    return Recorded(header, list(story()) if entries is None else entries)


def write(path: Path, journal: Recorded) -> Path:
    path.write_bytes(b"".join(map(encode, [journal.header, *journal.entries])))
    return path
