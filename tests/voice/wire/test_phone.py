"""What every phone wire keeps, whatever it is: a call from beginning to end, and any bytes at all.

ANTIPHON_FUZZ_EXAMPLES says how many examples are tried on each wire, by four searches together;
the suite makes do with a few.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.audio import Pcm
from tests.voice.wire.phone_transcripts import CODECS, TRANSCRIPTS, begun, samples_in, take_all
from voice.wire.phone import (
    AudioCame,
    DigitPressed,
    LegStarted,
    MarkPlayed,
    Message,
    PhoneCodec,
    PhoneWireError,
)

SEARCHES = 4
MANY = settings(
    max_examples=int(os.environ.get("ANTIPHON_FUZZ_EXAMPLES", "160")) // SEARCHES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
NAMES = sorted(CODECS)
TELLING = ("vonage", "twilio", "telnyx", "plivo", "exotel", "asterisk")


@pytest.mark.parametrize("name", NAMES)
def test_a_call_begins_speaks_and_presses_a_key(name: str) -> None:
    events = take_all(CODECS[name](), TRANSCRIPTS[name])
    started = [event for event in events if isinstance(event, LegStarted)]
    assert len(started) == 1
    assert DigitPressed("1") in events
    audio = [event for event in events if isinstance(event, AudioCame)]
    assert audio
    assert {event.pcm.rate for event in audio} == {started[0].rate}
    assert events.index(started[0]) < events.index(audio[0])


@pytest.mark.parametrize("name", TELLING)
def test_wires_with_marks_give_them_back(name: str) -> None:
    assert MarkPlayed("e1-1") in take_all(CODECS[name](), TRANSCRIPTS[name])
    assert begun(name).marks


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(TELLING)))
def test_wires_without_marks_say_so(name: str) -> None:
    codec = begun(name)
    assert not codec.marks
    assert codec.mark("e1-1") == () or codec.mark("e1-1") == []


@pytest.mark.parametrize("name", NAMES)
def test_what_a_wire_cannot_say_yet_is_nothing(name: str) -> None:
    codec = CODECS[name]()
    said = [
        *codec.speak(Pcm.silence(20, codec.rate)),
        *codec.mark("m"),
        *codec.clear(),
        *codec.press("1"),
    ]
    assert said == []


@pytest.mark.parametrize("name", NAMES)
def test_no_sound_is_no_message(name: str) -> None:
    codec = begun(name)
    assert list(codec.speak(Pcm.silence(0, codec.rate))) == []


@pytest.mark.parametrize("name", NAMES)
def test_speech_at_another_rate_is_a_bug_and_not_a_message(name: str) -> None:
    codec = begun(name)
    with pytest.raises(ValueError, match="Hz"):
        codec.speak(Pcm.silence(20, codec.rate + 1))


@pytest.mark.parametrize("name", NAMES)
def test_a_frame_is_so_long_that_the_wire_takes_it_whole(name: str) -> None:
    codec = begun(name)
    assert len(codec.speak(Pcm.silence(codec.frame_ms, codec.rate))) == 1


@pytest.mark.parametrize("name", NAMES)
def test_frames_of_30_ms_are_heard_whole(name: str) -> None:
    """Some telephones send those."""
    codec = begun(name)
    if name == "audiosocket":
        message: Message = b"\x10" + (480).to_bytes(2, "big") + bytes(480)
        assert len(samples_in(list(codec.take(message)))) == 240
    elif name in ("vonage", "freeswitch"):
        assert len(samples_in(list(codec.take(bytes(960))))) == 480
    elif name in ("genesys", "asterisk"):
        assert len(samples_in(list(codec.take(bytes(240))))) == 240
    else:
        _hear_30_ms(codec, name)


def _hear_30_ms(codec: PhoneCodec, name: str) -> None:
    said = next(json.loads(m) for m in TRANSCRIPTS[name] if '"event": "media"' in str(m))
    said["media"]["payload"] = "A" * ((480 if name == "exotel" else 240) * 4 // 3)
    assert len(samples_in(list(codec.take(json.dumps(said))))) == 240


# --- anything may come ----------------------------------------------------------------------


def take_anything(name: str, messages: list[Message]) -> None:
    """Each message is taken, or refused by the one error, which closes the leg."""
    codec = CODECS[name]()
    for message in messages:
        try:
            events = codec.take(message)
        except PhoneWireError as refused:
            assert str(refused)
            return
        for event in events:
            if isinstance(event, AudioCame):
                assert event.pcm.samples.dtype == np.int16
                assert len(event.pcm) > 0
        _say_everything(codec)


def _say_everything(codec: PhoneCodec) -> None:
    said = [
        *codec.speak(Pcm.silence(codec.frame_ms, codec.rate)),
        *codec.mark("e12-3"),
        *codec.clear(),
        *codec.press("1#"),
    ]
    for message in said:
        assert message


messages = st.one_of(st.text(), st.binary())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("name", NAMES)
@MANY
@given(noise=st.lists(messages, max_size=6))
def test_noise_is_refused_and_nothing_more(name: str, noise: list[Message]) -> None:
    take_anything(name, noise)


@pytest.mark.parametrize("name", NAMES)
@MANY
@given(noise=st.lists(messages, max_size=3))
def test_noise_in_a_call_is_refused_and_nothing_more(name: str, noise: list[Message]) -> None:
    take_anything(name, TRANSCRIPTS[name][:2] + noise)


@pytest.mark.parametrize("name", NAMES)
@MANY
@given(data=st.data())
def test_a_call_with_one_thing_changed_is_taken_or_refused(name: str, data: Any) -> None:
    transcript = list(TRANSCRIPTS[name])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(transcript) - 1))
        transcript[at] = data.draw(changed(transcript[at]))
    take_anything(name, transcript)


@pytest.mark.parametrize("name", NAMES)
@MANY
@given(data=st.data())
def test_a_call_out_of_order_or_with_holes_is_taken_or_refused(name: str, data: Any) -> None:
    picks = data.draw(st.lists(st.sampled_from(TRANSCRIPTS[name]), max_size=12))
    take_anything(name, picks)
    take_anything(name, TRANSCRIPTS[name][:2] + picks)


@st.composite
def changed(draw: st.DrawFn, message: Message) -> Message:
    """A message cut short, one byte of it changed, or one of its values another one."""
    if isinstance(message, bytes):
        return draw(_bytes_changed(message))
    how = draw(st.sampled_from(("cut", "byte", "value", "value", "value")))
    if how == "value":
        try:
            return json.dumps(draw(_value_changed(json.loads(message))))
        except ValueError:
            return message
    return draw(_bytes_changed(message.encode("utf-8", "replace"))).decode(
        "utf-8", "surrogateescape"
    )


@st.composite
def _bytes_changed(draw: st.DrawFn, data: bytes) -> bytes:
    at = draw(st.integers(0, max(0, len(data) - 1)))
    if draw(st.booleans()):
        return data[:at]
    return data[:at] + draw(st.binary(max_size=3)) + data[at + 1 :]


@st.composite
def _value_changed(draw: st.DrawFn, value: Any) -> Any:
    """Somewhere inside: another value, one more, or none."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value)))
        if not draw(st.integers(0, 5)):
            return {name: inner for name, inner in value.items() if name != key}
        return {**value, key: draw(_value_changed(value[key]))}
    if isinstance(value, list) and value and draw(st.booleans()):
        return [draw(_value_changed(value[0])), *value[1:]]
    if isinstance(value, int | str) and not isinstance(value, bool) and draw(st.booleans()):
        return draw(st.integers(-(2**70), 2**70) | st.integers().map(str))
    return draw(json_values)
