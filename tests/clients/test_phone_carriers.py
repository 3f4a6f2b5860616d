"""Twilio, Telnyx, Plivo and Exotel as simulated: strict where the carriers are."""

import json

import pytest

from clients.phone import CarrierError, Exotel, Plivo, Telnyx, Twilio
from clients.phone_words import Message, Words


def refused(words: Words, message: Message) -> str:
    with pytest.raises(CarrierError) as error:
        words.read(message)
    return str(error.value)


def media(payload: str, **beside: str) -> str:
    return json.dumps({"event": "media", "media": {"payload": payload}, **beside})


def test_twilio_wants_its_stream_and_its_three_events() -> None:
    twilio = Twilio()
    assert "streamSid" in refused(twilio, '{"event": "clear"}')
    assert "streamSid" in refused(twilio, media("", streamSid="other"))
    assert "31924" in refused(twilio, json.dumps({"event": "x", "streamSid": twilio.stream}))
    assert "text only" in refused(twilio, b"\xff" * 160)
    assert "base64" in refused(twilio, media("!", streamSid=twilio.stream))


def test_telnyx_wants_20_ms_to_30_s() -> None:
    telnyx = Telnyx()
    assert "20 ms to 30 s" in refused(telnyx, media("AAAA"))
    assert "no event" in refused(telnyx, '{"event": "playAudio"}')
    assert telnyx.read(media("A" * 216)).audio is not None


def test_plivo_wants_the_format_that_was_agreed() -> None:
    plivo = Plivo()
    sound = {"contentType": "audio/x-l16", "sampleRate": 8000, "payload": ""}
    assert "contentType" in refused(plivo, json.dumps({"event": "playAudio", "media": sound}))
    sound = {"contentType": "audio/x-mulaw", "sampleRate": 16000, "payload": ""}
    assert "sampleRate" in refused(plivo, json.dumps({"event": "playAudio", "media": sound}))
    assert "streamId" in refused(plivo, '{"event": "clearAudio"}')
    assert "streamId" in refused(plivo, '{"event": "checkpoint", "name": "x"}')
    assert "no event" in refused(plivo, '{"event": "media"}')


def test_exotel_wants_multiples_of_320_bytes() -> None:
    exotel = Exotel()
    assert "multiples of 320" in refused(exotel, media("AAAA", stream_sid=exotel.stream))
    assert "no event" in refused(exotel, json.dumps({"event": "x", "stream_sid": exotel.stream}))
    assert "stream_sid" in refused(exotel, '{"event": "clear"}')


@pytest.mark.parametrize("words", [Twilio(), Telnyx(), Exotel()])
def test_messages_are_numbered(words: Words) -> None:
    said = [json.loads(m) for m in [*words.hello(), *words.key("1"), *words.bye()]]
    numbers = [m.get("sequenceNumber", m.get("sequence_number")) for m in said[1:]]
    assert numbers == ["1", "2", "3"]
