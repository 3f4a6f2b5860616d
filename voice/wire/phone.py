"""What all phone wires say, each in words of its own: what comes in, and how to say what goes out.

A *codec* is one leg of one call: a plain object without I/O or clock. It is given each message of
the carrier's as it came and gives what is meant by it; it is told what to say and gives messages.
It remembers what the wire makes it remember (the stream's name, the sequence of its messages) and
nothing of the call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from engines.audio import Pcm

Message: TypeAlias = str | bytes
"""Text or binary of a WebSocket; of a TCP wire, bytes."""


class PhoneWireError(Exception):
    """The other side does not keep to its protocol: the message says what came, and what should
    have. The leg is closed."""


# --- what comes in --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LegStarted:
    """The call is there. ``call`` is the carrier's name for it; ``caller`` and ``called`` are
    numbers, empty where the wire does not tell; ``parameters``, what the carrier was told to pass
    on. ``rate`` is that of the audio that will come, in Hz."""

    call: str
    rate: int
    caller: str = ""
    called: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AudioCame:
    """The caller's next audio, in order: what came out of order was put right by the codec, and
    what was lost is silence."""

    pcm: Pcm


@dataclass(frozen=True, slots=True)
class DigitPressed:
    """One of 0-9, *, #, A-D."""

    digit: str


@dataclass(frozen=True, slots=True)
class MarkPlayed:
    """All that was sent before this mark has been played, or was thrown away by a clear: whoever
    set it knows which."""

    name: str


@dataclass(frozen=True, slots=True)
class FlowChanged:
    """The carrier wants audio held back, or takes it again."""

    open: bool


@dataclass(frozen=True, slots=True)
class LegEnded:
    """The other side has hung up, or gives up, for this reason, which is for the log."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """The protocol itself wants this sent back at once (a pong, an acknowledgement)."""

    messages: tuple[Message, ...]


PhoneEvent: TypeAlias = (
    LegStarted | AudioCame | DigitPressed | MarkPlayed | FlowChanged | LegEnded | Answer
)


# --- what goes out --------------------------------------------------------------------------


class PhoneCodec(Protocol):
    """One leg's wire. What a wire cannot say is an empty sequence, never an error.

    ``rate`` and ``frame_ms`` are of the audio that goes out; they are known once the leg has
    started. ``marks``: it tells by ``MarkPlayed`` what has been played. ``paced``: the other side
    plays at once all that comes, so that whoever sends must keep time.
    """

    name: str
    rate: int
    frame_ms: int
    marks: bool
    paced: bool

    def take(self, message: Message) -> Sequence[PhoneEvent]:
        """What a message means. Raises PhoneWireError, and nothing else, whatever comes."""
        ...

    def speak(self, pcm: Pcm) -> Sequence[Message]:
        """The next audio, int16 at ``rate``; any length, though ``frame_ms`` suits the wire."""
        ...

    def mark(self, name: str) -> Sequence[Message]:
        """Have it told when all that was sent before has been played."""
        ...

    def clear(self) -> Sequence[Message]:
        """Have what was sent and not played thrown away."""
        ...

    def press(self, digits: str) -> Sequence[Message]:
        """Send digits (0-9, *, #, A-D) to the other side."""
        ...

    def hang_up(self) -> Sequence[Message]:
        """End the call."""
        ...
