"""What a gateway and an engine process say to each other: msgpack, several messages a packet.

The values of ``engines.ports`` travel as they are; samples are the bytes of a little-endian
array, never text. A message is encoded when it is told, so that what cannot travel fails one
request; a packet is the array of those that were told since the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from engines.audio import Pcm
from engines.ports import (
    AsrRequest,
    ChatRequest,
    Load,
    SpeechRequest,
    TextDelta,
    ToolCallDelta,
    Transcript,
    Usage,
)
from engines.remote.spec import Kind

VERSION: Final = 1
MOST_BYTES: Final = 64 * 1024 * 1024
"""Of one packet: half an hour of speech at 16 kHz."""

CREDITS: Final[dict[Kind, int]] = {"asr": 8, "llm": 64, "tts": 8}
"""How many items an engine may be ahead of its reader."""


class Unreadable(Exception):  # noqa: N818 - it says what the packet is
    """A packet that is not what the other side may say."""


class _Message(msgspec.Struct, array_like=True, tag=True, frozen=True):
    pass


# --- from the gateway -----------------------------------------------------------------------


class Hello(_Message, frozen=True):
    """The first word, and the first again: whatever the gateway had open is over."""

    version: int
    kind: str
    gateway: str


class Listen(_Message, frozen=True):
    """Open a request; as many items may come as there are ``credits``."""

    request: int
    credits: int
    what: AsrRequest


class Chat(_Message, frozen=True):
    """The same, of a language model."""

    request: int
    credits: int
    what: ChatRequest


class Speak(_Message, frozen=True):
    """The same, of a voice."""

    request: int
    credits: int
    what: SpeechRequest


class Credit(_Message, frozen=True):
    """So many items have been read: as many more may come."""

    request: int
    more: int


class Cancel(_Message, frozen=True):
    """Nobody reads this request any more."""

    request: int


class Alive(_Message, frozen=True):
    """The gateway still runs."""


Open: TypeAlias = Listen | Chat | Speak
FromGateway: TypeAlias = Hello | Open | Credit | Cancel | Alive

# --- from the engine process ----------------------------------------------------------------


class Welcome(_Message, frozen=True):
    """The engine is warm, and this gateway may open requests."""

    engine: str
    place: str
    pid: int


class Refused(_Message, frozen=True):
    """This gateway and this engine cannot work together."""

    why: str


class Stranger(_Message, frozen=True):
    """The process knows nothing of this gateway, which must say Hello first."""


class Leaving(_Message, frozen=True):
    """The process takes no more requests and ends with the last one that is open."""


class Beat(_Message, frozen=True):
    """The process lives. ``yours``: requests of this gateway. ``stalled_ms``: how long all that
    wait for the model have waited for anything at all."""

    load: Load
    yours: int
    stalled_ms: float


class Heard(_Message, frozen=True):
    """An item of a recogniser."""

    request: int
    item: Transcript


class Said(_Message, frozen=True):
    """An item of a language model: text."""

    request: int
    item: TextDelta


class Called(_Message, frozen=True):
    """An item of a language model: a piece of a tool call."""

    request: int
    item: ToolCallDelta


class Used(_Message, frozen=True):
    """An item of a language model: its last."""

    request: int
    item: Usage


class Spoke(_Message, frozen=True):
    """An item of a voice."""

    request: int
    item: Pcm


class End(_Message, frozen=True):
    """The request is complete."""

    request: int


class Failed(_Message, frozen=True):
    """The engine's own EngineError."""

    request: int
    engine: str
    code: str
    message: str


class Declined(_Message, frozen=True):
    """The request was not begun: another process may take it."""

    request: int
    why: str


Item: TypeAlias = Heard | Said | Called | Used | Spoke
FromEngine: TypeAlias = (
    Welcome | Refused | Stranger | Leaving | Beat | Item | End | Failed | Declined
)

_OPENS: Final[dict[str, type[Open]]] = {"asr": Listen, "llm": Chat, "tts": Speak}
_ITEMS: Final[dict[type, type[Item]]] = {
    Transcript: Heard,
    TextDelta: Said,
    ToolCallDelta: Called,
    Usage: Used,
    Pcm: Spoke,
}


def request_of(kind: Kind, number: int, request: Any) -> Open:
    """The message that opens ``request`` with the first credits."""
    return _OPENS[kind](number, CREDITS[kind], request)


def item_of(number: int, item: Any) -> Item:
    """The message that carries ``item``. Raises TypeError for what no port gives."""
    message = _ITEMS.get(type(item))
    if message is None:
        raise TypeError(f"{type(item).__name__} is no item of an engine")
    return message(number, item)


def kind_of(message: Open) -> str:
    """The kind of engine that answers ``message``."""
    return next(kind for kind, opens in _OPENS.items() if opens is type(message))


# --- bytes ----------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value, "<i2").data
    if isinstance(value, np.generic):
        return value.item()
    raise NotImplementedError(f"{type(value).__name__} cannot travel to another process")


def _samples(kind: Any, value: Any) -> Any:
    if not isinstance(value, bytes):
        raise TypeError(f"{kind} travels as bytes, not as {type(value).__name__}")
    return np.frombuffer(value, "<i2")


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_plain)
_from_gateway: Final = msgspec.msgpack.Decoder(list[FromGateway], dec_hook=_samples)
_from_engine: Final = msgspec.msgpack.Decoder(list[FromEngine], dec_hook=_samples)


def encode(message: FromGateway | FromEngine) -> bytes:
    """Raises ValueError where a value cannot travel: an odd type, a lone surrogate."""
    try:
        return _encoder.encode(message)
    except (NotImplementedError, TypeError, OverflowError) as error:
        raise ValueError(str(error)) from error


def pack(messages: Sequence[bytes]) -> bytes:
    """One packet: a msgpack array of messages that are encoded already."""
    count = len(messages)
    head = bytes((0x90 | count,)) if count < 16 else b"\xdd" + count.to_bytes(4, "big")
    return b"".join((head, *messages))


def read_gateway(packet: bytes) -> list[FromGateway]:
    """Raises Unreadable."""
    return _read(_from_gateway, packet)


def read_engine(packet: bytes) -> list[FromEngine]:
    """Raises Unreadable."""
    return _read(_from_engine, packet)


def _read(decoder: msgspec.msgpack.Decoder[Any], packet: bytes) -> list[Any]:
    try:
        return list(decoder.decode(packet))
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable(f"{len(packet)} bytes are no packet of protocol {VERSION}: {error}") from (
            error
        )
