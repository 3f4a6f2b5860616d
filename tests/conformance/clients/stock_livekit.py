"""livekit-plugins-openai: its RealtimeModel, as an AgentSession drives it."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from livekit import rtc
from livekit.agents import llm, stt
from livekit.agents.utils import http_context
from livekit.plugins import openai
from steps import (
    ANSWER,
    HEARD,
    HTTP,
    KEY,
    MODEL,
    RATE,
    STORY,
    TYPED,
    WEATHER,
    Microphone,
    Noted,
    check,
    main,
    speech,
    step,
)


@llm.function_tool
async def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


class Generation:
    """A reply that is read as it comes."""

    def __init__(self, event: Any) -> None:
        self._event = event
        self.message_id = ""
        self.text = ""
        self.audio_ms = 0.0
        self.sounded = asyncio.Event()
        self.calls: list[Any] = []
        self.read = asyncio.create_task(self._read())

    async def _read(self) -> None:
        await asyncio.gather(self._messages(), self._functions())

    async def _messages(self) -> None:
        async for message in self._event.message_stream:
            self.message_id = message.message_id
            await asyncio.gather(self._words(message), self._sound(message))

    async def _words(self, message: Any) -> None:
        async for text in message.text_stream:
            self.text += str(text)

    async def _sound(self, message: Any) -> None:
        async for frame in message.audio_stream:
            self.audio_ms += frame.duration * 1000
            self.sounded.set()

    async def _functions(self) -> None:
        async for call in self._event.function_stream:
            self.calls.append(call)


class Caller:
    """A session, and what it tells."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.noted = Noted()
        for kind in ("input_speech_started", "generation_created", "error",
                     "input_audio_transcription_completed"):  # fmt: skip
            session.on(kind, lambda event, kind=kind: self.noted.add(kind, event))
        session.on("openai_server_event_received", lambda e: self.noted.add(e["type"], e))

    async def send(self, audio: bytes) -> None:
        self.session.push_audio(rtc.AudioFrame(audio, RATE, 1, len(audio) // 2))

    async def reply(self) -> Generation:
        async with asyncio.timeout(20):
            return Generation(await self.session.generate_reply())

    async def ask(self, text: str) -> Generation:
        context = self.session.chat_ctx.copy()
        context.add_message(role="user", content=text)
        await self.session.update_chat_ctx(context)
        return await self.reply()


async def spoken_turn(caller: Caller, microphone: Microphone) -> None:
    session, noted = caller.session, caller.noted
    with step("spoken turn") as told:
        await session.update_instructions("Be brief.")
        await session.update_tools([weather])
        mark = noted.mark()
        microphone.say(speech())
        words = await noted.wait("input_audio_transcription_completed", mark)
        while not words.is_final:
            words = await noted.wait("input_audio_transcription_completed", noted.mark())
        check(words.transcript == HEARD, f"heard {words.transcript!r}")
        heard = Generation(await noted.wait("generation_created", mark))
        async with asyncio.timeout(20):
            await heard.read
        check(heard.text == ANSWER, f"said {heard.text!r}")
        check(heard.audio_ms > 500, f"{heard.audio_ms} ms of audio")
        told.append(f"{heard.audio_ms:.0f} ms of audio")


async def barge_in(caller: Caller, microphone: Microphone) -> None:
    session, noted = caller.session, caller.noted
    with step("barge-in") as told:
        mark = noted.mark()
        story = await caller.ask(STORY)
        async with asyncio.timeout(20):
            await story.sounded.wait()
        await asyncio.sleep(0.8)
        microphone.say(speech())
        await noted.wait("input_speech_started", mark)
        session.interrupt()
        session.truncate(message_id=story.message_id, modalities=["audio"], audio_end_ms=800)
        cut = await noted.wait("conversation.item.truncated", mark)
        check(cut["audio_end_ms"] == 800, f"{cut}")
        async with asyncio.timeout(20):
            await story.read
        done = await noted.wait("response.done", mark)
        check(done["response"]["status"] == "cancelled", done["response"]["status"])
        await noted.wait("response.done", mark, count=2)
        told.append(f"{story.audio_ms:.0f} ms of audio came")


async def tool_call(caller: Caller) -> None:
    session = caller.session
    with step("tool call") as told:
        asked = await caller.ask(WEATHER)
        async with asyncio.timeout(20):
            await asked.read
        check(len(asked.calls) == 1, f"{asked.calls}")
        call = asked.calls[0]
        context = session.chat_ctx.copy()
        context.items.append(
            llm.FunctionCallOutput(
                call_id=call.call_id, name=call.name, output="rain in Bergen", is_error=False
            )
        )
        await session.update_chat_ctx(context)
        answer = await caller.reply()
        async with asyncio.timeout(20):
            await answer.read
        check("rain in Bergen" in answer.text, answer.text)
        told.append(answer.text)


async def text_turn(caller: Caller) -> None:
    with step("text turn"):
        typed = await caller.ask(TYPED)
        async with asyncio.timeout(20):
            await typed.read
        check(typed.text == ANSWER, f"said {typed.text!r}")
        errors = [e for e in caller.noted.since(0, "error") if not _is_late_cancel(e)]
        check(not errors, f"{errors}")


async def run() -> None:
    async with aiohttp.ClientSession() as http:
        model = openai.realtime.RealtimeModel(
            base_url=f"{HTTP}/v1", api_key=KEY, model=MODEL, http_session=http
        )
        caller = Caller(model.session())
        microphone = Microphone(caller.send)
        sending = asyncio.create_task(microphone.run())
        await spoken_turn(caller, microphone)
        await barge_in(caller, microphone)
        await tool_call(caller)
        await text_turn(caller)
        sending.cancel()
        await caller.session.aclose()
    await transcription()


async def transcription() -> None:
    """By its speech recogniser, which has a session of its own kind."""
    async with http_context.open():
        with step("transcription") as told:
            hearing = openai.STT(base_url=f"{HTTP}/v1", api_key=KEY, use_realtime=True)
            stream = hearing.stream()

            async def send(audio: bytes) -> None:
                stream.push_frame(rtc.AudioFrame(audio, RATE, 1, len(audio) // 2))

            microphone = Microphone(send)
            sending = asyncio.create_task(microphone.run())
            microphone.say(speech())
            async with asyncio.timeout(20):
                async for event in stream:
                    if event.type is stt.SpeechEventType.FINAL_TRANSCRIPT:
                        break
            heard = event.alternatives[0].text
            check(heard == HEARD, f"heard {heard!r}")
            told.append(heard)
            sending.cancel()
            await stream.aclose()
            await hearing.aclose()


def _is_late_cancel(event: Any) -> bool:
    """The server had stopped the reply before it was asked to, and the plug-in knows that."""
    return isinstance(event, dict) and event["error"]["code"] == "response_cancel_not_active"


main(run)
