"""Reading carriers' JSON: numbers as they come, and complaints that say what came."""

import pytest
from msgspec import Struct

from voice.wire.phone import DigitPressed, PhoneWireError
from voice.wire.phone_json import (
    MOST_BYTES,
    Payload,
    decoder_of,
    out_of_turn,
    part,
    pressed,
    read,
    texts,
    write,
)


class Rate(Struct):
    rate: int


RATES = decoder_of(Rate)


@pytest.mark.parametrize("written", ['{"rate": 8000}', '{"rate": "8000", "new": []}'])
def test_numbers_come_as_numbers_or_as_text(written: str) -> None:
    assert read(RATES, written, "X") == Rate(8000)


@pytest.mark.parametrize(
    "written", ["", "{", "[]", '{"rate": "many"}', "{}", '{"rate": 1e999}', "\ud800", "[" * 10_000]
)
def test_anything_else_is_refused_by_name(written: str) -> None:
    with pytest.raises(PhoneWireError, match="Carrier sent what is no message"):
        read(RATES, written, "Carrier")


def test_binary_is_refused_with_where_to_point_the_carrier() -> None:
    with pytest.raises(PhoneWireError, match="/phone/NAME"):
        read(RATES, b"{}", "Carrier")


def test_a_message_without_end_is_not_read() -> None:
    with pytest.raises(PhoneWireError, match="is the most"):
        read(RATES, " " * (MOST_BYTES + 1), "Carrier")


def test_bytes_go_out_as_base64() -> None:
    assert write(Payload(b"\xff\x00")) == '{"payload":"/wA="}'


def test_what_an_event_must_bring_is_asked_for() -> None:
    assert part(0, "mark", "Carrier") == 0
    with pytest.raises(PhoneWireError, match="'mark' without"):
        part(None, "mark", "Carrier")


def test_what_came_and_what_should_have_are_both_told() -> None:
    assert "'media' where 'start'" in str(out_of_turn("media", "Carrier", "start"))


@pytest.mark.parametrize("key", "0123456789*#ABCD")
def test_sixteen_keys_are_known(key: str) -> None:
    assert pressed(key.lower()) == (DigitPressed(key),)


@pytest.mark.parametrize("other", ["", "E", "12", "flash", "١"])
def test_other_signals_are_no_keys(other: str) -> None:
    assert pressed(other) == ()


def test_parameters_are_text_whatever_they_were() -> None:
    assert texts({"a": "b", "n": 1, "deep": {"x": [None]}}) == {
        "a": "b",
        "n": "1",
        "deep": '{"x":[null]}',
    }
    assert texts(None) == {}
