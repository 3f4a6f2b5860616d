"""Words by other ways than clean speech: typed while somebody speaks, and such as are doubted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from engines.ports import AsrRequest, Transcript
from engines.scripted import AsrOptions, LlmOptions, ScriptedLlm, tokens_of

HEARD = AsrOptions().text
SHORT = ScriptedLlm(LlmOptions(script=tokens_of("Press one for sales."), item_delay_ms=5))
COMPLETED = "conversation.item.input_audio_transcription.completed"


async def test_what_is_typed_while_the_caller_speaks_leaves_the_turn_alone(serve: Any) -> None:
    server = await serve()
    async with server.call() as client:
        await client.speak(400)
        await client.until("input_audio_buffer.speech_started")
        await client.say("4")
        await client.speak(200)
        await client.say("2")
        await client.pause()
        await client.until("response.done")
    assert len(client.all("input_audio_buffer.committed")) == 1
    assert len(client.all("response.created")) == 1
    assert server.asr.requests[-1].pcm.duration_ms >= 600, "one turn, with no gap in it"
    said = [message.content for message in server.llm.requests[-1].messages[1:]]
    assert sorted(said) == sorted(["4", "2", HEARD])


async def test_digits_that_are_typed_while_the_agent_speaks_do_not_interrupt_it(serve: Any) -> None:
    slow = LlmOptions(script=tokens_of("Press one for sales, or two for anything else at all."))
    server = await serve(llm=ScriptedLlm(replace(slow, item_delay_ms=40)))
    async with server.call() as client:
        await client.send("response.create")
        await client.until("response.output_audio.delta")
        await client.say("1")
        done = await client.until("response.done")
        await client.send("response.create")
        await client.until("response.done")
    assert done["response"]["status"] == "completed"
    assert "1" in [message.content for message in server.llm.requests[-1].messages]


class Doubtful:
    """A recogniser that says why its words may not be what was said."""

    @asynccontextmanager
    async def open(self, request: AsrRequest) -> AsyncIterator[AsyncIterator[Transcript]]:
        del request
        yield self._hear()

    async def _hear(self) -> AsyncIterator[Transcript]:
        yield Transcript("Thank you for watching.", "en", suspicion="loop, unsure")


async def test_why_words_are_doubted_is_told_with_them_and_counted(serve: Any) -> None:
    server = await serve(asr=Doubtful(), llm=SHORT)
    async with server.call() as client:
        await client.take_turn()
        completed = await client.until(COMPLETED)
        await client.until("response.done")
        await client.take_turn()
        await client.until("response.done")
    assert completed["suspicion"] == "loop, unsure"
    doubts = server.house.metrics.doubts
    assert [doubts.labels(why)._value.get() for why in ("loop", "unsure")] == [2, 2]
    assert [request.prompt for request in server.asr.requests if request.prompt] == [], (
        "what may be made up is no hint for what comes next"
    )
