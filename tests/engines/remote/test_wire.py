"""What travels between a gateway and an engine process, and what does not."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.audio import Mark, Pcm
from engines.ports import (
    AsrRequest,
    ChatRequest,
    Load,
    Message,
    Priority,
    Segment,
    SpeechRequest,
    TextDelta,
    Tool,
    ToolCall,
    ToolCallDelta,
    Transcript,
    Usage,
    Word,
)
from engines.remote import wire


def across(message, read=wire.read_engine):
    (arrived,) = read(wire.pack([wire.encode(message)]))
    assert type(arrived) is type(message)
    return arrived


@pytest.mark.parametrize(
    "item",
    [
        TextDelta("naïve 🙂"),
        ToolCallDelta(1, "id", "name", '{"a": 1}'),
        Usage(1, 2, 3, "length"),
        Transcript("hi", "en", (Segment("hi", 0, 900, -0.1, 0.2, 1.5), Segment("", 1, 2)), "loop"),
        Transcript("hi", "en", (Segment("hi", 0, 9, words=(Word("hi", 1, 8, 0.5),)),)),
    ],
)
def test_an_item_arrives_as_it_was(item):
    arrived = across(wire.item_of(7, item))
    kind = "asr" if isinstance(item, Transcript) else "llm"
    assert (arrived.request, wire.item_in(kind, arrived)) == (7, item)


@pytest.mark.parametrize(
    ("kind", "request_"),
    [
        ("tts", SpeechRequest("Hello.", "tara", 1.1, Priority.SPECULATIVE, "call-1")),
        (
            "llm",
            ChatRequest(
                (
                    Message("user", "Time?"),
                    Message("assistant", "", (ToolCall("1", "clock", "{}"),)),
                    Message("tool", "noon", tool_call_id="1"),
                ),
                (Tool("clock", "tells", {"type": "object", "properties": {"zone": {}}}),),
                "clock",
                100,
                1,
                call="call-2",
            ),
        ),
    ],
)
def test_a_request_arrives_as_it_was(kind, request_):
    arrived = across(wire.request_of(kind, 3, request_), wire.read_gateway)
    assert (arrived.request, arrived.credits) == (3, wire.CREDITS[kind])
    assert wire.request_in(kind, arrived) == request_


@pytest.mark.parametrize(
    "samples",
    [
        np.arange(-5, 5, dtype=np.int16),
        np.arange(20, dtype=np.int16)[::2],
        np.arange(5, dtype=">i2"),
        np.zeros(0, np.int16),
    ],
)
def test_samples_arrive_bit_for_bit(samples):
    spoken = wire.item_in("tts", across(wire.item_of(1, Pcm(samples, 24_000))))
    assert (spoken.samples.tolist(), spoken.rate) == (samples.tolist(), 24_000)
    assert spoken.samples.dtype == np.int16
    asked = wire.request_of("asr", 1, AsrRequest(Pcm(samples, 16_000), word_times=True))
    heard = wire.request_in("asr", across(asked, wire.read_gateway))
    assert heard.word_times
    assert heard.pcm.samples.tolist() == samples.tolist()


def test_the_marks_of_words_arrive_with_their_samples():
    marks = (Mark(3, 12.5), Mark(7, 40.0))
    arrived = across(wire.item_of(1, Pcm(np.zeros(9, np.int16), 24_000, marks)))
    assert wire.item_in("tts", arrived).marks == marks


def test_samples_are_bytes_on_the_wire_and_not_text():
    packet = wire.encode(wire.item_of(1, Pcm(np.zeros(1000, np.int16), 24_000)))
    assert len(packet) < 2100


def test_the_numbers_of_a_model_travel_whatever_their_type():
    segment = Segment("a", 0, 1, np.float64(-0.5), np.float32(0.25))
    arrived = across(wire.item_of(1, Transcript("a", None, (segment,))))
    (arrived,) = wire.item_in("asr", arrived).segments
    assert (arrived.avg_logprob, arrived.no_speech_prob) == (-0.5, 0.25)


@pytest.mark.parametrize("text", ["\ud800 lone", 1j, {1: object()}])
def test_what_cannot_travel_says_so(text):
    with pytest.raises(ValueError, match=r"surrogate|cannot travel"):
        wire.request_of("tts", 1, SpeechRequest(text))


@given(st.integers(0, 40))
def test_a_packet_holds_any_number_of_messages_in_order(count):
    messages = [wire.End(number) for number in range(count)]
    packet = wire.pack([wire.encode(message) for message in messages])
    assert wire.read_engine(packet) == messages


@given(st.binary(max_size=60) | st.builds(lambda tail: b"\x91\x93\xa4Open" + tail, st.binary()))
def test_nonsense_is_unreadable_and_nothing_worse(packet):
    try:
        messages = wire.read_gateway(packet)
    except wire.Unreadable as error:
        assert f"protocol {wire.VERSION}" in str(error)
    else:
        assert all(isinstance(message, wire.Hello | wire.Alive) for message in messages)


def test_a_message_of_the_other_side_is_unreadable():
    with pytest.raises(wire.Unreadable):
        wire.read_gateway(wire.pack([wire.encode(wire.End(1))]))


@pytest.mark.parametrize("samples", [b"abc", "AAAA", [1, 2], None])
def test_samples_that_are_none_are_unreadable(samples):
    pcm = msgspec.Raw(msgspec.msgpack.encode({"samples": samples, "rate": 16_000}))
    with pytest.raises(wire.Unreadable):
        wire.item_in("tts", wire.Item(1, pcm))


def test_a_request_of_another_kind_is_unreadable():
    chat = wire.request_of("llm", 1, ChatRequest(()))
    with pytest.raises(wire.Unreadable, match="text"):
        wire.request_in("tts", across(chat, wire.read_gateway))


def test_a_value_of_the_wrong_type_is_unreadable_and_its_packet_is_not():
    chat = wire.request_of("llm", 1, ChatRequest((), temperature="hot"))
    arrived = across(chat, wire.read_gateway)
    with pytest.raises(wire.Unreadable, match="temperature"):
        wire.request_in("llm", arrived)


def test_a_hello_of_a_later_protocol_can_still_be_read():
    later = msgspec.msgpack.encode([["Hello", 9, "tts", "gateway", {"more": 1}]])
    assert wire.read_gateway(later) == [wire.Hello(9, "tts", "gateway")]


def test_a_beat_carries_the_load():
    beat = wire.Beat(Load(8, 3, 2, 4, 12.5, 1), 2, 0.0)
    assert across(beat) == beat
