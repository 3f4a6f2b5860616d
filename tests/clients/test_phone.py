"""A caller on a telephone: every carrier, as simulated, against the server's codec for it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import numpy as np
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.typing import Subprotocol

from clients.phone import (
    CARRIERS,
    AudioSocket,
    CarrierError,
    Exotel,
    Telephone,
    Telnyx,
    Twilio,
    dial,
)
from clients.phone_words import Message, Samples, Words
from engines.audio import Pcm
from tests.clients.phone_pairs import BINARY, JSON, put_through
from voice.wire.phone import (
    Answer,
    AudioCame,
    DigitPressed,
    LegEnded,
    LegStarted,
    MarkPlayed,
    PhoneCodec,
    PhoneEvent,
)
from voice.wire.phone_audiosocket import AudioSocketCodec
from voice.wire.phone_wires import WIRES, detect

ALL = [*JSON, *BINARY]


def sine(seconds: float, rate: int) -> Samples:
    at = np.arange(round(seconds * rate))
    return (8_000 * np.sin(2 * np.pi * 440 * at / rate)).astype(np.int16)


def close_to(heard: Samples, said: Samples) -> bool:
    """But for what G.711 takes away."""
    return len(heard) == len(said) and int(np.abs(heard - said).max(initial=0)) <= 256


@pytest.mark.parametrize("make", ALL)
def test_the_server_knows_who_calls_and_starts_at_the_right_rate(make: Callable[[], Words]) -> None:
    words = make()
    pair = put_through(words)
    pair.from_carrier(pair.telephone.say(np.zeros(words.rate * words.frame_ms // 1000, np.int16)))
    (started,) = [event for event in pair.events if isinstance(event, LegStarted)]
    assert (started.rate, pair.codec.rate) == (words.rate, words.rate)
    hello = [*words.hello(), *words.media(np.zeros(160, np.int16))]
    assert detect(hello[:2]) == (words.name if words.name in WIRES else "freeswitch")


@pytest.mark.parametrize("make", ALL)
def test_what_either_says_the_other_hears(make: Callable[[], Words]) -> None:
    words = make()
    pair = put_through(words)
    frame = sine(words.frame_ms / 1000, words.rate)
    pair.from_carrier(pair.telephone.say(frame))
    heard = np.concatenate([e.pcm.samples for e in pair.events if isinstance(e, AudioCame)])
    assert close_to(heard, frame)
    pair.at(1.0)
    speech = sine(pair.codec.frame_ms / 1000 * 3, words.rate)
    pair.from_server(pair.codec.speak(Pcm(speech, words.rate)))
    assert close_to(pair.telephone.playout.heard(1.0, 1.0 + len(speech) / words.rate), speech)


@pytest.mark.parametrize("make", ALL)
def test_a_mark_comes_back_when_it_is_reached(make: Callable[[], Words]) -> None:
    words = make()
    pair = put_through(words)
    pair.from_carrier(pair.telephone.say(sine(words.frame_ms / 1000, words.rate)))
    speech = sine(0.4, words.rate)
    pair.from_server([*pair.codec.speak(Pcm(speech, words.rate)), *pair.codec.mark("e1-1")])
    pair.at(0.39)
    assert MarkPlayed("e1-1") not in pair.events
    pair.at(0.41)
    assert (MarkPlayed("e1-1") in pair.events) == pair.codec.marks


@pytest.mark.parametrize("make", ALL)
def test_a_clear_silences_and_marks_may_come_back(make: Callable[[], Words]) -> None:
    words = make()
    pair = put_through(words)
    pair.from_carrier(pair.telephone.say(sine(words.frame_ms / 1000, words.rate)))
    pair.from_server([*pair.codec.speak(Pcm(sine(1.0, words.rate), words.rate))])
    pair.from_server(pair.codec.mark("e1-1"))
    pair.at(0.25)
    pair.from_server(pair.codec.clear())
    cleared = words.name != "audiosocket"
    assert pair.telephone.clears == ([0.25] if cleared else [])
    assert pair.telephone.playout.heard_s(2.0) == pytest.approx(0.25 if cleared else 1.0)
    assert (MarkPlayed("e1-1") in pair.events) == words.returns_cleared
    pair.at(5.0)
    assert pair.events.count(MarkPlayed("e1-1")) == int(words.returns_cleared)


@pytest.mark.parametrize("make", ALL)
def test_keys_are_heard_in_order(make: Callable[[], Words]) -> None:
    pair = put_through(make())
    pair.from_carrier(pair.telephone.say(np.zeros(160, np.int16)))
    pair.from_carrier(pair.telephone.press("12#"))
    keys = [event.digit for event in pair.events if isinstance(event, DigitPressed)]
    assert keys == ["1", "2", "#"]
    pair.from_server(pair.codec.press("34"))
    assert pair.telephone.keys == ("34" if pair.codec.name == "plivo" else "")


@pytest.mark.parametrize("make", ALL)
def test_a_hang_up_is_told_where_the_wire_has_a_word_for_it(make: Callable[[], Words]) -> None:
    words = make()
    pair = put_through(words)
    pair.from_carrier(pair.telephone.say(np.zeros(160, np.int16)))
    pair.from_carrier(pair.telephone.hang_up())
    told = words.name in ("twilio", "telnyx", "exotel", "genesys", "audiosocket")
    assert any(isinstance(event, LegEnded) for event in pair.events) == told
    other = put_through(make())
    other.from_carrier(other.telephone.say(np.zeros(160, np.int16)))
    other.from_server(other.codec.hang_up())
    has_word = words.name in ("genesys", "freeswitch", "asterisk", "audiosocket")
    assert other.telephone.hung_up == has_word


# --- over a network -------------------------------------------------------------------------


class Parrot:
    """A server that says back what it hears, marks it, and hangs up at a ``#``."""

    def __init__(self) -> None:
        self.events: list[PhoneEvent] = []
        self.codec: PhoneCodec | None = None
        self.first: list[Message] = []

    def take(self, message: Message) -> list[Message]:
        if self.codec is None:
            self.first.append(message)
            name = detect(self.first)
            if name is None:
                return []
            self.codec = WIRES[name]()
            return [said for first in self.first for said in self.reply(self.codec, first)]
        return self.reply(self.codec, message)

    def reply(self, codec: PhoneCodec, message: Message) -> list[Message]:
        said: list[Message] = []
        for event in codec.take(message):
            self.events.append(event)
            if isinstance(event, Answer):
                said += event.messages
            if isinstance(event, AudioCame):
                said += [*codec.speak(event.pcm), *codec.mark("m")]
        return said

    @property
    def over(self) -> bool:
        return DigitPressed("#") in self.events


@asynccontextmanager
async def answering(name: str) -> AsyncIterator[tuple[str, Parrot]]:
    listening = listening_on_tcp if name == "audiosocket" else listening_on_websockets
    parrot = Parrot()
    async with listening(parrot) as url:
        yield url, parrot


@asynccontextmanager
async def listening_on_tcp(parrot: Parrot) -> AsyncIterator[str]:
    parrot.codec = AudioSocketCodec()
    answered = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while not parrot.over and (piece := await reader.read(4_096)):
            writer.writelines(said for said in parrot.take(piece) if isinstance(said, bytes))
        writer.close()
        await writer.wait_closed()
        answered.set()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await answered.wait()


@asynccontextmanager
async def listening_on_websockets(parrot: Parrot) -> AsyncIterator[str]:
    async def answer(socket: ServerConnection) -> None:
        async for message in socket:
            for said in parrot.take(message):
                await socket.send(said)
            if parrot.over:
                return

    def chosen(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
        return offered[0] if offered else None

    async with serve(answer, "127.0.0.1", 0, select_subprotocol=chosen) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"ws://127.0.0.1:{port}/phone"


@pytest.mark.parametrize("name", sorted(CARRIERS))
async def test_a_call_over_the_network_is_heard_and_ended(name: str) -> None:
    words = CARRIERS[name]()
    async with answering(name) as (url, parrot), dial(url, words) as call:
        await call.say(sine(0.2, words.rate))
        await call.wait_heard_s(0.2)
        call.press("#")
        await call.ended.wait()
    heard = call.heard()
    assert np.abs(heard).max() > 7_000
    assert any(isinstance(event, LegStarted) for event in parrot.events)
    assert DigitPressed("#") in parrot.events


async def test_who_waits_for_more_than_there_is_learns_of_it() -> None:
    async with answering("twilio") as (url, _), dial(url, Twilio()) as call:
        call.press("#")
        with pytest.raises(CarrierError, match="the line was closed"):
            await call.wait_heard_s(60.0)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
def test_samples_of_another_kind_are_refused(kind: type) -> None:
    with pytest.raises(TypeError, match="give int16"):
        Telephone(Twilio()).say(np.zeros(160, kind))


async def test_a_caller_whose_samples_are_no_int16_learns_it_at_once() -> None:
    async with answering("twilio") as (url, _), dial(url, Twilio()) as call:
        with pytest.raises(TypeError, match="float64: give int16"):
            await call.say(np.zeros(160))


async def test_a_caller_hangs_up() -> None:
    async with answering("audiosocket") as (url, parrot):
        async with dial(url, AudioSocket()) as call:
            await call.say(sine(0.04, 8_000))
            await call.hang_up()
        assert isinstance(parrot.events[-1], LegEnded)


def test_each_carrier_can_be_made_by_its_name() -> None:
    assert {name: make().name for name, make in CARRIERS.items()} == {n: n for n in CARRIERS}


def test_what_was_told_to_a_carrier_is_passed_on() -> None:
    for words in (Twilio(language="de"), Telnyx(language="de"), Exotel(language="de")):
        (start,) = [m for m in words.hello() if json.loads(m)["event"] == "start"]
        assert '"language": "de"' in str(start)
