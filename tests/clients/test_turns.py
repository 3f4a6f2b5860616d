"""The account of a turn, event by event, on a clock of the test's own."""

import numpy as np
import pytest

from clients.playback import Player
from clients.turns import Turn
from voice.wire import realtime_server as server
from voice.wire.realtime_client import ConversationItemTruncateEvent
from voice.wire.realtime_objects import (
    RealtimeError,
    RealtimeResponse,
    RealtimeResponseError,
    RealtimeResponseStatus,
    TranscriptionDurationUsage,
    TranscriptionError,
)

PART = ("resp", "item", 0, 0)
HALF_SECOND = np.ones(12_000, "<i2").tobytes()
CREATED = server.ResponseCreatedEvent(RealtimeResponse("resp", "in_progress"))
DONE = server.ResponseDoneEvent(RealtimeResponse("resp", "completed"))
STARTED = server.InputAudioBufferSpeechStartedEvent(0, "user")
STOPPED = server.InputAudioBufferSpeechStoppedEvent(0, "user")
HEARD = server.InputAudioTranscriptionCompletedEvent(
    "user", 0, "good morning", TranscriptionDurationUsage(1.0)
)


class Call:
    """A turn whose speech ends at second 10.0 and its recording at 10.2."""

    def __init__(self) -> None:
        self.player = Player()
        self.turn = Turn("clip.wav", 10.0, 10.2)

    def take(self, now: float, *events: server.ServerEvent) -> ConversationItemTruncateEvent | None:
        [*_, last] = [self.turn.take(event, self.player, now) for event in events]
        return last

    def complete(self, now: float) -> bool:
        return self.turn.complete(self.player, now)


@pytest.fixture
def call() -> Call:
    return Call()


def answer(call: Call) -> None:
    call.take(9.0, STARTED)
    call.take(10.5, STOPPED, server.InputAudioBufferCommittedEvent("user"))
    call.take(10.6, CREATED, HEARD)
    call.take(10.65, server.ResponseAudioTranscriptDeltaEvent(*PART, " Hello "))
    call.take(10.7, server.ResponseAudioDeltaEvent(*PART, HALF_SECOND))
    call.take(10.75, server.ResponseAudioTranscriptDeltaEvent(*PART, "to you. "))
    call.take(10.8, server.ResponseAudioDeltaEvent(*PART, HALF_SECOND))
    call.take(10.9, DONE)


def test_an_answered_turn_is_summed_up(call: Call) -> None:
    answer(call)
    assert call.turn.summary(call.player) == {
        "file": "clip.wav",
        "transcript": "good morning",
        "reply": "Hello to you.",
        "status": "completed",
        "delays_ms": {
            "speech_stopped": 500,
            "committed": 500,
            "transcript": 600,
            "response_created": 600,
            "first_text": 650,
            "first_audio": 700,
            "response_done": 900,
        },
        "audio_seconds": 1.0,
        "gaps": 0,
        "gap_ms": 0,
        "interruptions": 0,
        "problems": [],
    }
    assert not call.turn.failed


def test_a_turn_lasts_until_its_reply_was_heard(call: Call) -> None:
    answer(call)
    assert not call.complete(11.69)
    assert call.complete(11.71)


def test_a_turn_lasts_until_its_recording_was_said(call: Call) -> None:
    call.take(9.5, STARTED, STOPPED, CREATED, DONE)
    assert not call.complete(10.19)


def test_a_reply_to_the_first_half_does_not_end_the_turn_too_soon(call: Call) -> None:
    call.take(9.5, STARTED, STOPPED, CREATED, DONE)
    assert not call.complete(10.3)
    assert call.complete(11.71)


def test_a_turn_waits_for_the_reply_that_was_begun(call: Call) -> None:
    call.take(10.5, STARTED, STOPPED, CREATED)
    assert not call.complete(99.0)
    call.take(99.0, DONE)
    assert call.complete(99.0)


def test_speaking_on_interrupts_and_starts_the_count_anew(call: Call) -> None:
    call.take(8.0, STOPPED, CREATED, server.ResponseAudioDeltaEvent(*PART, HALF_SECOND))
    assert call.take(8.2, STARTED) == ConversationItemTruncateEvent("item", 0, 200)
    assert call.turn.interruptions == 1
    assert set(call.turn.delays_ms().values()) == {None}
    assert call.take(8.3, STARTED) is None
    assert call.turn.interruptions == 1


def test_late_audio_is_counted_as_gaps(call: Call) -> None:
    call.take(11.0, CREATED, server.ResponseAudioDeltaEvent(*PART, HALF_SECOND))
    call.take(11.75, server.ResponseAudioDeltaEvent(*PART, HALF_SECOND))
    summary = call.turn.summary(call.player)
    assert (summary["gaps"], summary["gap_ms"]) == (1, 250)


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        (server.RealtimeErrorEvent(RealtimeError("server_error", "Ouch.")), "Ouch."),
        (
            server.InputAudioTranscriptionFailedEvent(
                "user", 0, TranscriptionError(message="Mumbled.")
            ),
            "not transcribed: Mumbled.",
        ),
        (
            server.ResponseDoneEvent(
                RealtimeResponse(
                    "resp",
                    "failed",
                    status_details=RealtimeResponseStatus(
                        "failed", error=RealtimeResponseError(message="Broke.")
                    ),
                )
            ),
            "no reply: Broke.",
        ),
    ],
)
def test_what_went_wrong_is_kept(call: Call, event: server.ServerEvent, problem: str) -> None:
    call.take(10.5, event)
    assert call.turn.problems == [problem]
    assert call.turn.failed


def test_text_replies_count_as_replies(call: Call) -> None:
    call.take(10.5, server.ResponseTextDeltaEvent(*PART, "Hello."))
    assert call.turn.reply == "Hello."
    assert call.turn.delays_ms()["first_text"] == 500


def test_the_end_of_a_reply_that_was_talked_down_is_no_answer(call: Call) -> None:
    call.take(8.0, STARTED, STOPPED, CREATED)
    cut_off = server.ResponseDoneEvent(RealtimeResponse("resp", "cancelled"))
    call.take(9.0, STARTED, cut_off)
    call.take(10.5, STOPPED)
    assert not call.complete(10.6)
    call.take(10.7, CREATED, DONE)
    assert call.complete(10.8)
