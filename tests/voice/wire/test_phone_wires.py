"""Who it is that calls, by the first messages."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.voice.wire.phone_transcripts import TRANSCRIPTS
from voice.wire.phone import Message
from voice.wire.phone_wires import WIRES, detect


@pytest.mark.parametrize("name", sorted(set(WIRES) - {"freeswitch"}))
def test_each_carrier_is_known_by_two_messages(name: str) -> None:
    assert detect(TRANSCRIPTS[name][:2]) == name
    assert WIRES[name]().name == name


@pytest.mark.parametrize("name", ["twilio", "telnyx", "exotel"])
def test_a_greeting_that_three_share_does_not_tell(name: str) -> None:
    assert detect(TRANSCRIPTS[name][:1]) is None


@pytest.mark.parametrize("name", ["plivo", "vonage", "genesys", "asterisk"])
def test_some_tell_by_the_first(name: str) -> None:
    assert detect(TRANSCRIPTS[name][:1]) == name


def test_freeswitch_has_no_words_of_its_own_and_sends_audio() -> None:
    assert detect(TRANSCRIPTS["freeswitch"][:1]) is None
    assert detect(TRANSCRIPTS["freeswitch"][:2]) == "freeswitch"
    assert detect([b"\0\0"]) == "freeswitch"


def test_asterisk_in_plain_text() -> None:
    assert detect(["MEDIA_START connection_id:x format:ulaw optimal_frame_size:160"]) == "asterisk"


@pytest.mark.parametrize(
    "message",
    ["", "hello", "[]", "1", '{"event": "start"}', '{"event": "start", "start": {}}', "\ud800"],
)
def test_strangers_are_not_known(message: str) -> None:
    assert detect([message]) is None
    assert detect([]) is None


def test_a_start_with_half_of_the_names_is_a_strangers() -> None:
    assert detect([json.dumps({"event": "start", "start": {"streamSid": "MZ"}})]) is None


@given(messages=st.lists(st.text() | st.binary(), max_size=2))
def test_whatever_comes_is_told_or_not(messages: list[Message]) -> None:
    assert detect(messages) in (None, *WIRES)
