"""FreeSWITCH mod_audio_stream: binary linear 16-bit audio in, JSON with audio out.

The module sends the text given to ``uuid_audio_stream ... start``, if any, then the caller's audio
in messages of ``STREAM_BUFFER_SIZE`` ms, and later texts of ``send_text``. Nothing names the rate:
it is 8 kHz unless that first text is JSON with ``sampleRate``, and ``call``, ``from`` and ``to``
name the call. It must be ``mono``.

What it takes is ``streamAudio`` in base64. Released builds play it; others, and all of them on
other texts, fire the event ``mod_audio_stream::json``, which a script may act on: so ``killAudio``
and ``disconnect`` are sent where audio is to stop and where the call is to end. There are no
marks, so audio is kept in time here. Keys come as ``send_text`` of ``{"event": "dtmf", "digit":
"5"}``, by a script's doing: the module itself hears none.

Source: README of amigniter/mod_audio_stream ("API", "Events", "play"); README of
drachtio mod_audio_fork for ``killAudio`` and ``disconnect``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from engines.audio import Pcm
from voice.wire.phone import AudioCame, LegStarted, Message, PhoneEvent, PhoneWireError
from voice.wire.phone_audio import Coding
from voice.wire.phone_json import decoder_of, pressed, texts, write

_RATES: Final = (8_000, 16_000)


class Sound(Struct, rename="camel"):
    audio_data_type: str
    sample_rate: int
    audio_data: bytes


class StreamAudio(Struct, tag_field="type", tag="streamAudio"):
    data: Sound


class KillAudio(Struct, tag_field="type", tag="killAudio"):
    pass


class Disconnect(Struct, tag_field="type", tag="disconnect"):
    pass


_objects = decoder_of(dict[str, Any])


class FreeSwitchCodec:
    """One leg at FreeSWITCH."""

    name = "freeswitch"
    marks = False
    paced = True

    def __init__(self) -> None:
        self.rate = 8_000
        self.frame_ms = 20
        self._started = False
        self._coding = Coding("little", self.rate)

    def take(self, message: Message) -> Sequence[PhoneEvent]:
        if isinstance(message, str):
            said = _object(message)
            return self._key(said) if self._started else self._start(said)
        started = () if self._started else self._start({})
        audio = (AudioCame(self._coding.decode(message)),) if message else ()
        return (*started, *audio)

    def speak(self, pcm: Pcm) -> Sequence[Message]:
        if not self._started or not len(pcm):
            return ()
        return (write(StreamAudio(Sound("raw", self.rate, self._coding.encode(pcm)))),)

    def mark(self, name: str) -> Sequence[Message]:  # noqa: ARG002
        return ()

    def clear(self) -> Sequence[Message]:
        return (write(KillAudio()),) if self._started else ()

    def press(self, digits: str) -> Sequence[Message]:  # noqa: ARG002
        return ()

    def hang_up(self) -> Sequence[Message]:
        return (write(Disconnect()),) if self._started else ()

    def _start(self, metadata: dict[str, Any]) -> Sequence[PhoneEvent]:
        parameters = texts(metadata)
        rate = parameters.get("sampleRate", str(self.rate))
        if rate not in map(str, _RATES):
            raise PhoneWireError(
                f"The metadata of mod_audio_stream says sampleRate {rate[:20]}. Give it what is"
                " given to uuid_audio_stream: 8000 for 8k, 16000 for 16k."
            )
        self.rate = int(rate)
        self._coding = Coding("little", self.rate)
        self._started = True
        call, caller, called = (parameters.get(name, "") for name in ("call", "from", "to"))
        return (LegStarted(call, self.rate, caller, called, parameters),)

    def _key(self, said: dict[str, Any]) -> Sequence[PhoneEvent]:
        digit = said.get("digit")
        return pressed(digit) if said.get("event") == "dtmf" and isinstance(digit, str) else ()


def _object(message: str) -> dict[str, Any]:
    """A text that is not a JSON object is a parameter by the name of ``metadata``."""
    try:
        return _objects.decode(message)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {"metadata": message}
