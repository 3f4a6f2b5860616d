"""What is counted of one call, by what happens in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pipelines.conversation.endpoint import WINDOW_MS
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
from voice.metrics import Metrics

_SENTENCE_END: Final = re.compile(r"[.!?…。！？][\"'”’»)\]]*\s*$")


class CallMetrics:
    """Reads along with one call; an Observer."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._takes: dict[int, int] = {}
        self._interrupted = False
        self._wait = _Wait(metrics)
        self._barge_in = _BargeIn(metrics)

    def stepped(self, event: Event, commands: Sequence[Command], now: int) -> None:
        if type(event) is WindowHeard:
            self._barge_in.position_ms += WINDOW_MS
        elif isinstance(event, SettingsChanged):
            self._barge_in.prefix_ms = event.settings.endpoint.prefix_ms
        elif isinstance(event, TranscriptArrived):
            self._count_take(event, now)
        for command in commands:
            self._count(command, now)

    def said(self, output: Output, now: float) -> None:
        self._wait.said(output, now)
        if isinstance(output, ReplyRecalled):
            self._metrics.recalls.labels(output.outcome).inc()
            self._metrics.stages.labels("recall").observe(output.waited_ms / 1000)
        elif isinstance(output, ReplyFinished):
            self._metrics.replies.labels("failed" if output.code else "completed").inc()

    def staged(self, stages: Stages) -> None:
        before = stages.began
        for name, at in (
            ("llm", stages.first_token),
            ("phrase", stages.first_phrase),
            ("tts", stages.first_audio),
        ):
            if at is None:
                return
            self._metrics.stages.labels(name).observe(at - before)
            before = at

    def _count_take(self, event: TranscriptArrived, now: int) -> None:
        for reason in filter(None, event.suspicion.split(", ")):
            self._metrics.doubts.labels(reason).inc()
        if event.take in self._takes:
            elapsed = (now - self._takes.pop(event.take)) / 1000
            self._metrics.stages.labels("asr").observe(elapsed)

    def _count(self, command: Command, now: int) -> None:
        match command:
            case OpenTurn():
                self._barge_in.opened(command.at_ms)
            case Transcribe() if command.purpose != "partial":
                self._takes = {command.take: now}
            case CommitTurn():
                self._wait.begin(now, command.quiet_ms)
            case AcceptTranscript():
                self._metrics.turns.labels("heard" if command.text else "empty").inc()
            case FailTranscript():
                self._metrics.turns.labels("failed").inc()
            case PauseReply() | ResumeReply() | StopReply():
                self._count_interruption(command)
            case PrepareReply() | ReleaseReply() | DropReply() | StartReply():
                self._count_ahead(command)

    def _count_interruption(self, command: PauseReply | ResumeReply | StopReply) -> None:
        interrupted, self._interrupted = self._interrupted, isinstance(command, PauseReply)
        if isinstance(command, PauseReply):
            self._barge_in.silenced()
            return
        if isinstance(command, ResumeReply):
            self._wait.end()
            self._metrics.interruptions.labels("false").inc()
            return
        self._wait.stop(wanted=command.reason == "turn_detected")
        self._metrics.replies.labels(command.reason).inc()
        if interrupted:
            self._metrics.interruptions.labels("true").inc()
        elif command.reason == "turn_detected":
            self._barge_in.silenced()

    def _count_ahead(self, command: PrepareReply | ReleaseReply | DropReply | StartReply) -> None:
        outcome = {
            PrepareReply: "prepared",
            ReleaseReply: "released",
            DropReply: "dropped",
            StartReply: "not_prepared",
        }[type(command)]
        self._metrics.ahead.labels(outcome).inc()


class _Wait:
    """What a caller waits for after a turn: the first audio, and the whole first sentence.

    A sentence is all there once the reply goes on with other words, or ends; it was there when
    the audio before that came.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._committed_at: float | None = None
        self._quiet_ms = 0
        self._first_at: float | None = None
        self._last_at = 0.0
        self._sentence = ""

    def begin(self, now: float, quiet_ms: int) -> None:
        """A turn is over, after so much silence."""
        self._committed_at, self._quiet_ms = now, quiet_ms
        self._first_at, self._sentence = None, ""
        self._metrics.stages.labels("silence").observe(quiet_ms / 1000)

    def end(self) -> None:
        """Nobody waits any more."""
        self._committed_at = None

    def stop(self, *, wanted: bool) -> None:
        """A reply was cut off. Where the caller spoke and it is one before theirs, the answer to
        them is still waited for."""
        if self._first_at is not None or not wanted:
            self.end()

    def said(self, output: Output, now: float) -> None:
        """More of a reply has gone out."""
        if self._committed_at is None:
            return
        if isinstance(output, ReplyAudio):
            self._hear(now, self._committed_at)
        elif isinstance(output, ReplyFinished):
            self._hear_sentence(self._committed_at)
            self.end()
        elif isinstance(output, ReplyText):
            if self._first_at is not None and _SENTENCE_END.search(self._sentence):
                self._hear_sentence(self._committed_at)
                self.end()
            self._sentence += output.text

    def _hear(self, now: float, committed_at: float) -> None:
        if self._first_at is None:
            self._first_at = now
            self._metrics.first_audio.observe((now - committed_at) / 1000)
            self._metrics.response.observe((now - committed_at + self._quiet_ms) / 1000)
        self._last_at = now

    def _hear_sentence(self, committed_at: float) -> None:
        if self._first_at is None:
            return
        waited_ms = self._last_at - committed_at + self._quiet_ms
        self._metrics.first_sentence.observe(waited_ms / 1000)
        self._metrics.stages.labels("sentence").observe((self._last_at - self._first_at) / 1000)


class _BargeIn:
    """How long a caller speaks before the reply falls silent, in the call's own audio: what the
    network and the client's buffer add is not known here."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.position_ms = 0
        self.prefix_ms = 0
        self._began_ms = 0

    def opened(self, at_ms: int) -> None:
        """The caller's sound began so far into the call's audio, less what is kept before it."""
        self._began_ms = min(at_ms + self.prefix_ms, self.position_ms)

    def silenced(self) -> None:
        """A reply has fallen silent for it."""
        self._metrics.barge_in.observe((self.position_ms - self._began_ms) / 1000)
