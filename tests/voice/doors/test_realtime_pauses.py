"""Replies that are cut in vain and what the agent says of itself, as a client is told of them."""

from typing import Any

from engines.ports import ToolCallDelta
from engines.scripted import AsrOptions, LlmOptions, ScriptedAsr, ScriptedLlm, tokens_of

LISTENING = ScriptedAsr(AsrOptions(text="Mm-hm."))
STORY = tokens_of("Once upon a time there was a server that liked to talk. " * 8)


async def interrupt_in_vain(client: Any, **response: Any) -> None:
    """Have a reply cut by what may turn out to be a sign of listening."""
    await client.send("response.create", response=response)
    await client.until("response.output_audio.delta")
    await client.speak(400)
    await client.until("response.done")


async def test_a_response_that_goes_on_is_what_was_asked_for(serve: Any) -> None:
    server = await serve(asr=LISTENING, llm=ScriptedLlm(LlmOptions(script=STORY)))
    async with server.call() as client:
        asked = {"metadata": {"topic": "fairy tale"}, "max_output_tokens": 1_000}
        await interrupt_in_vain(client, **asked)
        await client.update(output_modalities=["text"])
        await client.pause()
        goes_on = (await client.until("response.created"))["response"]
    assert goes_on["metadata"] == asked["metadata"]
    assert goes_on["max_output_tokens"] == asked["max_output_tokens"]
    assert goes_on["output_modalities"] == ["audio"]


async def test_a_client_that_cancels_what_is_paused_hears_no_more_of_it(serve: Any) -> None:
    server = await serve(asr=LISTENING, llm=ScriptedLlm(LlmOptions(script=STORY)))
    async with server.call() as client:
        await interrupt_in_vain(client)
        error = await client.refusal("response.cancel")
        await client.pause()
        await client.until("conversation.item.input_audio_transcription.completed")
        await client.say("a word, to be sure that nothing came before it")
    assert error["code"] == "response_cancel_not_active"
    assert len(client.all("response.created")) == 1


async def test_a_client_cancels_what_the_agent_says_of_itself(serve: Any) -> None:
    server = await serve("turns.idle_ms=1")
    async with server.call() as client:
        await client.until("response.output_audio.delta")
        (created,) = client.all("response.created")
        await client.send("response.cancel", response_id=created["response"]["id"])
        done = await client.until("response.done")
    assert done["response"]["status_details"]["reason"] == "client_cancelled"
    assert client.all("error") == []


async def test_what_the_server_does_itself_comes_before_no_item_of_the_client_s(serve: Any) -> None:
    call = ToolCallDelta(0, "call_1", "expect_answer", '{"kind": "digits"}')
    script = (*tokens_of("Your number, please?"), call)
    server = await serve("agent.tools=expect_answer", llm=ScriptedLlm(LlmOptions(script=script)))
    async with server.call() as client:
        await client.send("response.create")
        await client.until("response.done")
        await client.say("four two")
    first, second = client.all("conversation.item.added")
    assert second["previous_item_id"] == first["item"]["id"]


async def test_a_transcription_session_is_never_answered(serve: Any) -> None:
    server = await serve("turns.idle_ms=1", "turns.hang_up_ms=1")
    server.query = "intent=transcription"
    async with server.call() as client:
        await client.take_turn()
        await client.until("conversation.item.input_audio_transcription.completed")
        error = await client.refusal("response.create")
    assert "transcription" in error["message"]
    assert client.all("response.created") == []
