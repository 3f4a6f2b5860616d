from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

from engines.asr.guard import loudness_dbfs
from loadtest.hearing_bench import WIRES, Clip, Line, Listener, Told, noise_row, row
from loadtest.overheard import Overheard
from voice.wire.realtime import decode_server_event

RECORDING = np.rint(8000 * np.sin(2 * np.pi * 440 * np.arange(24_000) / 24_000)).astype(np.int16)
CLIPS = [Clip("a.wav", RECORDING, "go forward"), Clip("b.wav", RECORDING, "ten meters " * 49)]


@pytest.mark.parametrize(("wire", "size"), [*zip(WIRES, (48_000, 8_000), strict=True)])
def test_a_second_on_each_wire_is_a_second_behind_it(wire, size):
    assert len(wire.encode(wire.samples(RECORDING))) == size
    arrived = wire.arrived(RECORDING)
    assert (len(arrived), arrived.rate) == (16_000, 16_000)
    assert loudness_dbfs(arrived.floats(), 16_000) == pytest.approx(-15.2, abs=0.3)


def told(*turns: str) -> Told:
    return Told(list(turns), ["loop"])


def test_a_call_that_hears_as_well_will_do_and_differences_are_shown():
    alone = {"a.wav": "Go forward.", "b.wav": "ten meters " * 49}
    heard = {"a.wav": told("Go", "forwards."), "b.wav": told("ten meters " * 49)}
    text, good = row("24 kHz", CLIPS, alone, heard)
    assert good
    first, *rest = text.splitlines()
    assert first.split() == ["24", "kHz", "0.00", "1.00", "+1", "1"]
    assert [line.split()[-1] for line in rest] == ["forward.'", "loop"]
    assert "Go | forwards." in rest[1]


def test_more_than_one_word_in_a_hundred_is_too_many():
    alone = {"a.wav": "Go forward.", "b.wav": "ten meters " * 49}
    heard = {"a.wav": told(), "b.wav": told("ten meters " * 49)}
    text, good = row("24 kHz", CLIPS, alone, heard)
    assert not good
    assert text.splitlines()[0].endswith("WORSE")


def test_what_is_heard_in_noise_is_printed_with_its_words():
    lines = noise_row("hum", -20, Overheard(1, 2, ["You"], [], 3, 0)).splitlines()
    assert lines[0].split() == ["hum", "-20", "1", "2", "1", "3", "0"]
    assert lines[1].strip() == "'You'"


class Server:
    """Says what it is told to, and keeps what is sent."""

    def __init__(self, *events: str) -> None:
        self.events = events
        self.sent: list[Any] = []

    async def __aiter__(self) -> AsyncIterator[Any]:
        for event in self.events:
            yield decode_server_event(event)

    async def send(self, event: Any) -> None:
        self.sent.append(event)


def event(kind: str, more: str = "") -> str:
    return f'{{"type": "{kind}", "event_id": "e", "item_id": "i"{more}}}'


STARTED = event("input_audio_buffer.speech_started", ', "audio_start_ms": 0')
STOPPED = event("input_audio_buffer.speech_stopped", ', "audio_end_ms": 1')
COMMITTED = event("input_audio_buffer.committed", ', "previous_item_id": null')
COMPLETED = event(
    "conversation.item.input_audio_transcription.completed",
    ', "content_index": 0, "transcript": "Go.", "suspicion": "loop",'
    ' "usage": {"type": "duration", "seconds": 1}',
)


@pytest.mark.parametrize(
    ("events", "busy"),
    [
        ((), False),
        ((STARTED,), True),
        ((STARTED, STOPPED, COMMITTED), True),
        ((STARTED, STOPPED, COMMITTED, COMPLETED), False),
    ],
)
async def test_a_turn_is_waited_for_until_its_words_are_there(events, busy):
    listener = Listener(Server(*events))
    await listener.run()
    assert listener.busy is busy
    assert listener.turns == (["Go."] if len(events) == 4 else [])
    assert listener.doubts == (["loop"] if len(events) == 4 else [])


async def test_a_failure_of_the_server_ends_the_benchmark():
    failed = event(
        "conversation.item.input_audio_transcription.failed",
        ', "content_index": 0, "error": {"type": "server_error", "message": "no model"}',
    )
    with pytest.raises(SystemExit, match="no model"):
        await Listener(Server(failed)).run()


@pytest.mark.virtual_clock
@pytest.mark.parametrize(("wire", "size"), [*zip(WIRES, (960, 160), strict=True)])
async def test_speech_leaves_in_frames_of_20_ms(wire, size):
    server = Server()
    await Line(server, wire).say(RECORDING)
    assert [len(sent.audio) for sent in server.sent] == [size] * 50
