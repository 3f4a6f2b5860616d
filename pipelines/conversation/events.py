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
from pipelines.conversation.patience import Profile
from pipelines.conversation.recalled import ReplyRecalled
from pipelines.conversation.settings import TurnSettings
from pipelines.strain import Strain

# --- events ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SettingsChanged:
    """The call is told how to behave, at its beginning and anew: from here on it takes turns like
    this."""

    settings: TurnSettings


@dataclass(frozen=True, slots=True)
class StrainChanged:
    """The house is pressed as hard as this: from here on the call leaves off what that step and
    those below it name."""

    strain: Strain


@dataclass(frozen=True, slots=True)
class ProfileChosen:
    """The agent or the client expects another kind of turn: from here on, or just ``once``, until
    words have come. None goes back to the settings."""

    profile: Profile | None
    once: bool = False


@dataclass(frozen=True, slots=True)
class WindowHeard:
    """One more window of the caller's audio. ``probability`` is None where the VAD has not judged
    it; ``level_db`` is its loudness, in dB of full scale; ``echo``, the share of it that is the
    agent's own voice come back, 0 to 1."""

    probability: float | None
    level_db: float = 0.0
    echo: float = 0.0


@dataclass(frozen=True, slots=True)
class AudioCommitted:
    """The client closed the caller's turn by hand."""


@dataclass(frozen=True, slots=True)
class AudioCleared:
    """The client threw the open turn's audio away."""


Kind: TypeAlias = Literal["words", "backchannel", "echo", "nothing"]
"""What the words of a take amount to: something said, a sign of listening ("mm-hm"), the agent's
own words come back, or no words at all."""


@dataclass(frozen=True, slots=True)
class TranscriptArrived:
    """A take has its words; ``text`` may be empty.

    ``completeness`` says whether they sound finished, from -1 (surely not) to 1; ``suspicion``,
    why a guard threw words away, heard them again, or doubts them.
    """

    take: int
    text: str
    kind: Kind = "words"
    completeness: float = 0.0
    suspicion: str = ""


@dataclass(frozen=True, slots=True)
class TranscriptFailed:
    """A take has failed; its turn stays without words."""

    take: int
    reason: str


@dataclass(frozen=True, slots=True)
class EndJudged:
    """How surely the caller has finished, by the sound of this take, 0 to 1."""

    take: int
    probability: float


@dataclass(frozen=True, slots=True)
class ReplyRequested:
    """The client asks for a reply."""


@dataclass(frozen=True, slots=True)
class ReplyCancelled:
    """The client wants the reply stopped; ``sounding``: also one that is all made and still
    heard."""

    sounding: bool = False


@dataclass(frozen=True, slots=True)
class ReplySounded:
    """The first audio of the reply is out."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ReplyEnded:
    """The reply has said all it had to say, or has ``failed``; its listener has heard it
    ``lead_ms`` from now. Of one that is held this is told at once where it has failed, else when it
    is released: its end is held with the rest."""

    epoch: int
    lead_ms: int = 0
    failed: bool = False


@dataclass(frozen=True, slots=True)
class ToolsCalled:
    """The reply has called tools whose results come from elsewhere, and may be long in coming."""

    epoch: int


@dataclass(frozen=True, slots=True)
class HangUpRequested:
    """The call is to end once all that is being said has been heard."""


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """Nothing happened, and that for too long."""


Event: TypeAlias = (
    SettingsChanged
    | StrainChanged
    | ProfileChosen
    | WindowHeard
    | AudioCommitted
    | AudioCleared
    | TranscriptArrived
    | TranscriptFailed
    | EndJudged
    | ReplyRequested
    | ReplyCancelled
    | ReplySounded
    | ReplyEnded
    | ToolsCalled
    | HangUpRequested
    | DeadlinePassed
)

# --- commands -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """The caller may have begun to speak at ``at_ms`` of the call's audio, pre-roll included:
    keep it. Nobody is told before the turn is confirmed."""

    turn: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class ConfirmTurn:
    """The caller has begun to speak."""

    turn: int


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


Purpose: TypeAlias = Literal["partial", "ahead", "final"]


@dataclass(frozen=True, slots=True)
class Transcribe:
    """Turn the open turn's audio so far into words: to show them while the caller speaks, to work
    a reply out ahead, or because the turn is over. ``echoed``: by its sound, much of it is the
    agent's own voice."""

    turn: int
    take: int
    purpose: Purpose
    echoed: bool = False


@dataclass(frozen=True, slots=True)
class DropTake:
    """The caller went on: this take's words are not wanted any more."""

    take: int


@dataclass(frozen=True, slots=True)
class ShowWords:
    """Two readings agree that the open turn begins with ``text``."""

    turn: int
    text: str


@dataclass(frozen=True, slots=True)
class AcceptTranscript:
    """The committed turn said ``text``."""

    turn: int
    text: str
    suspicion: str = ""


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


Line: TypeAlias = Literal["still_there", "one_moment", "farewell", "sorry"]


@dataclass(frozen=True, slots=True)
class SayLine:
    """Say something that needs no model."""

    epoch: int
    line: Line


@dataclass(frozen=True, slots=True)
class PauseReply:
    """Fall silent, now, and keep what was not heard: the caller speaks, or seems to."""

    epoch: int


@dataclass(frozen=True, slots=True)
class ResumeReply:
    """The caller had nothing to say: go on where the reply was cut."""

    epoch: int


StopReason: TypeAlias = Literal["turn_detected", "client_cancelled"]


@dataclass(frozen=True, slots=True)
class StopReply:
    """Fall silent, now and for good."""

    epoch: int
    reason: StopReason


@dataclass(frozen=True, slots=True)
class HangUp:
    """All has been heard: the call is over."""


Command: TypeAlias = (
    OpenTurn
    | ConfirmTurn
    | CommitTurn
    | DiscardTurn
    | Transcribe
    | DropTake
    | ShowWords
    | AcceptTranscript
    | FailTranscript
    | PrepareReply
    | ReleaseReply
    | DropReply
    | StartReply
    | SayLine
    | PauseReply
    | ResumeReply
    | StopReply
    | HangUp
)

# --- outputs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReplyText:
    """Words, given just before the audio that speaks them; ``spoken``: as they are read aloud."""

    epoch: int
    text: str
    spoken: str = ""


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


Output: TypeAlias = ReplyText | ReplyAudio | ReplyToolCall | ReplyFinished | ReplyRecalled
