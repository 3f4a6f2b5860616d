"""Genesys Cloud Audio Connector, the AudioHook protocol, version 2: JSON beside binary mu-law.

Genesys sends ``open`` with the formats that it offers, then, once ``opened`` names one, audio;
``ping``, ``update``, ``paused``, ``resumed``, ``discarded``, ``dtmf``, ``playback_started``,
``playback_completed``, ``error`` and at last ``close``. We answer ``opened``, ``pong``,
``updated``, ``closed``, and say ``event`` (barge-in) and ``disconnect``. Each message carries a
number of its own and the last number of the other side.

There are no marks: ``playback_completed`` tells that the queue ran dry, and not of what. Messages
of audio are limited to about five a second, so they hold 200 ms. A conversation whose id is nil is
Genesys trying the connection: it is opened and closed, and is no call.

Source: Genesys Cloud Developer Center, "AudioHook protocol reference" and "Audio Connector"; the
types of Genesys' AudioHook reference implementation (protocol/message.ts, protocol/core.ts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from engines.audio import Pcm
from voice.wire.phone import (
    Answer,
    AudioCame,
    LegEnded,
    LegStarted,
    Message,
    PhoneEvent,
    PhoneWireError,
)
from voice.wire.phone_audio import Coding, Frames
from voice.wire.phone_json import decoder_of, out_of_turn, part, pressed, read, texts, write

WIRE = "Genesys"
VERSION: Final = "2"
NIL_CALL: Final = "00000000-0000-0000-0000-000000000000"

_coding = Coding("mulaw", 8_000)


class Media(Struct):
    """A format on offer. ``channels``: the caller is ``external``, an agent ``internal``."""

    type: str
    format: str
    rate: int
    channels: list[str]


class Participant(Struct):
    ani: str = ""
    dnis: str = ""


class Parameters(Struct, rename="camel"):
    """Of all messages that say more than their type."""

    conversation_id: str = ""
    participant: Participant | None = None
    media: list[Media] = []
    language: str | None = None
    input_variables: dict[str, Any] | None = None
    reason: str = ""
    digit: str | None = None


class GenesysMessage(Struct):
    version: str
    id: str
    type: str
    seq: int
    parameters: Parameters = field(default_factory=Parameters)


_messages = decoder_of(GenesysMessage)


class GenesysCodec:
    """One leg at Genesys."""

    name = "genesys"
    marks = False
    paced = False

    def __init__(self) -> None:
        self.rate = _coding.rate
        self.frame_ms = 200
        self._session = ""
        self._sent = 0
        self._received = 0
        self._channels = 1
        self._ended = False
        self._frames = Frames(_coding.bytes_of(self.frame_ms), _coding.silence)

    def take(self, message: Message) -> Sequence[PhoneEvent]:
        if self._ended:
            return ()
        if isinstance(message, bytes):
            return self._hear(message)
        said = read(_messages, message, WIRE)
        if said.version != VERSION:
            raise PhoneWireError(
                f"Genesys speaks AudioHook {said.version[:8]}; {VERSION} is known."
            )
        self._received = said.seq
        if said.type == "open":
            return self._open(said)
        if not self._session:
            raise out_of_turn(said.type, WIRE, "open")
        return self._within_call(said)

    def speak(self, pcm: Pcm) -> Sequence[Message]:
        return self._frames.cut(_coding.encode(pcm)) if self._talking else ()

    def mark(self, name: str) -> Sequence[Message]:  # noqa: ARG002
        """It tells of no mark, but what was kept for a whole frame has to be said now."""
        return self._frames.finish() if self._talking else ()

    def clear(self) -> Sequence[Message]:
        self._frames.drop()
        barge_in = {"entities": [{"type": "barge_in", "data": {}}]}
        return (self._say("event", barge_in),) if self._talking else ()

    def press(self, digits: str) -> Sequence[Message]:  # noqa: ARG002
        return ()

    def hang_up(self) -> Sequence[Message]:
        return (self._say("disconnect", {"reason": "completed"}),) if self._talking else ()

    @property
    def _talking(self) -> bool:
        return bool(self._session) and not self._ended

    def _open(self, said: GenesysMessage) -> Sequence[PhoneEvent]:
        if self._session or not said.id:
            raise out_of_turn("open", WIRE, "one open that names a session")
        asked = said.parameters
        media = _chosen(asked.media)
        self._session = said.id
        self._channels = len(media.channels)
        opened = self._say("opened", {"startPaused": False, "media": [media]})
        if asked.conversation_id in ("", NIL_CALL):
            return (Answer((opened,)),)
        parameters = texts(asked.input_variables)
        if asked.language:
            parameters.setdefault("language", asked.language)
        who = asked.participant or Participant()
        return (
            Answer((opened,)),
            LegStarted(asked.conversation_id, self.rate, who.ani, who.dnis, parameters),
        )

    def _within_call(self, said: GenesysMessage) -> Sequence[PhoneEvent]:
        match said.type:
            case "ping":
                return (Answer((self._say("pong", {}),)),)
            case "update":
                return (Answer((self._say("updated", {}),)),)
            case "dtmf":
                return pressed(part(said.parameters.digit, said.type, WIRE))
            case "close":
                closed = self._say("closed", {})
                self._ended = True
                return (Answer((closed,)), LegEnded(said.parameters.reason))
            case _:
                return ()

    def _hear(self, audio: bytes) -> Sequence[PhoneEvent]:
        if not self._session:
            raise out_of_turn("audio", WIRE, "open")
        if len(audio) % self._channels:
            raise PhoneWireError(
                f"Genesys sent {len(audio)} bytes for {self._channels} channels of mu-law."
            )
        caller = audio[:: self._channels]
        return (AudioCame(_coding.decode(caller)),) if caller else ()

    def _say(self, type_: str, parameters: Mapping[str, object]) -> str:
        self._sent += 1
        return write(
            {
                "version": VERSION,
                "type": type_,
                "seq": self._sent,
                "clientseq": self._received,
                "id": self._session,
                "parameters": parameters,
            }
        )


def _chosen(offers: Sequence[Media]) -> Media:
    """The caller alone where it is offered, else the caller on the left of two channels."""
    fit = [
        media
        for media in offers
        if (media.type, media.format, media.rate) == ("audio", "PCMU", 8_000)
        and media.channels in (["external"], ["external", "internal"])
    ]
    if not fit:
        offered = ", ".join(f"{media.format} {media.channels}" for media in offers)[:200]
        raise PhoneWireError(
            f"Genesys offers {offered or 'no audio'}; this server takes PCMU at 8000 Hz with the"
            " channel 'external'. Use an Audio Connector integration, and let it send the"
            " customer's audio."
        )
    return min(fit, key=lambda media: len(media.channels))
