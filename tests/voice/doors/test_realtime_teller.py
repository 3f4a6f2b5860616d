"""What a client is told of its turns: the order of events, transcripts, interruptions."""

import asyncio
from typing import Any

import pytest

from engines.scripted import SENTENCES, AsrOptions, LlmOptions, ScriptedAsr, ScriptedLlm
from voice.doors.realtime_teller import RealtimeTeller

TEXT = "".join(SENTENCES)
HEARD = AsrOptions().text
HANGING = LlmOptions(hang_after=24)
"""A model that gives two sentences of its three, and then nothing more."""

END_OF_SPEECH = (
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "conversation.item.done",
    "response.output_item.done",
    "response.done",
    "rate_limits.updated",
)


async def test_the_events_of_a_spoken_turn_come_in_their_order(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        await client.take_turn()
        await client.until("rate_limits.updated")
    speaking = ["response.output_audio_transcript.delta", "response.output_audio.delta"]
    story = client.story
    first, last = story.index(speaking[0]), story.index("response.output_audio.done")
    assert story[:first] == [
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
        "response.output_item.added",
        "conversation.item.added",
        "response.content_part.added",
    ]
    assert story[first:last] == speaking * ((last - first) // 2)
    assert story[last:] == [
        *END_OF_SPEECH,
    ]
    ids = [event["event_id"] for event in client.events]
    assert len(set(ids)) == len(ids)


async def test_the_events_of_a_turn_name_the_same_things(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        await client.take_turn()
        response = (await client.until("response.done"))["response"]
    caller, agent = client.all("conversation.item.done")
    assert caller["item"]["role"] == "user"
    assert "previous_item_id" not in caller
    assert agent["previous_item_id"] == caller["item"]["id"]
    for kind in ("speech_started", "speech_stopped", "committed"):
        assert client.all(f"input_audio_buffer.{kind}")[0]["item_id"] == caller["item"]["id"]
    started = client.all("input_audio_buffer.speech_started")[0]["audio_start_ms"]
    stopped = client.all("input_audio_buffer.speech_stopped")[0]["audio_end_ms"]
    assert started == 0
    assert stopped == pytest.approx(600 + 500, abs=64)
    (transcript,) = client.all("conversation.item.input_audio_transcription.completed")
    assert transcript["transcript"] == HEARD
    assert transcript["usage"] == {"type": "duration", "seconds": pytest.approx(1.1, abs=0.1)}
    for event in client.events:
        if event["type"].startswith("response.output_audio"):
            assert event["response_id"] == response["id"]
            assert event["item_id"] == agent["item"]["id"]
            assert (event["output_index"], event["content_index"]) == (0, 0)
    (said,) = client.all("response.output_audio_transcript.done")
    assert said["transcript"] == TEXT
    assert response["output"] == [agent["item"]]
    assert response["output"][0]["content"] == [{"type": "output_audio", "transcript": TEXT}]
    assert len(client.audio) == 3 * 2 * 24_000


async def test_pieces_of_audio_are_short(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        await client.take_turn()
        await client.until("response.done")
    sizes = [len(event["delta"]) * 3 // 4 for event in client.all("response.output_audio.delta")]
    assert max(sizes) <= 200 * 48


async def test_an_interruption_cancels_the_response_and_not_one_sound_follows(serve: Any) -> None:
    server = await serve(llm=ScriptedLlm(HANGING))
    async with server.call() as client:
        await client.take_turn()
        while not client.all("response.output_audio.delta"):
            await client.next()
        await client.speak()
        done = await client.until("response.done")
        before = len(client.all("response.output_audio.delta"))
        await client.say("sync")
        after = len(client.all("response.output_audio.delta"))
    response = done["response"]
    assert response["status"] == "cancelled"
    assert response["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
    assert before == after
    since = client.story[::-1].index("input_audio_buffer.speech_started")
    assert client.story[-since:] == [
        *END_OF_SPEECH,
        "conversation.item.added",
        "conversation.item.done",
    ]
    (item,) = response["output"]
    assert item["status"] == "incomplete"


async def test_the_model_is_told_just_what_the_client_says_was_heard(serve: Any) -> None:
    server = await serve(llm=ScriptedLlm(HANGING))
    async with server.call() as client:
        await client.take_turn()
        while len(client.audio) < 2 * 24_000:
            await client.next()
        await client.speak()
        done = await client.until("response.done")
        item_id = done["response"]["output"][0]["id"]
        cut = {"item_id": item_id, "content_index": 0, "audio_end_ms": 500}
        await client.send("conversation.item.truncate", **cut)
        truncated = await client.until("conversation.item.truncated")
        await client.send("conversation.item.retrieve", item_id=item_id)
        shown = (await client.until("conversation.item.retrieved"))["item"]
        await client.take_turn()
        await client.until("response.created")
    assert {name: truncated[name] for name in cut} == cut
    asked = server.llm.requests[-1].messages
    (said,) = [message.content for message in asked if message.role == "assistant"]
    assert said == " ".join(TEXT.split()[: len(said.split())])
    assert 4 <= len(said.split()) <= 7  # half a second of twelve words a second
    assert shown["content"] == [{"type": "output_audio", "transcript": said}]
    assert shown["status"] == "incomplete"


async def test_who_may_not_interrupt_does_not(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        detection = {"type": "server_vad", "interrupt_response": False}
        await client.update(audio={"input": {"turn_detection": detection}})
        await client.take_turn()
        while not client.all("response.output_audio.delta"):
            await client.next()
        await client.take_turn()
        first = await client.until("response.done")
        second = await client.until("response.done")
    assert first["response"]["status"] == second["response"]["status"] == "completed"


async def test_without_transcription_the_words_are_not_told(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        session = await client.update(audio={"input": {"transcription": None}})
        await client.take_turn()
        await client.until("response.done")
    assert session["audio"]["input"]["transcription"] is None
    assert not [kind for kind in client.story if "transcription" in kind]
    assert server.llm.requests[-1].messages[-1].content == HEARD


async def test_a_turn_in_which_nothing_was_understood(serve: Any) -> None:
    server = await serve(asr=ScriptedAsr(AsrOptions(text="")))
    async with server.call() as client:
        await client.take_turn()
        kind = "conversation.item.input_audio_transcription.completed"
        assert (await client.until(kind))["transcript"] == ""
        await client.say("sync")
    assert not client.all("response.created")
    assert not client.all("conversation.item.input_audio_transcription.delta")


async def test_a_transcription_that_failed_is_told_of_and_the_next_turn_works(serve: Any) -> None:
    options = AsrOptions(fail_code="unavailable", fail_times=2)  # ahead, and at the end
    server = await serve(asr=ScriptedAsr(options))
    async with server.call() as client:
        await client.take_turn()
        failed = await client.until("conversation.item.input_audio_transcription.failed")
        await client.take_turn()
        done = await client.until("response.done")
    assert failed["error"]["code"] == "transcription_failed"
    assert "unset fail_code" in failed["error"]["message"]
    assert failed["item_id"] == client.all("input_audio_buffer.committed")[0]["item_id"]
    assert done["response"]["status"] == "completed"


async def test_a_transcription_session_only_writes_down(serve: Any) -> None:
    server = await serve()
    server.query = "intent=transcription"
    async with server.call() as client:
        await client.take_turn()
        done = await client.until("conversation.item.input_audio_transcription.completed")
        await client.say("sync")
    assert done["transcript"] == HEARD
    assert not client.all("response.created")
    assert server.llm.requests == []


async def test_a_caller_who_falls_silent_in_mid_word_is_answered(serve: Any) -> None:
    server = await serve("turns.stall_ms=50")
    async with server.call() as client:
        await client.speak()
        done = await client.until("response.done")
    assert done["response"]["status"] == "completed"


async def test_the_paused_caller_who_goes_on_gets_one_turn(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        for _ in range(3):
            await client.speak(300)
            await client.pause(300)
            await asyncio.sleep(0)
        await client.pause(400)
        await client.until("response.done")
    assert len(client.all("input_audio_buffer.speech_started")) == 1
    assert len(client.all("response.created")) == 1


def test_an_output_that_no_response_waits_for_is_passed_over() -> None:
    """A door may be told of the rest of a reply that it has ended already."""
    told: list[Any] = []

    class Outbox:
        put = staticmethod(lambda *args: told.append(args))
        take_back = staticmethod(lambda epoch: None)

    teller = RealtimeTeller(Outbox(), None, None, lambda kind: f"{kind}_1", lambda: None)
    teller.reply_began_item(None, None)
    teller.reply_said(None, None)
    teller.reply_called(None, None)
    teller.reply_finished(None, None)
    teller.reply_stopped(1, "turn_detected", None)
    assert teller.response_id is None
    assert told == []
