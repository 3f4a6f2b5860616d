"""One turn of a call as the caller sees it: what was understood, what came back, and when."""

from __future__ import annotations

from typing import Any

from clients.playback import Player
from voice.wire.realtime_client import ConversationItemTruncateEvent
from voice.wire.realtime_server import (
    InputAudioBufferCommittedEvent,
    InputAudioBufferSpeechStartedEvent,
    InputAudioBufferSpeechStoppedEvent,
    InputAudioTranscriptionCompletedEvent,
    InputAudioTranscriptionFailedEvent,
    RealtimeErrorEvent,
    ResponseAudioDeltaEvent,
    ResponseAudioTranscriptDeltaEvent,
    ResponseCreatedEvent,
    ResponseDoneEvent,
    ResponseTextDeltaEvent,
    ServerEvent,
)

BYTES_PER_SECOND = 48_000
# Speech so soft that energy finds it and a VAD does not: after this, wait for nothing more.
_SETTLED_S = 1.5

_STAGES: dict[type, str] = {
    InputAudioBufferSpeechStoppedEvent: "speech_stopped",
    InputAudioBufferCommittedEvent: "committed",
    InputAudioTranscriptionCompletedEvent: "transcript",
    ResponseCreatedEvent: "response_created",
    ResponseTextDeltaEvent: "first_text",
    ResponseAudioTranscriptDeltaEvent: "first_text",
    ResponseAudioDeltaEvent: "first_audio",
    ResponseDoneEvent: "response_done",
}
STAGES = tuple(dict.fromkeys(_STAGES.values()))


class Turn:
    """What happened in answer to one recording.

    All times are seconds of the loop's clock. ``speech_end`` is when the recording's last speech
    sample was spoken, ``clip_end`` when its last sample was. Where a recording holds a pause
    that the server took for the end, its stages are those of the last stretch of speech, and
    its words and replies those of all.
    """

    def __init__(self, name: str, speech_end: float, clip_end: float) -> None:
        self.name = name
        self.speech_end = speech_end
        self.clip_end = clip_end
        self.stages: dict[str, float] = {}
        self.problems: list[str] = []
        self.status: str | None = None
        self.heard_speech = False
        self.interruptions = 0
        self.audio_seconds = 0.0
        self._words: dict[str, str] = {}
        self._replies: dict[str, str] = {}
        self._open: set[str] = set()

    @property
    def transcript(self) -> str:
        return " ".join(filter(None, self._words.values()))

    @property
    def reply(self) -> str:
        return " ".join(filter(None, (text.strip() for text in self._replies.values())))

    @property
    def failed(self) -> bool:
        return bool(self.problems) or self.status != "completed"

    def take(
        self, event: ServerEvent, player: Player, now: float
    ) -> ConversationItemTruncateEvent | None:
        """Note an event; play what it brings. The event, if any, is to be sent to the server."""
        if isinstance(event, InputAudioBufferSpeechStartedEvent):
            self.heard_speech = True
            self.stages.clear()
            return self._interrupt(player, now)
        if (stage := _STAGES.get(type(event))) and not _is_cut_off(event):
            self.stages.setdefault(stage, now)
        self._note_words(event)
        self._note_response(event)
        if isinstance(event, ResponseAudioDeltaEvent):
            player.put(event, now)
            self.audio_seconds += len(event.delta) / BYTES_PER_SECOND
        return None

    def complete(self, player: Player, now: float) -> bool:
        """Whether the recording was said and its last reply heard to the end."""
        if now < self.clip_end or self._open or player.playing(now):
            return False
        heard_out = self.stages.get("speech_stopped", 0.0) >= self.speech_end
        return "response_done" in self.stages and (heard_out or now >= self.clip_end + _SETTLED_S)

    def delays_ms(self) -> dict[str, int | None]:
        """Milliseconds from the last speech sample to each stage; None where it never came."""
        return {
            name: round((self.stages[name] - self.speech_end) * 1000)
            if name in self.stages
            else None
            for name in STAGES
        }

    def summary(self, player: Player) -> dict[str, Any]:
        """The turn as JSON has it."""
        gaps = [gap for gap in player.gaps if gap.start >= self.clip_end]
        return {
            "file": self.name,
            "transcript": self.transcript,
            "reply": self.reply,
            "status": self.status,
            "delays_ms": self.delays_ms(),
            "audio_seconds": round(self.audio_seconds, 3),
            "gaps": len(gaps),
            "gap_ms": round(sum(gap.length for gap in gaps) * 1000),
            "interruptions": self.interruptions,
            "problems": self.problems,
        }

    def _interrupt(self, player: Player, now: float) -> ConversationItemTruncateEvent | None:
        truncation = player.interrupt(now)
        self.interruptions += truncation is not None
        return truncation

    def _note_words(self, event: ServerEvent) -> None:
        if isinstance(event, InputAudioTranscriptionCompletedEvent):
            self._words[event.item_id] = event.transcript
        elif isinstance(event, ResponseTextDeltaEvent | ResponseAudioTranscriptDeltaEvent):
            self._replies[event.item_id] = self._replies.get(event.item_id, "") + event.delta
        elif isinstance(event, InputAudioTranscriptionFailedEvent):
            self.problems.append(f"not transcribed: {event.error.message}")
        elif isinstance(event, RealtimeErrorEvent):
            self.problems.append(event.error.message)

    def _note_response(self, event: ServerEvent) -> None:
        if isinstance(event, ResponseCreatedEvent):
            self._open.add(event.response.id)
        elif isinstance(event, ResponseDoneEvent):
            self._open.discard(event.response.id)
            self.status = event.response.status
            details = event.response.status_details
            if self.status == "failed" and details and details.error:
                self.problems.append(f"no reply: {details.error.message}")


def _is_cut_off(event: ServerEvent) -> bool:
    """The end of a reply that the caller has talked down: the answer is still to come."""
    return isinstance(event, ResponseDoneEvent) and event.response.status == "cancelled"
