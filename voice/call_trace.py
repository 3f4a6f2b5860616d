"""The trace of one call: a span for the call, each turn, each reply, and what was worked out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from engines.ports import Usage
from pipelines.conversation.endpoint import WINDOW_MS
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
    Output,
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
from voice.traces import SCOPE, Model

_SYSTEM: Final = {"messaging.system": SCOPE}
_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
_OPEN_REPLIES: Final = 8
"""Replies whose end is not known yet: those before are given up, so that none piles up."""


def parent_of(headers: Mapping[str, str]) -> Context:
    """The caller's own trace, by W3C's trace context; none where there is none that is whole."""
    return TraceContextTextMapPropagator().extract(headers)


@dataclass(slots=True)
class _Part:
    """A span that is made once it is known that anyone will see it. Times in ms."""

    name: str
    began: float
    ended: float
    attributes: dict[str, Any]
    kind: SpanKind = SpanKind.INTERNAL


@dataclass(slots=True)
class _Turn:
    """A stretch of the caller's speech."""

    span: Span
    parts: list[_Part] = field(default_factory=list)


@dataclass(slots=True)
class _Take:
    """A transcription that is under way."""

    turn: int
    began: float
    purpose: str


@dataclass(slots=True)
class _Reply:
    """A reply. Its span ends when both are there: its end, and what its stages took."""

    span: Span
    by_model: bool
    heard: bool = False
    ended: float | None = None
    stages: Stages | None = None
    usage: Usage | None = None


class CallTrace:
    """Reads along with one call; an Observer. To be closed at the call's end."""

    def __init__(
        self,
        tracer: Tracer,
        models: Mapping[str, Model],
        call: str,
        clock: Callable[[], float],
        epoch_ns: int,
        parent: Context,
    ) -> None:
        self._tracer = tracer
        self._models = models
        self._clock = clock
        self._epoch_ns = epoch_ns
        self._of_call = {"gen_ai.conversation.id": call}
        self._message = {**_SYSTEM, "messaging.message.conversation_id": call}
        self._call = tracer.start_span(
            f"invoke_agent {SCOPE}",
            parent,
            SpanKind.SERVER,
            start_time=self._ns(clock() * 1000),
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.provider.name": SCOPE,
                "gen_ai.agent.name": SCOPE,
                "gen_ai.output.type": "speech",
                **self._of_call,
            },
        )
        self._inside = set_span_in_context(self._call, Context())
        self._position_ms = self._prefix_ms = 0
        self._turns: dict[int, _Turn] = {}
        self._takes: dict[int, _Take] = {}
        self._replies: dict[int, _Reply] = {}
        self._last_turn: Span | None = None

    @property
    def is_recording(self) -> bool:
        """Anyone wants to know of this call."""
        return self._call.is_recording()

    # --- what is told --------------------------------------------------------------------

    def stepped(self, event: Event, commands: Sequence[Command], now: int) -> None:
        if type(event) is WindowHeard:
            self._position_ms += WINDOW_MS
        elif isinstance(event, SettingsChanged):
            self._prefix_ms = event.settings.endpoint.prefix_ms
        elif isinstance(event, TranscriptArrived):
            self._end_take(event.take, now, event.suspicion)
        elif isinstance(event, TranscriptFailed):
            self._end_take(event.take, now, error="failed")
        for command in commands:
            if perform := _PERFORM.get(type(command)):
                perform(self, command, now)

    def said(self, output: Output, now: float) -> None:
        reply = self._replies.get(output.epoch)
        if reply is None:
            return
        if isinstance(output, ReplyAudio):
            if not reply.heard:
                reply.heard = True
                reply.span.add_event("first audio", timestamp=self._ns(now))
        elif isinstance(output, ReplyToolCall):
            called = {"gen_ai.tool.name": output.call.name, "gen_ai.tool.call.id": output.call.id}
            reply.span.add_event("tool called", called, self._ns(now))
        elif isinstance(output, ReplyFinished):
            reply.usage = output.usage
            self._end_reply(output.epoch, now, "failed" if output.code else "completed")
            if output.code:
                _fail(reply.span, output.code)

    def staged(self, stages: Stages) -> None:
        reply = self._replies.get(stages.epoch)
        if reply is not None:
            reply.stages = stages
            self._close_reply(stages.epoch)

    def close(self) -> None:
        """The call is over, and all that is still open with it."""
        now = self._clock() * 1000
        for turn in list(self._turns):
            self._end_turn(turn, now, "hung_up")
        for epoch in list(self._replies):
            self._give_up(epoch, now)
        self._call.end(self._ns(now))

    # --- turns ---------------------------------------------------------------------------

    def _open_turn(self, command: OpenTurn, now: int) -> None:
        since_ms = self._position_ms - command.at_ms - self._prefix_ms
        self._turns[command.turn] = self._new_turn(command.turn, now - max(0, since_ms))

    def _new_turn(self, number: int, began: float) -> _Turn:
        operation = {
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": "turn",
            "messaging.message.id": f"turn-{number}",
        }
        span = self._start("process turn", SpanKind.CONSUMER, began, self._message | operation)
        self._last_turn = span
        return _Turn(span)

    def _commit_turn(self, command: CommitTurn, now: int) -> None:
        turn = self._turns.get(command.turn)
        if turn is None:  # the client closed a turn in which no speech was found
            turn = self._turns[command.turn] = self._new_turn(command.turn, now)
        turn.span.add_event("committed", timestamp=self._ns(now))
        if command.quiet_ms:
            turn.parts.append(_Part("wait for silence", now - command.quiet_ms, now, {}))

    def _discard_turn(self, command: DiscardTurn, _now: int) -> None:
        self._turns.pop(command.turn, None)  # a span that never ends is never sent

    def _transcribe(self, command: Transcribe, now: int) -> None:
        if command.purpose != "partial":
            self._takes[command.take] = _Take(command.turn, now, command.purpose)

    def _drop_take(self, command: DropTake, now: int) -> None:
        self._end_take(command.take, now, error="dropped")

    def _end_take(self, number: int, now: int, suspicion: str = "", error: str = "") -> None:
        take = self._takes.pop(number, None)
        turn = self._turns.get(take.turn) if take else None
        if take is None or turn is None:
            return
        attributes = self._asks("asr", "transcribe", "text")
        attributes["antiphon.take.purpose"] = take.purpose
        if suspicion:
            attributes["antiphon.take.doubts"] = suspicion
        if error:
            attributes["error.type"] = error
        model = self._models["asr"]
        name = f"transcribe {model.name}"
        turn.parts.append(_Part(name, take.began, now, attributes, _kind(model)))

    def _conclude(self, command: AcceptTranscript | FailTranscript, now: int) -> None:
        heard = isinstance(command, AcceptTranscript) and ("heard" if command.text else "empty")
        self._end_turn(command.turn, now, heard or "failed")

    def _end_turn(self, number: int, now: float, outcome: str) -> None:
        turn = self._turns.pop(number, None)
        if turn is None:
            return
        turn.span.set_attribute("antiphon.turn.outcome", outcome)
        if outcome == "failed":
            _fail(turn.span, "no_transcript")
        self._add_parts(turn.span, turn.parts)
        turn.span.end(self._ns(now))

    # --- replies -------------------------------------------------------------------------

    def _begin_reply(self, command: PrepareReply | StartReply | SayLine, now: int) -> None:
        operation = {
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": "reply",
            "messaging.message.id": f"reply-{command.epoch}",
            "antiphon.reply.ahead": isinstance(command, PrepareReply),
        }
        attributes = self._message | operation
        span = self._start("send reply", SpanKind.PRODUCER, now, attributes, self._last_turn)
        self._replies[command.epoch] = _Reply(span, not isinstance(command, SayLine))
        while len(self._replies) > _OPEN_REPLIES:
            self._give_up(next(iter(self._replies)), now)

    def _note(self, command: ReleaseReply | PauseReply | ResumeReply, now: int) -> None:
        if reply := self._replies.get(command.epoch):
            reply.span.add_event(_NOTES[type(command)], timestamp=self._ns(now))

    def _stop_reply(self, command: DropReply | StopReply, now: int) -> None:
        reason = command.reason if isinstance(command, StopReply) else "dropped"
        self._end_reply(command.epoch, now, reason)

    def _end_reply(self, epoch: int, now: float, outcome: str) -> None:
        reply = self._replies.get(epoch)
        if reply is None or reply.ended is not None:
            return
        reply.ended = now
        reply.span.set_attribute("antiphon.reply.outcome", outcome)
        self._close_reply(epoch)

    def _give_up(self, epoch: int, now: float) -> None:
        """Nothing more is heard of this reply."""
        self._end_reply(epoch, now, "hung_up")
        if reply := self._replies.pop(epoch, None):
            reply.span.end(self._ns(reply.ended or now))

    def _close_reply(self, epoch: int) -> None:
        reply = self._replies[epoch]
        if reply.ended is None or reply.stages is None:
            return
        del self._replies[epoch]
        parts = [self._spoken(reply.stages, reply.ended)]
        if reply.by_model:
            parts.append(self._written(reply.stages, reply.usage, reply.ended))
        self._add_parts(reply.span, [part for part in parts if part])
        reply.span.end(self._ns(reply.ended))

    def _written(self, stages: Stages, usage: Usage | None, ended: float) -> _Part:
        """What the model did for a reply."""
        model, began = self._models["llm"], stages.began * 1000
        chat = self._asks("llm", "chat", "text")
        if usage is not None:
            chat |= _cost(usage)
        if stages.first_token is not None:
            chat[_FIRST_CHUNK] = stages.first_token - stages.began
        written = ended if stages.written is None else stages.written * 1000
        return _Part(f"chat {model.name}", began, max(began, written), chat, _kind(model))

    def _spoken(self, stages: Stages, ended: float) -> _Part | None:
        """What the voice did for it."""
        if stages.first_phrase is None or stages.first_audio is None:
            return None
        model, asked = self._models["tts"], stages.first_phrase * 1000
        speak = self._asks("tts", "speak", "speech")
        speak[_FIRST_CHUNK] = stages.first_audio - stages.first_phrase
        spoken = ended if stages.spoken is None else stages.spoken * 1000
        return _Part(f"speak {model.name}", asked, max(asked, spoken), speak, _kind(model))

    # --- spans ---------------------------------------------------------------------------

    def _asks(self, kind: str, operation: str, output: str) -> dict[str, Any]:
        """The attributes of a model's span."""
        model = self._models[kind]
        return {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": model.provider,
            "gen_ai.request.model": model.name,
            "gen_ai.output.type": output,
            **self._of_call,
        }

    def _start(
        self,
        name: str,
        kind: SpanKind,
        began: float,
        attributes: Mapping[str, Any],
        answers: Span | None = None,
    ) -> Span:
        links = [Link(answers.get_span_context())] if answers else None
        return self._tracer.start_span(name, self._inside, kind, attributes, links, self._ns(began))

    def _add_parts(self, parent: Span, parts: Sequence[_Part]) -> None:
        inside = set_span_in_context(parent, Context())
        for part in parts:
            span = self._tracer.start_span(
                part.name, inside, part.kind, part.attributes, start_time=self._ns(part.began)
            )
            if "error.type" in part.attributes:
                span.set_status(StatusCode.ERROR)
            span.end(self._ns(part.ended))

    def _ns(self, ms: float) -> int:
        """A time of the call's clock as nanoseconds since 1970."""
        return self._epoch_ns + round(ms * 1e6)


def _kind(model: Model) -> SpanKind:
    return SpanKind.CLIENT if model.apart else SpanKind.INTERNAL


def _fail(span: Span, code: str) -> None:
    span.set_attribute("error.type", code)
    span.set_status(StatusCode.ERROR)


def _cost(usage: Usage) -> dict[str, Any]:
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
        "gen_ai.response.finish_reasons": (usage.finish_reason,),
    }


_NOTES: Final[Mapping[type, str]] = {
    ReleaseReply: "released",
    PauseReply: "paused",
    ResumeReply: "resumed",
}

_PERFORM: Final[Mapping[type, Callable[[CallTrace, Any, int], None]]] = {
    OpenTurn: CallTrace._open_turn,
    CommitTurn: CallTrace._commit_turn,
    DiscardTurn: CallTrace._discard_turn,
    Transcribe: CallTrace._transcribe,
    DropTake: CallTrace._drop_take,
    AcceptTranscript: CallTrace._conclude,
    FailTranscript: CallTrace._conclude,
    PrepareReply: CallTrace._begin_reply,
    StartReply: CallTrace._begin_reply,
    SayLine: CallTrace._begin_reply,
    ReleaseReply: CallTrace._note,
    PauseReply: CallTrace._note,
    ResumeReply: CallTrace._note,
    DropReply: CallTrace._stop_reply,
    StopReply: CallTrace._stop_reply,
}
