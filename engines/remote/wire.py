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
"""Of one packet: half an hour of speech at 16 kHz. A message may have half of it."""

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


class Open(_Message, frozen=True):
    """Open a request; as many items may come as there are ``credits``.

    ``what``, the request, is read apart: one that is wrong is no reason to doubt the gateway.
    """

    request: int
    credits: int
    what: msgspec.Raw


class Credit(_Message, frozen=True):
    """So many items have been read: as many more may come."""

    request: int
    more: int


class Cancel(_Message, frozen=True):
    """Nobody reads this request any more."""

    request: int


class Alive(_Message, frozen=True):
    """The gateway still runs."""


class Goodbye(_Message, frozen=True):
    """The last word of a process that ends, and the answer to it: all has arrived until here.
    Whoever closes a socket without it may take along what the other side has not read yet."""


FromGateway: TypeAlias = Hello | Open | Credit | Cancel | Alive | Goodbye

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


class Item(_Message, frozen=True):
    """The next result of a request. ``what`` is read apart, as a request is."""

    request: int
    what: msgspec.Raw


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


FromEngine: TypeAlias = (
    Welcome | Refused | Stranger | Leaving | Goodbye | Beat | Item | End | Failed | Declined
)

# --- requests and items ---------------------------------------------------------------------


class _Said(_Message, frozen=True):
    delta: TextDelta


class _Called(_Message, frozen=True):
    delta: ToolCallDelta


class _Used(_Message, frozen=True):
    delta: Usage


_DELTAS: Final[dict[type, type[_Said | _Called | _Used]]] = {
    TextDelta: _Said,
    ToolCallDelta: _Called,
    Usage: _Used,
}
_REQUESTS: Final[dict[Kind, type]] = {
    "asr": AsrRequest,
    "llm": ChatRequest,
    "tts": SpeechRequest,
}
_ITEMS: Final[dict[Kind, Any]] = {"asr": Transcript, "llm": _Said | _Called | _Used, "tts": Pcm}


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


_requests: Final[dict[Kind, msgspec.msgpack.Decoder[Any]]] = {
    kind: msgspec.msgpack.Decoder(what, dec_hook=_samples) for kind, what in _REQUESTS.items()
}
_items: Final[dict[Kind, msgspec.msgpack.Decoder[Any]]] = {
    kind: msgspec.msgpack.Decoder(what, dec_hook=_samples) for kind, what in _ITEMS.items()
}


def encode(message: FromGateway | FromEngine) -> bytes:
    """The message as it goes into a packet."""
    return _encoder.encode(message)


def request_of(kind: Kind, number: int, request: Any) -> Open:
    """The message that opens ``request`` with the first credits.

    Raises ValueError where it cannot travel: a value of an odd type, a lone surrogate, too large.
    """
    return Open(number, CREDITS[kind], _raw(request))


def request_in(kind: Kind, message: Open) -> Any:
    """The request that it opens. Raises Unreadable."""
    return _read(_requests[kind], message.what)


def item_of(number: int, item: Any) -> Item:
    """The message that carries ``item``. Raises ValueError where it cannot travel."""
    delta = _DELTAS.get(type(item))
    return Item(number, _raw(item if delta is None else delta(item)))


def item_in(kind: Kind, message: Item) -> Any:
    """The item that it carries. Raises Unreadable."""
    item = _read(_items[kind], message.what)
    return item.delta if kind == "llm" else item


def _raw(value: Any) -> msgspec.Raw:
    try:
        data = _encoder.encode(value)
    except (NotImplementedError, TypeError, OverflowError) as error:
        raise ValueError(str(error)) from error
    if len(data) > MOST_BYTES // 2:
        raise ValueError(f"it is {len(data)} bytes, the most is {MOST_BYTES // 2}: cut it")
    return msgspec.Raw(data)


def pack(messages: Sequence[bytes]) -> bytes:
    """One packet: a msgpack array of messages that are encoded already."""
    count = len(messages)
    head = bytes((0x90 | count,)) if count < 16 else b"\xdd" + count.to_bytes(4, "big")
    return b"".join((head, *messages))


def read_gateway(packet: bytes) -> list[FromGateway]:
    """Raises Unreadable."""
    return list(_read(_from_gateway, packet))


def read_engine(packet: bytes) -> list[FromEngine]:
    """Raises Unreadable."""
    return list(_read(_from_engine, packet))


def _read(decoder: msgspec.msgpack.Decoder[Any], data: bytes | msgspec.Raw) -> Any:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Unreadable(f"is not of protocol {VERSION}: {error}") from error
