"""What is counted of a call, by what happens in it."""

import numpy as np
import pytest

from engines.audio import Pcm
from engines.ports import Usage
from pipelines.conversation.events import (
    AcceptTranscript,
    Command,
    CommitTurn,
    DropReply,
    Event,
    FailTranscript,
    OpenTurn,
    Output,
    PauseReply,
    PrepareReply,
    ReleaseReply,
    ReplyAudio,
    ReplyFinished,
    ReplyText,
    ResumeReply,
    SettingsChanged,
    StartReply,
    StopReply,
    Transcribe,
    TranscriptArrived,
    WindowHeard,
)
from pipelines.conversation.recalled import ReplyRecalled
from pipelines.conversation.reply import Stages
from pipelines.conversation.settings import TurnSettings
from voice.call_metrics import CallMetrics
from voice.metrics import Metrics

SOUND = ReplyAudio(1, Pcm(np.zeros(240, np.int16), 24_000))


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def call(metrics: Metrics) -> CallMetrics:
    return CallMetrics(metrics)


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"antiphon_{name}", labels)


def step(call: CallMetrics, *commands: Command, event: Event | None = None, now: int = 0) -> None:
    call.stepped(event or WindowHeard(0.0), commands, now)


@pytest.mark.parametrize(
    ("command", "name", "outcome"),
    [
        (AcceptTranscript(1, "hello"), "turns_total", "heard"),
        (AcceptTranscript(1, ""), "turns_total", "empty"),
        (FailTranscript(1, "no"), "turns_total", "failed"),
        (StopReply(1, "turn_detected"), "replies_total", "turn_detected"),
        (StopReply(1, "client_cancelled"), "replies_total", "client_cancelled"),
        (PrepareReply(1, "hello"), "prepared_replies_total", "prepared"),
        (ReleaseReply(1), "prepared_replies_total", "released"),
        (DropReply(1), "prepared_replies_total", "dropped"),
        (StartReply(1), "prepared_replies_total", "not_prepared"),
    ],
)
def test_decisions_are_counted(
    metrics: Metrics, call: CallMetrics, command: Command, name: str, outcome: str
) -> None:
    step(call, OpenTurn(1, 0))
    step(call, command)
    assert value(metrics, name, outcome=outcome) == 1


def test_replies_are_counted_by_how_they_end(metrics: Metrics, call: CallMetrics) -> None:
    call.said(ReplyFinished(1, Usage()), 0)
    call.said(ReplyFinished(2, Usage(), "timeout", "slow"), 0)
    assert value(metrics, "replies_total", outcome="completed") == 1
    assert value(metrics, "replies_total", outcome="failed") == 1


def test_look_ups_are_counted_by_how_they_end(metrics: Metrics, call: CallMetrics) -> None:
    call.said(ReplyRecalled(1, "when is breakfast", "found", 40.0), 0.0)
    call.said(ReplyRecalled(2, "and dinner", "late", 150.0), 0.0)
    assert value(metrics, "recalls_total", outcome="found") == 1
    assert value(metrics, "recalls_total", outcome="late") == 1
    assert value(metrics, "stage_seconds_sum", stage="recall") == pytest.approx(0.19)


def test_the_wait_for_a_reply_is_from_the_turn_to_its_first_sound(
    metrics: Metrics, call: CallMetrics
) -> None:
    call.said(SOUND, 50)  # a reply that nobody waited for
    step(call, CommitTurn(1, 0), now=1_000)
    call.said(SOUND, 1_120)
    call.said(SOUND, 5_000)
    assert value(metrics, "first_audio_seconds_count") == 1
    assert value(metrics, "first_audio_seconds_sum") == pytest.approx(0.12)


def test_a_transcription_takes_as_long_as_its_take(metrics: Metrics, call: CallMetrics) -> None:
    step(call, Transcribe(1, 1, "ahead"), now=0)
    step(call, Transcribe(1, 2, "final"), now=100)
    step(call, event=TranscriptArrived(1, "given up"), now=5_000)
    step(call, event=TranscriptArrived(2, "hello"), now=350)
    assert value(metrics, "stage_seconds_count", stage="asr") == 1
    assert value(metrics, "stage_seconds_sum", stage="asr") == pytest.approx(0.25)


def test_stages_are_measured_one_from_the_other(metrics: Metrics, call: CallMetrics) -> None:
    call.staged(Stages(10.0, 10.2, 10.25, 10.5))
    call.staged(Stages(20.0, 20.4, None, None))  # failed before it had a phrase
    for stage, count, total in (("llm", 2, 0.6), ("phrase", 1, 0.05), ("tts", 1, 0.25)):
        assert value(metrics, "stage_seconds_count", stage=stage) == count
        assert value(metrics, "stage_seconds_sum", stage=stage) == pytest.approx(total)


WORD = ReplyText(1, "Well,")
SENTENCE = ReplyText(1, " that is it.")
DONE = ReplyFinished(1, Usage())


def sentences(metrics: Metrics) -> tuple[float | None, float | None]:
    return (
        value(metrics, "first_sentence_seconds_count"),
        value(metrics, "first_sentence_seconds_sum"),
    )


def test_silence_that_was_waited_for_is_part_of_the_response(
    metrics: Metrics, call: CallMetrics
) -> None:
    step(call, CommitTurn(1, 0, quiet_ms=500), now=1_000)
    call.said(SOUND, 1_120)
    assert value(metrics, "response_seconds_sum") == pytest.approx(0.62)
    assert value(metrics, "stage_seconds_sum", stage="silence") == pytest.approx(0.5)


@pytest.mark.parametrize("behind", [ReplyText(1, " And more."), DONE])
def test_a_sentence_is_there_with_its_last_audio(
    metrics: Metrics, call: CallMetrics, behind: Output
) -> None:
    step(call, CommitTurn(1, 0, quiet_ms=200), now=1_000)
    for output, now in (
        (WORD, 1_100),
        (SOUND, 1_100),
        (SENTENCE, 1_300),
        (SOUND, 1_300),
        (SOUND, 1_400),
        (behind, 2_000),
        (SOUND, 2_100),
        (DONE, 3_000),
    ):
        call.said(output, now)
    assert sentences(metrics) == (1, pytest.approx(0.6))
    assert value(metrics, "stage_seconds_sum", stage="sentence") == pytest.approx(0.3)


def test_a_reply_that_is_cut_off_has_no_first_sentence(metrics: Metrics, call: CallMetrics) -> None:
    step(call, CommitTurn(1, 0), now=1_000)
    call.said(WORD, 1_100)
    call.said(SOUND, 1_100)
    step(call, StopReply(1, "turn_detected"), now=1_200)
    call.said(DONE, 1_300)
    assert sentences(metrics) == (0, 0)


def test_the_answer_to_an_interruption_is_waited_for_all_the_same(
    metrics: Metrics, call: CallMetrics
) -> None:
    step(call, PauseReply(1), now=500)
    step(call, CommitTurn(2, 0), now=1_000)
    step(call, StopReply(1, "turn_detected"), now=1_050)
    call.said(SOUND, 1_200)
    assert value(metrics, "first_audio_seconds_sum") == pytest.approx(0.2)


def test_a_reply_that_the_client_asks_for_later_was_not_waited_for(
    metrics: Metrics, call: CallMetrics
) -> None:
    step(call, CommitTurn(1, 0), now=1_000)
    step(call, StopReply(1, "client_cancelled"), now=1_100)
    call.said(SOUND, 60_000)
    assert value(metrics, "first_audio_seconds_count") == 0


def test_words_without_a_sound_are_no_sentence(metrics: Metrics, call: CallMetrics) -> None:
    step(call, CommitTurn(1, 0), now=1_000)
    call.said(SENTENCE, 1_100)
    call.said(DONE, 1_200)
    assert sentences(metrics) == (0, 0)


def test_a_barge_in_is_timed_from_the_callers_first_sound(
    metrics: Metrics, call: CallMetrics
) -> None:
    step(call, event=SettingsChanged(TurnSettings()))
    for _ in range(20):
        step(call)
    step(call, OpenTurn(1, 212))  # less 300 ms of pre-roll: the sound began at 512 ms
    for _ in range(3):
        step(call)
    step(call, PauseReply(1))
    step(call, StopReply(1, "turn_detected"))  # it is silent already
    assert value(metrics, "barge_in_stop_seconds_count") == 1
    assert value(metrics, "barge_in_stop_seconds_sum") == pytest.approx(0.8 - 0.512)


def test_a_reply_that_is_stopped_at_once_was_silenced_too(
    metrics: Metrics, call: CallMetrics
) -> None:
    step(call, OpenTurn(1, 0))
    step(call, StopReply(1, "client_cancelled"))
    assert value(metrics, "barge_in_stop_seconds_count") == 0
    step(call, StopReply(2, "turn_detected"))
    assert value(metrics, "barge_in_stop_seconds_count") == 1


def test_each_reason_to_doubt_is_counted_by_itself(metrics: Metrics, call: CallMetrics) -> None:
    step(call, event=TranscriptArrived(1, "so so", suspicion="loop, unsure"))
    step(call, event=TranscriptArrived(2, "fine"))
    assert value(metrics, "doubted_transcripts_total", reason="loop") == 1
    assert value(metrics, "doubted_transcripts_total", reason="unsure") == 1


def test_an_interruption_was_meant_or_not(metrics: Metrics, call: CallMetrics) -> None:
    step(call, PauseReply(1))
    step(call, ResumeReply(1))
    step(call, PauseReply(1))
    step(call, StopReply(1, "turn_detected"))
    assert value(metrics, "interruptions_total", meant="false") == 1
    assert value(metrics, "interruptions_total", meant="true") == 1
