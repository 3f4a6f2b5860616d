"""Items keep the shape that the JavaScript SDK insists on: no nulls, constants always there."""

import json

import msgspec

from voice.wire.realtime_objects import (
    InputAudioContent,
    RealtimeFunctionCallItem,
    RealtimeItem,
    RealtimeMessageItem,
    RealtimeResponseUsage,
)


def test_an_item_names_its_object_and_leaves_out_what_is_absent() -> None:
    item = RealtimeMessageItem("user", [InputAudioContent()])
    assert json.loads(msgspec.json.encode(item)) == {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_audio"}],
        "object": "realtime.item",
    }


def test_items_are_told_apart_by_their_type() -> None:
    call = RealtimeFunctionCallItem("look_up", "{}")
    assert msgspec.json.decode(msgspec.json.encode(call), type=RealtimeItem) == call


def test_usage_spells_out_its_zeros() -> None:
    assert json.loads(msgspec.json.encode(RealtimeResponseUsage(5, 2, 3))) == {
        "total_tokens": 5,
        "input_tokens": 2,
        "output_tokens": 3,
        "input_token_details": {"text_tokens": 0, "audio_tokens": 0, "cached_tokens": 0},
        "output_token_details": {"text_tokens": 0, "audio_tokens": 0},
    }
