"""Genesys' wire: every message is numbered, and some want an answer at once."""

import json
from typing import Any

import numpy as np
import pytest

from engines.audio import Pcm
from tests.voice.wire.phone_transcripts import (
    GENESYS_OPEN,
    MULAW_20_MS,
    SESSION,
    TRANSCRIPTS,
    answered,
    begun,
    genesys,
    samples_in,
    take_all,
)
from voice.wire import g711
from voice.wire.phone import Answer, DigitPressed, LegEnded, LegStarted, PhoneWireError
from voice.wire.phone_genesys import NIL_CALL, GenesysCodec

STEREO = [GENESYS_OPEN["media"][0]]  # type: ignore[index]


def opened(**changes: Any) -> tuple[GenesysCodec, list[Any]]:
    codec = GenesysCodec()
    return codec, list(codec.take(genesys("open", 1, **{**GENESYS_OPEN, **changes})))


def test_the_opening_is_answered_with_the_format_that_is_taken() -> None:
    _, events = opened()
    assert answered(events) == [
        {
            "version": "2",
            "type": "opened",
            "seq": 1,
            "clientseq": 1,
            "id": SESSION,
            "parameters": {
                "startPaused": False,
                "media": [
                    {"type": "audio", "format": "PCMU", "rate": 8000, "channels": ["external"]}
                ],
            },
        }
    ]
    assert events[1] == LegStarted(
        "090eaa2f-72fa-480a-83e0-8667ff89c0ec",
        8_000,
        "tel:+13125550100",
        "tel:+1",
        {"queue": "sales", "language": "en-US"},
    )


def test_pings_updates_and_the_close_are_answered_in_turn() -> None:
    codec, _ = opened()
    events = take_all(
        codec,
        [
            genesys("ping", 2, rtt="PT0.1S"),
            genesys("update", 3, language="de-DE"),
            genesys("paused", 4),
            genesys("close", 5, reason="disconnect"),
        ],
    )
    assert [(a["type"], a["seq"], a["clientseq"]) for a in answered(events)] == [
        ("pong", 2, 2),
        ("updated", 3, 3),
        ("closed", 4, 5),
    ]
    assert events[-1] == LegEnded("disconnect")
    assert list(codec.take(genesys("ping", 6))) == []
    assert list(codec.take(MULAW_20_MS)) == []


def test_the_caller_is_the_left_of_two_channels_where_only_those_are_offered() -> None:
    codec, _ = opened(media=STEREO)
    both = bytes(x for sample in MULAW_20_MS for x in (sample, 0x55))
    assert samples_in(list(codec.take(both))) == g711.decode(MULAW_20_MS, "mulaw").tolist()
    with pytest.raises(PhoneWireError, match="2 channels"):
        codec.take(b"\0\0\0")


@pytest.mark.parametrize(
    "media",
    [
        [],
        [{"type": "audio", "format": "L16", "rate": 8000, "channels": ["external"]}],
        [{"type": "audio", "format": "PCMU", "rate": 8000, "channels": ["internal"]}],
    ],
)
def test_an_offer_without_the_caller_is_refused_with_what_to_set(media: list[Any]) -> None:
    with pytest.raises(PhoneWireError, match="Audio Connector"):
        opened(media=media)


def test_a_call_may_tell_little_of_itself() -> None:
    _, events = opened(language=None, participant=None, inputVariables=None)
    assert events[1] == LegStarted("090eaa2f-72fa-480a-83e0-8667ff89c0ec", 8_000)


def test_a_try_of_the_connection_is_opened_and_is_no_call() -> None:
    codec, events = opened(conversationId=NIL_CALL)
    assert [type(event) for event in events] == [Answer]
    *_, ended = codec.take(genesys("close", 2, reason="end"))
    assert isinstance(ended, LegEnded)


def test_audio_goes_out_in_few_messages() -> None:
    """Genesys takes about five a second."""
    codec = begun("genesys")
    said = codec.speak(Pcm(np.zeros(4_000, np.int16), 8_000))
    assert list(said) == [b"\xff" * 1_600] * 2
    assert list(codec.mark("m")) == [b"\xff" * 1_600]
    assert list(codec.mark("m")) == []


def test_a_barge_in_is_told_and_what_was_kept_forgotten() -> None:
    codec = begun("genesys")
    codec.speak(Pcm.silence(100, 8_000))
    (said,) = codec.clear()
    told = json.loads(said)
    assert (told["type"], told["seq"], told["clientseq"]) == ("event", 2, 1)
    assert told["parameters"] == {"entities": [{"type": "barge_in", "data": {}}]}
    assert list(codec.mark("m")) == []


def test_hanging_up_asks_genesys_to_close() -> None:
    codec = begun("genesys")
    (said,) = codec.hang_up()
    assert json.loads(said)["type"] == "disconnect"
    assert json.loads(said)["parameters"] == {"reason": "completed"}
    assert list(codec.press("1")) == []


@pytest.mark.parametrize("message", [MULAW_20_MS, genesys("ping", 1)])
def test_the_opening_comes_first(message: str | bytes) -> None:
    with pytest.raises(PhoneWireError, match="'open' should have come"):
        GenesysCodec().take(message)


def test_the_opening_comes_once_and_in_the_known_version() -> None:
    with pytest.raises(PhoneWireError, match="one open"):
        begun("genesys").take(TRANSCRIPTS["genesys"][0])
    with pytest.raises(PhoneWireError, match="AudioHook 3"):
        GenesysCodec().take(genesys("open", 1, **GENESYS_OPEN).replace('"2"', '"3"', 1))


def test_no_audio_is_none() -> None:
    assert list(begun("genesys").take(b"")) == []


def test_a_call_as_it_is_documented() -> None:
    codec = GenesysCodec()
    assert [*codec.speak(Pcm.silence(100, codec.rate)), *codec.mark("m"), *codec.press("1")] == []
    events = take_all(codec, TRANSCRIPTS["genesys"])
    assert DigitPressed("1") in events
