"""What happens in a call, what is decided about it, and what its door is told.

*Events* go into the turn machine, in the past tense; *commands* come out of it, in the
imperative; *outputs* are what a reply says and what the door passes on. A **turn** is one
stretch of the caller's speech, a **take** one transcription of it (a turn may be transcribed
ahead more than once), an **epoch** one reply. All three are numbered from 1 and only rise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from engines.audio import Pcm
from engines.ports import ToolCall, Usage

# --- events ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WindowHeard:
    """One more window of the caller's audio. ``probability`` is None where the VAD has not judged
    it; ``level_db`` is its loudness, in dB of full scale."""

    probability: float | None
    level_db: float = 0.0


@dataclass(frozen=True, slots=True)
class AudioCommitted:
    """The client closed the caller's turn by hand."""


@dataclass(frozen=True, slots=True)
class AudioCleared:
    """The client threw the open turn's audio away."""


@dataclass(frozen=True, slots=True)
class TranscriptArrived:
    """A take has its words; ``text`` may be empty."""

    take: int
    text: str


@dataclass(frozen=True, slots=True)
class TranscriptFailed:
    """A take has failed; its turn stays without words."""

    take: int
    reason: str


@dataclass(frozen=True, slots=True)
class ReplyRequested:
    """The client asks for a reply, whatever the caller does."""


@dataclass(frozen=True, slots=True)
class ReplyCancelled:
    """The client wants the reply stopped."""


@dataclass(frozen=True, slots=True)
class ReplyEnded:
    """The reply has said all it had to say, or has failed. Of one that is held this is told at
    once where it has failed, else when it is released: its end is held with the rest."""

    epoch: int


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """Nothing happened, and that for too long."""


Event: TypeAlias = (
    WindowHeard
    | AudioCommitted
    | AudioCleared
    | TranscriptArrived
    | TranscriptFailed
    | ReplyRequested
    | ReplyCancelled
    | ReplyEnded
    | DeadlinePassed
)

# --- commands -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """The caller has begun to speak at ``at_ms`` of the call's audio, pre-roll included."""

    turn: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class CommitTurn:
    """The caller's turn is over, at ``at_ms`` of the call's audio, after ``quiet_ms`` of silence
    that may hold the soft beginning of the next turn."""

    turn: int
    at_ms: int
    quiet_ms: int = 0


@dataclass(frozen=True, slots=True)
class DiscardTurn:
    """The turn never was: forget its audio."""

    turn: int


@dataclass(frozen=True, slots=True)
class Transcribe:
    """Turn the open turn's audio so far into words."""

    turn: int
    take: int
    ahead: bool


@dataclass(frozen=True, slots=True)
class DropTake:
    """The caller went on: this take's words are not wanted any more."""

    take: int


@dataclass(frozen=True, slots=True)
class AcceptTranscript:
    """The committed turn said ``text``."""

    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class FailTranscript:
    """The committed turn stays without words, for this reason."""

    turn: int
    reason: str


@dataclass(frozen=True, slots=True)
class PrepareReply:
    """Work a reply out ahead of the commit, as if the caller had said ``text``; let nothing out."""

    epoch: int
    text: str


@dataclass(frozen=True, slots=True)
class ReleaseReply:
    """The turn is committed: let out what the reply has prepared, and all that follows."""

    epoch: int


@dataclass(frozen=True, slots=True)
class DropReply:
    """Forget a prepared reply. Nobody has heard of it."""

    epoch: int


@dataclass(frozen=True, slots=True)
class StartReply:
    """Answer the dialogue as it stands."""

    epoch: int


StopReason: TypeAlias = Literal["turn_detected", "client_cancelled"]


@dataclass(frozen=True, slots=True)
class StopReply:
    """Fall silent, now."""

    epoch: int
    reason: StopReason


Command: TypeAlias = (
    OpenTurn
    | CommitTurn
    | DiscardTurn
    | Transcribe
    | DropTake
    | AcceptTranscript
    | FailTranscript
    | PrepareReply
    | ReleaseReply
    | DropReply
    | StartReply
    | StopReply
)

# --- outputs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplyText:
    """Words, given just before the audio that speaks them."""

    epoch: int
    text: str


@dataclass(frozen=True, slots=True)
class ReplyAudio:
    """The next audio of the reply."""

    epoch: int
    pcm: Pcm


@dataclass(frozen=True, slots=True)
class ReplyToolCall:
    """The reply wants a function called."""

    epoch: int
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ReplyFinished:
    """Nothing more comes of this reply. ``code`` and ``message`` say what failed, where it did."""

    epoch: int
    usage: Usage
    code: str = ""
    message: str = ""


Output: TypeAlias = ReplyText | ReplyAudio | ReplyToolCall | ReplyFinished
