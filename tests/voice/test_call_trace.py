"""The trace of a call, by what happens in it, as a collector is sent it."""

from typing import Any

import numpy as np
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, messaging_attributes
from opentelemetry.trace import SpanKind, StatusCode

from engines.audio import Pcm
from engines.ports import ToolCall, Usage
from pipelines.conversation.events import (
    AcceptTranscript,
    Command,
    CommitTurn,
    DiscardTurn,
    DropReply,
    DropTake,
    Event,
    FailTranscript,
    OpenTurn,
    PauseReply,
    PrepareReply,
    ReleaseReply,
    ReplyAudio,
    ReplyFinished,
    ReplyToolCall,
    ResumeReply,
    SayLine,
    SettingsChanged,
    StartReply,
    StopReply,
    Transcribe,
    TranscriptArrived,
    TranscriptFailed,
    WindowHeard,
)
from pipelines.conversation.reply import Stages
from pipelines.conversation.settings import TurnSettings
from voice.call_trace import CallTrace, parent_of
from voice.traces import Model

MODELS = {
    "asr": Model("whisper", "whisper-base"),
    "llm": Model("openai", "gpt-oss", apart=True),
    "tts": Model("hibari", "hibari"),
}
SOUND = ReplyAudio(1, Pcm(np.zeros(240, np.int16), 24_000))
EPOCH_NS = 1_700_000_000_000_000_000


class Followed:
    """A call's trace, and the spans that came of it."""

    def __init__(self, **headers: str) -> None:
        self.now_ms = 0
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.trace = CallTrace(
            provider.get_tracer("test"),
            MODELS,
            "sess_1",
            lambda: self.now_ms / 1000,
            EPOCH_NS,
            parent_of(headers),
        )
        self.step(event=SettingsChanged(TurnSettings()))

    def step(self, *commands: Command, event: Event | None = None, at: int = 0) -> None:
        self.now_ms = max(self.now_ms, at)
        self.trace.stepped(event or WindowHeard(0.0), commands, self.now_ms)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()

    def span(self, name: str) -> ReadableSpan:
        [span] = [span for span in self.spans if span.name == name]
        return span


@pytest.fixture
def call() -> Followed:
    return Followed()


def period(span: ReadableSpan) -> tuple[float, float]:
    """When it began and ended, in ms of the call's clock."""
    return (span.start_time - EPOCH_NS) / 1e6, (span.end_time - EPOCH_NS) / 1e6


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def take_turn(call: Followed) -> None:
    """The caller speaks from 500 ms of the call's audio on, and is understood at 2.2 s."""
    for _ in range(19):
        call.step()
    call.step(OpenTurn(1, 200), at=700)
    call.step(Transcribe(1, 1, "partial"), at=900)
    call.step(Transcribe(1, 2, "ahead"), at=1_500)
    call.step(DropTake(2), at=1_600)
    call.step(Transcribe(1, 3, "ahead"), CommitTurn(1, 2_000, quiet_ms=400), at=2_000)
    call.step(event=TranscriptArrived(3, "hello", suspicion="loop"), at=2_200)
    call.step(AcceptTranscript(1, "hello", "loop"), at=2_200)


def test_a_call_is_an_invocation_of_an_agent(call: Followed) -> None:
    call.now_ms = 5_000
    call.trace.close()
    [span] = call.spans
    assert span.name == "invoke_agent antiphon"
    assert span.kind is SpanKind.SERVER
    assert span.attributes["gen_ai.conversation.id"] == "sess_1"
    assert period(span) == (0, 5_000)


def test_a_callers_own_trace_is_gone_on_with() -> None:
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    call = Followed(traceparent=traceparent)
    call.trace.close()
    [span] = call.spans
    assert f"{span.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert parent(span) == 0xB7AD6B7169203331


@pytest.mark.parametrize("header", ["", "nonsense", "00-0-0-01", "00-" + "0" * 32 + "-1-01"])
def test_a_broken_traceparent_begins_a_trace_of_its_own(header: str) -> None:
    call = Followed(traceparent=header)
    call.trace.close()
    assert parent(call.spans[0]) is None


def test_a_turn_is_a_message_that_is_processed(call: Followed) -> None:
    take_turn(call)
    call.trace.close()
    turn = call.span("process turn")
    assert period(turn) == (560, 2_200)  # 640 ms of audio at 700: the sound at 500 was 140 before
    assert turn.kind is SpanKind.CONSUMER
    assert turn.attributes["messaging.message.conversation_id"] == "sess_1"
    assert turn.attributes["antiphon.turn.outcome"] == "heard"
    assert parent(turn) == call.span("invoke_agent antiphon").context.span_id
    assert [event.name for event in turn.events] == ["committed"]


def test_a_turns_parts_are_its_silence_and_its_transcriptions(call: Followed) -> None:
    take_turn(call)
    turn = call.span("process turn")
    assert period(call.span("wait for silence")) == (1_600, 2_000)
    dropped, heard = (span for span in call.spans if span.name == "transcribe whisper-base")
    assert {parent(dropped), parent(heard)} == {turn.context.span_id}
    assert (period(dropped), period(heard)) == ((1_500, 1_600), (2_000, 2_200))
    assert dropped.attributes["error.type"] == "dropped"
    assert heard.attributes["antiphon.take.doubts"] == "loop"
    assert heard.attributes["gen_ai.request.model"] == "whisper-base"
    assert heard.kind is SpanKind.INTERNAL


def test_a_sound_that_was_no_turn_leaves_nothing(call: Followed) -> None:
    call.step(OpenTurn(1, 0))
    call.step(Transcribe(1, 1, "ahead"))
    call.step(DiscardTurn(1), event=TranscriptArrived(1, "mm"))
    call.step(DropTake(1))
    call.trace.close()
    assert [span.name for span in call.spans] == ["invoke_agent antiphon"]


def test_a_turn_without_words_has_failed(call: Followed) -> None:
    call.step(Transcribe(1, 1, "final"), CommitTurn(1, 0), at=100)
    call.step(event=TranscriptFailed(1, "busy"), at=300)
    call.step(FailTranscript(1, "busy"), at=300)
    turn = call.span("process turn")
    assert turn.status.status_code is StatusCode.ERROR
    assert call.span("transcribe whisper-base").attributes["error.type"] == "failed"
    assert period(turn) == (100, 300)  # nobody told when it began


def test_a_reply_holds_what_model_and_voice_did_for_it(call: Followed) -> None:
    take_turn(call)
    call.step(PrepareReply(1, "hello"), at=2_210)
    call.step(ReleaseReply(1), at=2_400)
    call.trace.said(SOUND, 2_500)
    call.trace.said(SOUND, 2_600)
    call.trace.said(ReplyFinished(1, Usage(30, 12, 20, "stop")), 4_000)
    assert not [span for span in call.spans if span.name == "send reply"]
    call.trace.staged(Stages(2.21, 2.3, 2.35, 2.45, 3.0, 3.9, epoch=1))
    reply, chat, speak = (
        call.span(name) for name in ("send reply", "chat gpt-oss", "speak hibari")
    )
    assert (period(reply), period(chat), period(speak)) == (
        (2_210, 4_000),
        (2_210, 3_000),
        (2_350, 3_900),
    )
    assert [event.name for event in reply.events] == ["released", "first audio"]
    assert reply.attributes["antiphon.reply.outcome"] == "completed"
    assert reply.links[0].context.span_id == call.span("process turn").context.span_id
    assert {parent(chat), parent(speak)} == {reply.context.span_id}
    assert chat.kind is SpanKind.CLIENT
    assert chat.attributes["gen_ai.usage.output_tokens"] == 12
    assert chat.attributes["gen_ai.usage.cache_read.input_tokens"] == 20
    assert chat.attributes["gen_ai.response.time_to_first_chunk"] == pytest.approx(0.09)
    assert speak.attributes["gen_ai.output.type"] == "speech"


def test_a_held_reply_whose_stages_end_first_is_told_when_it_is_over(call: Followed) -> None:
    call.step(PrepareReply(1, "hello"))
    call.trace.staged(Stages(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, epoch=1))
    call.step(DropReply(1), at=600)
    assert call.span("send reply").attributes["antiphon.reply.outcome"] == "dropped"
    assert call.span("chat gpt-oss")


@pytest.mark.parametrize("reason", ["turn_detected", "client_cancelled"])
def test_a_reply_that_is_cut_off_says_why(call: Followed, reason: Any) -> None:
    call.step(StartReply(1), at=100)
    call.step(PauseReply(1), at=200)
    call.step(ResumeReply(1), at=300)
    call.step(StopReply(1, reason), at=400)
    call.trace.staged(Stages(0.1, epoch=1))
    reply = call.span("send reply")
    assert reply.attributes["antiphon.reply.outcome"] == reason
    assert [event.name for event in reply.events] == ["paused", "resumed"]
    assert period(call.span("chat gpt-oss")) == (100, 400)  # it was still writing
    assert not [span for span in call.spans if span.name.startswith("speak")]


def test_a_reply_that_fails_is_an_error(call: Followed) -> None:
    call.step(StartReply(1))
    call.trace.said(ReplyFinished(1, Usage(), "timeout", "llm: too slow"), 100)
    call.trace.staged(Stages(0.0, epoch=1))
    reply = call.span("send reply")
    assert reply.attributes["error.type"] == "timeout"
    assert reply.status.status_code is StatusCode.ERROR
    assert "too slow" not in str(reply.to_json())


def test_a_line_needs_no_model(call: Followed) -> None:
    call.step(SayLine(1, "still_there"))
    call.trace.said(ReplyFinished(1, Usage()), 100)
    call.trace.staged(Stages(0.0, 0.0, 0.01, 0.02, 0.05, 0.09, epoch=1))
    assert [span.name for span in call.spans] == ["speak hibari", "send reply"]


def test_a_tool_that_is_called_is_named_without_its_arguments(call: Followed) -> None:
    call.step(StartReply(1))
    call.trace.said(ReplyToolCall(1, ToolCall("c1", "weather", '{"city": "secret"}')), 50)
    call.trace.said(ReplyFinished(1, Usage()), 100)
    call.trace.staged(Stages(0.0, epoch=1))
    [event] = call.span("send reply").events
    assert event.attributes == {"gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "c1"}


def test_what_is_open_at_the_end_ends_with_the_call(call: Followed) -> None:
    call.step(OpenTurn(1, 0), StartReply(1))
    call.now_ms = 900
    call.trace.close()
    assert {period(span)[1] for span in call.spans} == {900}
    assert call.span("process turn").attributes["antiphon.turn.outcome"] == "hung_up"
    assert call.span("send reply").attributes["antiphon.reply.outcome"] == "hung_up"


def test_replies_that_never_end_do_not_pile_up(call: Followed) -> None:
    for epoch in range(1, 1_001):
        call.step(PrepareReply(epoch, "hello"))
        call.step(DropReply(epoch))
    assert len(call.trace._replies) <= 8
    assert len(call.spans) >= 992


def test_what_is_told_of_replies_that_are_not_known_is_let_be(call: Followed) -> None:
    call.trace.said(SOUND, 0)
    call.trace.staged(Stages(0.0, epoch=7))
    call.step(StopReply(7, "turn_detected"), ReleaseReply(7), DropReply(7))
    call.step(AcceptTranscript(7, ""), event=TranscriptArrived(7, ""))
    assert call.spans == ()


def test_no_word_that_was_said_is_in_a_trace(call: Followed) -> None:
    take_turn(call)
    call.trace.close()
    assert all("hello" not in span.to_json() for span in call.spans)


def test_names_are_those_of_the_conventions(call: Followed) -> None:
    take_turn(call)
    test_a_reply_holds_what_model_and_voice_did_for_it(Followed())
    call.step(StartReply(9))
    call.trace.said(ReplyFinished(9, Usage()), 100)
    call.trace.staged(Stages(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, epoch=9))
    call.trace.close()
    known = {
        value
        for module in (gen_ai_attributes, messaging_attributes)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    used = {name for span in call.spans for name in span.attributes}
    assert {name for name in used if not name.startswith(("antiphon.", "error.type"))} <= known
