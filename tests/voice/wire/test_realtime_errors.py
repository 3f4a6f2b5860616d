"""How msgspec's complaints become Realtime errors."""

import msgspec
import pytest

from voice.wire.realtime_errors import WireError, convert, wire_error


class Inner(msgspec.Struct, tag="inner"):
    count: int


class Outer(msgspec.Struct):
    inner: list[Inner]


def test_paths_are_joined() -> None:
    with pytest.raises(WireError) as caught:
        convert({"inner": [{"type": "inner", "count": "x"}]}, Outer, "session")
    assert caught.value.code == "invalid_type"
    assert caught.value.param == "session.inner[0].count"
    assert caught.value.message.endswith(": expected an integer, got a string.")


def test_a_path_goes_on_within_a_list() -> None:
    with pytest.raises(WireError) as caught:
        convert([{"type": "inner", "count": "x"}], list[Inner], "response.tools")
    assert caught.value.param == "response.tools[0].count"


def test_sound_that_is_no_base64_is_told_as_sound() -> None:
    with pytest.raises(WireError) as caught:
        convert("é", bytes, "audio")
    assert (caught.value.code, caught.value.param) == ("invalid_audio", "audio")


def test_a_missing_field_ends_the_path() -> None:
    with pytest.raises(WireError) as caught:
        convert({"inner": [{"type": "inner"}]}, Outer, "session")
    assert caught.value.param == "session.inner[0].count"
    assert caught.value.code == "missing_required_parameter"


def test_a_fitting_value_is_converted() -> None:
    assert convert({"inner": []}, Outer, "session") == Outer([])


def test_choices_follow_a_wrong_tag() -> None:
    error = wire_error(msgspec.ValidationError("Invalid value 'x' - at `$.item.type`"))
    assert error.param == "item.type"
    assert "function_call_output" in error.message


def test_no_choices_follow_a_place_that_has_none() -> None:
    error = wire_error(msgspec.ValidationError("Invalid enum value 'x' - at `$.whatever`"))
    assert error.message == "Invalid value for 'whatever': invalid enum value 'x'."


def test_a_message_without_a_path_is_about_the_whole() -> None:
    error = wire_error(msgspec.ValidationError("Expected `object`, got `int`"), event_id="mine")
    assert (error.param, error.event_id) == (None, "mine")
    assert "the message" in error.message


def test_malformed_and_too_deep_are_one_code() -> None:
    assert wire_error(msgspec.DecodeError("broken")).code == "invalid_json"
    assert wire_error(RecursionError("deep")).code == "invalid_json"
