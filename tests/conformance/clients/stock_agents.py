"""openai-agents (Python): RealtimeRunner, which cuts, calls tools and answers by itself."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import function_tool, set_tracing_disabled
from agents.realtime import RealtimeAgent, RealtimeRunner
from steps import (
    ANSWER,
    HEARD,
    KEY,
    MODEL,
    STORY,
    TYPED,
    WEATHER,
    WS,
    Microphone,
    Noted,
    check,
    main,
    speech,
    step,
)


@function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


async def listen(session: Any, noted: Noted) -> None:
    async for event in session:
        if event.type != "raw_model_event":
            noted.add(event.type, event)
        elif event.data.type == "raw_server_event":
            noted.add(event.data.data["type"], event.data.data)


def transcript_of(done: dict[str, Any]) -> str:
    return str(done["response"]["output"][0]["content"][0]["transcript"])


async def run() -> None:
    set_tracing_disabled(True)
    agent = RealtimeAgent(name="caller", instructions="Be brief.", tools=[weather])
    runner = RealtimeRunner(agent)
    config = {"url": f"{WS}/v1/realtime?model={MODEL}", "api_key": KEY}
    session = await runner.run(model_config=config)  # type: ignore[arg-type]
    async with session:
        noted = Noted()
        microphone = Microphone(session.send_audio)
        tasks = [asyncio.create_task(each) for each in (listen(session, noted), microphone.run())]
        with step("spoken turn") as told:
            mark = noted.mark()
            microphone.say(speech())
            words = await noted.wait("conversation.item.input_audio_transcription.completed", mark)
            check(words["transcript"] == HEARD, f"heard {words['transcript']!r}")
            await noted.wait("audio", mark)
            await noted.wait("audio_end", mark)
            done = await noted.wait("response.done", mark)
            told.append(transcript_of(done))
        with step("barge-in") as told:
            mark = noted.mark()
            await session.send_message(STORY)
            await noted.wait("audio", mark)
            await asyncio.sleep(0.8)
            microphone.say(speech())
            await noted.wait("audio_interrupted", mark)
            cut = await noted.wait("conversation.item.truncated", mark)
            check(0 < cut["audio_end_ms"] < 12_000, f"cut at {cut['audio_end_ms']}")
            done = await noted.wait("response.done", mark)
            check(done["response"]["status"] == "cancelled", f"{done['response']['status']}")
            await noted.wait("response.done", mark, count=2)
            told.append(f"cut at {cut['audio_end_ms']} ms")
        with step("tool call") as told:
            mark = noted.mark()
            await session.send_message(WEATHER)
            end = await noted.wait("tool_end", mark)
            check("rain in Bergen" in str(end.output), f"{end.output}")
            await noted.wait("response.done", mark, count=2)
            told.append(transcript_of(noted.since(mark, "response.done")[-1]))
            check("rain in Bergen" in told[0], told[0])
            check(len(noted.since(mark, "tool_end")) == 1, "the tool ran more than once")
        with step("text turn") as told:
            mark = noted.mark()
            await session.send_message(TYPED)
            said = transcript_of(await noted.wait("response.done", mark))
            check(said == ANSWER, f"said {said!r}")
            errors = [event.error for event in noted.since(0, "error") if hasattr(event, "error")]
            check(not errors, f"{errors}")
        for task in tasks:
            task.cancel()


main(run)
