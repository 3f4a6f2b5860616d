"""What a client may ask for, what it is refused, and that its call goes on in any case."""

import base64
import json
from typing import Any

import numpy as np
import pytest

from engines.scripted import AsrOptions, LlmOptions, ScriptedAsr, ScriptedLlm
from pipelines.conversation.call import MOST_UNDETECTED_MS
from pipelines.conversation.patience import PROFILES
from voice.wire import g711

HEARD = AsrOptions().text
MANUAL = {"input": {"turn_detection": None}}


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


# --- the session ----------------------------------------------------------------------------


async def test_an_update_is_laid_over_the_session_and_echoed_whole(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        detection = {"type": "server_vad", "silence_duration_ms": 320}
        await client.update(instructions="Be kind.", audio={"output": {"voice": "mia"}})
        session = await client.update(audio={"input": {"turn_detection": detection}})
        await client.take_turn()
        await client.until("response.done")
    assert session["instructions"] == "Be kind."
    assert session["audio"]["output"]["voice"] == "mia"
    assert session["audio"]["input"]["turn_detection"] == {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 320,
        "idle_timeout_ms": None,
        "create_response": True,
        "interrupt_response": True,
    }
    assert session["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24_000}
    assert server.llm.requests[0].messages[0].content == "Be kind."
    assert server.tts.requests[0].voice == "mia"
    stopped = client.all("input_audio_buffer.speech_stopped")[0]["audio_end_ms"]
    assert stopped == pytest.approx(600 + 320, abs=64)


async def test_another_way_of_detecting_turns_replaces_the_first(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        detection = {"type": "semantic_vad", "eagerness": "low"}
        session = await client.update(audio={"input": {"turn_detection": detection}})
        await client.hear(b"")
        await client.take_turn()
        await client.pause(1_000)
        await client.until("response.done")
    assert session["audio"]["input"]["turn_detection"] == {
        **detection,
        "profile": None,
        "create_response": True,
        "interrupt_response": True,
    }
    stopped = client.all("input_audio_buffer.speech_stopped")[0]["audio_end_ms"]
    waits = PROFILES["patient"]
    assert 600 + waits.floor_ms - 64 <= stopped <= 600 + waits.ceiling_ms + 64


async def test_turns_that_are_not_to_be_answered_are_not(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        detection = {"type": "server_vad", "create_response": False}
        await client.update(audio={"input": {"turn_detection": detection}})
        await client.take_turn()
        await client.until("conversation.item.input_audio_transcription.completed")
        await client.say("sync")
        assert not client.all("response.created")
        await client.send("response.create")
        await client.until("response.done")


# --- turns by hand --------------------------------------------------------------------------


async def test_a_turn_by_hand(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        session = await client.update(audio=MANUAL)
        client.events.clear()
        await client.take_turn()
        await client.send("input_audio_buffer.commit")
        await client.until("conversation.item.input_audio_transcription.completed")
        await client.say("sync")
        story = client.story
        assert not client.all("response.created")
        await client.send("response.create")
        done = await client.until("response.done")
    assert session["audio"]["input"]["turn_detection"] is None
    assert story[:3] == [
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    assert done["response"]["status"] == "completed"
    contents = [message.content for message in server.llm.requests[0].messages]
    assert contents[1:] == [HEARD, "sync"]


async def test_audio_that_is_cleared_was_never_there(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        await client.update(audio=MANUAL)
        await client.speak()
        await client.send("input_audio_buffer.clear")
        await client.until("input_audio_buffer.cleared")
        error = await client.refusal("input_audio_buffer.commit", event_id="mine")
    assert error["code"] == "input_audio_buffer_commit_empty"
    assert error["event_id"] == "mine"
    assert server.asr.requests == []


async def test_more_audio_than_an_open_turn_may_hold_is_refused_once(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        await client.update(audio=MANUAL)
        quarter = base64_of(bytes(12_000))
        for _ in range(4 * MOST_UNDETECTED_MS // 1000 + 8):
            await client.send("input_audio_buffer.append", audio=quarter)
        await client.send("input_audio_buffer.commit")
        await client.until("input_audio_buffer.committed")
        await client.speak()
        await client.say("sync")
    (error,) = client.all("error")
    assert error["error"]["code"] == "input_audio_buffer_full"
    assert "120 s" in error["error"]["message"]
    assert server.asr.requests[0].pcm.duration_ms == MOST_UNDETECTED_MS


# --- formats --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "law"), [("audio/pcmu", "mulaw"), ("audio/pcma", "alaw")])
async def test_the_telephone_is_heard_and_spoken_to_in_its_own_code(
    serve: Any, name: str, law: g711.Law
) -> None:
    server = await serve()
    async with server.call() as client:
        form = {"format": {"type": name}}
        await client.update(audio={"input": form, "output": form})
        loud, quiet = np.full(8_000, 8_000, np.int16), np.zeros(5_600, np.int16)
        await client.hear(g711.encode(np.concatenate([loud, quiet]), law))
        await client.until("response.done")
    heard = server.asr.requests[0].pcm.samples
    assert np.median(heard[8_000:16_000]) == pytest.approx(8_000, rel=0.03)
    said = g711.decode(client.audio, law)
    assert len(said) == pytest.approx(3 * 8_000, abs=40)
    assert np.abs(said).max() == pytest.approx(0.05 * 32_767, rel=0.06)
    spectrum = np.abs(np.fft.rfft(said[:8_000]))
    assert np.argmax(spectrum) == 300  # the scripted voice's tone, at its own pitch


async def test_a_format_may_change_in_mid_call(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        await client.speak(310)
        await client.until("input_audio_buffer.speech_started")  # else it is not judged
        await client.update(audio={"input": {"format": {"type": "audio/pcmu"}}})
        await client.hear(g711.encode(np.zeros(8_000, np.int16), "mulaw"))
        done = await client.until("response.done")
        await client.update(audio={"input": {"format": {"type": "audio/pcm"}}})
        await client.take_turn()
        again = await client.until("response.done")
    assert done["response"]["status"] == again["response"]["status"] == "completed"


# --- items ----------------------------------------------------------------------------------


async def test_items_are_put_where_the_client_wants_them(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        await client.say("second", id="b")
        for item_id, after in (("a", "root"), ("c", "b"), ("d", None)):
            item = {"type": "message", "role": "user", "id": item_id,
                    "content": [{"type": "input_text", "text": item_id}]}  # fmt: skip
            place = {} if after is None else {"previous_item_id": after}
            await client.send("conversation.item.create", item=item, **place)
            await client.until("conversation.item.done")
        await client.send("response.create")
        await client.until("response.done")
    befores = [event.get("previous_item_id") for event in client.all("conversation.item.added")]
    assert befores[:4] == [None, None, "b", "c"]
    assert [message.content for message in server.llm.requests[0].messages[1:]] == [
        "a",
        "second",
        "c",
        "d",
    ]


async def test_an_item_can_be_seen_and_taken_out(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        item = await client.say("forget this", id="mine")
        await client.send("conversation.item.retrieve", item_id="mine")
        seen = (await client.until("conversation.item.retrieved"))["item"]
        await client.send("conversation.item.delete", item_id="mine")
        deleted = await client.until("conversation.item.deleted")
        error = await client.refusal("conversation.item.retrieve", item_id="mine", event_id="e1")
    assert seen == item
    assert deleted["item_id"] == "mine"
    assert error["code"] == "item_retrieve_invalid_item_id"
    assert (error["param"], error["event_id"]) == ("item_id", "e1")


@pytest.mark.parametrize(
    ("kind", "fields", "code", "param"),
    [
        ("conversation.item.delete", {"item_id": "x"}, "item_delete_invalid_item_id", "item_id"),
        (
            "conversation.item.truncate",
            {"item_id": "x", "content_index": 0, "audio_end_ms": 5},
            "item_truncate_invalid_item_id",
            "item_id",
        ),
        (
            "conversation.item.truncate",
            {"item_id": "known", "content_index": 0, "audio_end_ms": 5},
            "invalid_value",
            "item_id",
        ),
        (
            "conversation.item.create",
            {"item": {"type": "message", "role": "user", "content": []}, "previous_item_id": "x"},
            "item_create_invalid_item_id",
            "previous_item_id",
        ),
        (
            "conversation.item.create",
            {"item": {"type": "message", "role": "user", "content": [], "id": "known"}},
            "item_create_duplicate_item_id",
            "item.id",
        ),
    ],
)
async def test_items_that_are_not_there_or_there_already(
    serve: Any, kind: str, fields: dict[str, Any], code: str, param: str
) -> None:
    server = await serve()
    async with server.call() as client:
        await client.say("hello", id="known")
        error = await client.refusal(kind, event_id="mine", **fields)
        await client.say("the call goes on")
    assert (error["code"], error["param"], error["event_id"]) == (code, param, "mine")
    assert error["type"] == "invalid_request_error"


async def test_a_cut_beyond_the_end_is_no_cut(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        await client.send("response.create")
        item = (await client.until("response.done"))["response"]["output"][0]
        cut = {"item_id": item["id"], "content_index": 0, "audio_end_ms": 99_999}
        await client.send("conversation.item.truncate", **cut)
        await client.until("conversation.item.truncated")
        await client.send("conversation.item.retrieve", item_id=item["id"])
        seen = (await client.until("conversation.item.retrieved"))["item"]
    assert seen == item


# --- what cannot be taken -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "code", "param", "event_id"),
    [
        ("{not json", "invalid_json", None, None),
        (b"\x00\xff\x12 binary", "invalid_json", None, None),
        ("[]", "invalid_type", None, None),
        ("{}", "missing_required_parameter", "type", None),
        ('{"type":"make.coffee","event_id":"e"}', "invalid_value", "type", "e"),
        ('{"type":5}', "invalid_type", "type", None),
        ('{"type":"input_audio_buffer.append"}', "missing_required_parameter", "audio", None),
        ('{"type":"input_audio_buffer.append","audio":5}', "invalid_type", "audio", None),
        ('{"type":"input_audio_buffer.append","audio":"?!","event_id":"e"}', "invalid_audio",
         "audio", "e"),
        ('{"type":"input_audio_buffer.append","audio":"AAAA","event_id":"e"}', "invalid_audio",
         "audio", "e"),
        ('{"type":"session.update","session":{"audio":{"input":{"format":{"type":"mp3"}}}}}',
         "invalid_value", "session.audio.input.format.type", None),
        ('{"type":"session.update","session":{"instructions":7},"event_id":"e"}', "invalid_type",
         "session.instructions", "e"),
        ('{"type":"session.update"}', "missing_required_parameter", "session", None),
        ('{"type":"conversation.item.create","item":{"type":"message","role":"user","content":'
         '[{"type":"input_image","image_url":"data:"}]},"event_id":"e"}', "invalid_value",
         "item.content[0].image_url", "e"),
        ('{"type":"conversation.item.create","item":{"type":"message","role":"user","content":'
         '[{"type":"input_audio","audio":"AAAA"}]}}', "invalid_value", "item.content[0]", None),
        ('{"type":"response.create","response":{"input":[{"type":"item_reference","id":"x"}]}}',
         "item_reference_invalid_item_id", "response.input[0].id", None),
        ('{"type":"response.create","response":{"input":[],"instructions":""},"event_id":"e"}',
         "invalid_value", "response.input", "e"),
        ('{"type":"output_audio_buffer.clear","event_id":"e"}', "invalid_value", "type", "e"),
        ('{"type":"conversation.item.truncate","item_id":"x","content_index":0,'
         '"audio_end_ms":-5}', "invalid_value", "audio_end_ms", None),
    ],
)  # fmt: skip
async def test_what_cannot_be_taken_is_refused_and_the_call_goes_on(
    serve: Any, message: str | bytes, code: str, param: str | None, event_id: str | None
) -> None:
    server = await serve()
    async with server.call() as client:
        await client.socket.send(message)
        error = (await client.until("error"))["error"]
        await client.say("the call goes on")
    assert error["type"] == "invalid_request_error"
    assert (error["code"], error.get("param"), error.get("event_id")) == (code, param, event_id)
    assert error["message"]
    assert len(client.all("error")) == 1


async def test_a_client_that_makes_every_mistake_disturbs_no_other(serve: Any) -> None:
    server = await serve()
    async with server.call() as healthy, server.call() as client:
        for message in (b"\x00\xff", "[]", "{}", '{"type":"input_audio_buffer.append"}') * 50:
            await client.socket.send(message)
        await healthy.take_turn()
        done = await healthy.until("response.done")
        while len(client.all("error")) < 200:
            await client.next()
        await client.take_turn()
        await client.until("response.done")
    assert done["response"]["status"] == "completed"
    assert healthy.all("error") == []


async def test_a_message_in_fragments_and_one_in_bytes_are_taken(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        text = json.dumps({"type": "conversation.item.retrieve", "item_id": "none"})
        await client.socket.send([text[:10], text[10:20], text[20:]])
        first = await client.until("error")
        await client.socket.send(text.encode())
        second = await client.until("error")
    assert first["error"]["code"] == second["error"]["code"] == "item_retrieve_invalid_item_id"


async def test_audio_may_come_before_any_session_update(serve: Any) -> None:
    server = await serve()
    await server.assert_works()


async def test_silence_is_no_turn(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        await client.pause(5_000)
        await client.say("sync")
    assert client.story == ["conversation.item.added", "conversation.item.done"]
    assert server.asr.requests == []


async def test_noise_without_end_is_cut_into_turns(serve: Any) -> None:
    """However long it lasts: a turn has a longest length."""
    server = await serve("turns.endpoint.max_turn_ms=2000", asr=ScriptedAsr(AsrOptions(text="")))
    noise = np.random.default_rng(4).integers(-20_000, 20_000, 24_000 * 7, "<i2").tobytes()
    async with server.call() as client:
        await client.hear(noise)
        for _ in range(3):
            await client.until("conversation.item.input_audio_transcription.completed")
        await client.say("sync")
    lengths = [request.pcm.duration_ms for request in server.asr.requests]
    assert max(lengths) <= 2_500
    assert not client.all("response.created")


async def test_audio_of_the_wrong_rate_is_heard_for_what_it_says_it_is(serve: Any) -> None:
    """8 kHz sent as 24 kHz: three times too fast, and no harm done."""
    server = await serve()
    async with server.call() as client:
        await client.hear(np.full(8_000, 8_000, "<i2").tobytes())  # a second, taken for a third
        await client.hear(bytes(2 * 24_000))
        await client.until("response.done")
    assert server.asr.requests[0].pcm.duration_ms == pytest.approx(333 + 300, abs=250)


async def test_audio_far_faster_than_it_can_be_heard_is_refused(serve: Any) -> None:
    server = await serve()
    async with server.call() as healthy, server.call() as client:
        minute = base64_of(bytes(2 * 24_000 * 61))
        error = await client.refusal("input_audio_buffer.append", audio=minute, event_id="mine")
        await client.take_turn()
        done = await client.until("response.done")
        await healthy.take_turn()
        await healthy.until("response.done")
    assert (error["code"], error["param"]) == ("input_audio_buffer_full", "audio")
    assert error["event_id"] == "mine"
    assert "real time" in error["message"]
    assert done["response"]["status"] == "completed"


async def test_a_mistake_during_a_response_does_not_disturb_it(serve: Any) -> None:
    server = await serve(llm=ScriptedLlm(LlmOptions(item_delay_ms=2)))
    async with server.call() as client:
        await client.send("response.create")
        await client.until("response.output_audio.delta")
        await client.socket.send("nonsense")
        await client.until("error")
        done = await client.until("response.done")
    assert done["response"]["status"] == "completed"
    assert len(client.audio) == 3 * 2 * 24_000
