"""A LiveKit Agents bot at the work of ``voice serve --scripted``; in an environment of its own.

LiveKit's own media server stands between a caller and an agent otherwise. Here it is left out,
in the agent's favour: each socket is one AgentSession with an audio input and output of its own
over a plain WebSocket, 16-bit audio in binary messages, with LiveKit's Silero plugin and scripted
models. Prints READY and its port.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import time
from typing import Any

import uvloop
from aiohttp import WSMsgType, web
from livekit import rtc
from livekit.agents import Agent, AgentSession, llm, stt, tts
from livekit.agents.voice import io
from livekit.plugins import silero

from loadtest.peers.script import HEARD, IN_RATE, OUT_RATE, PATH, SILENCE_S, TOKENS, speech

AHEAD_S = 0.2
"""As much as LiveKit's own audio source queues."""


class ScriptedStt(stt.STT):
    """Hears the same words whenever it is told that a turn is over: a stream without a VAD of its
    own, which would be a second one."""

    def __init__(self) -> None:
        can = stt.STTCapabilities(streaming=True, interim_results=False, manual_flush=True)
        super().__init__(capabilities=can)

    async def _recognize_impl(self, *_: Any, **__: Any) -> stt.SpeechEvent:
        raise NotImplementedError("it streams")

    def stream(self, *, conn_options: Any, **_: Any) -> stt.RecognizeStream:
        return ScriptedHearing(stt=self, conn_options=conn_options)


class ScriptedHearing(stt.RecognizeStream):
    """One caller's transcripts."""

    async def _run(self) -> None:
        async for heard in self._input_ch:
            if isinstance(heard, self._FlushSentinel):
                said = stt.SpeechData(language="en", text=HEARD)
                final = stt.SpeechEventType.FINAL_TRANSCRIPT
                self._event_ch.send_nowait(stt.SpeechEvent(final, alternatives=[said]))


class ScriptedLlm(llm.LLM):
    """Gives the same answer to everything, a word at a time."""

    def chat(self, *, chat_ctx: Any, conn_options: Any, **_: Any) -> llm.LLMStream:
        return ScriptedAnswer(self, chat_ctx=chat_ctx, tools=[], conn_options=conn_options)


class ScriptedAnswer(llm.LLMStream):
    """One answer."""

    async def _run(self) -> None:
        for token in TOKENS:
            await asyncio.sleep(0)
            delta = llm.ChoiceDelta(role="assistant", content=token)
            self._event_ch.send_nowait(llm.ChatChunk(id="scripted", delta=delta))


class ScriptedTts(tts.TTS):
    """Speaks a quiet tone."""

    def __init__(self) -> None:
        can = tts.TTSCapabilities(streaming=False)
        super().__init__(capabilities=can, sample_rate=OUT_RATE, num_channels=1)

    def synthesize(self, text: str, *, conn_options: Any = None) -> tts.ChunkedStream:
        return ScriptedSpeech(tts=self, input_text=text, conn_options=conn_options)


class ScriptedSpeech(tts.ChunkedStream):
    """One phrase."""

    async def _run(self, output_emitter: tts.AudioEmitter) -> None:
        output_emitter.initialize(
            request_id="scripted", sample_rate=OUT_RATE, num_channels=1, mime_type="audio/pcm"
        )
        for audio in speech(self._input_text):
            await asyncio.sleep(0)
            output_emitter.push(audio)


class SocketInput(io.AudioInput):
    """The caller's audio, a frame a message."""

    def __init__(self, frames: asyncio.Queue[bytes]) -> None:
        super().__init__(label="socket")
        self._frames = frames

    async def __anext__(self) -> rtc.AudioFrame:
        audio = await self._frames.get()
        return rtc.AudioFrame(audio, IN_RATE, 1, len(audio) // 2)


class SocketOutput(io.AudioOutput):
    """The agent's audio, in real time and at most AHEAD_S ahead of it."""

    def __init__(self, websocket: web.WebSocketResponse) -> None:
        can = io.AudioOutputCapabilities(pause=False)
        super().__init__(label="socket", capabilities=can, sample_rate=OUT_RATE)
        self._websocket = websocket
        self._frames: asyncio.Queue[rtc.AudioFrame | None] = asyncio.Queue()
        self._ends_at = self._pushed = 0.0

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        self._frames.put_nowait(frame)

    def flush(self) -> None:
        super().flush()
        self._frames.put_nowait(None)

    def clear_buffer(self) -> None:
        while not self._frames.empty():
            self._frames.get_nowait()
        if self._pushed:
            unheard = max(0.0, self._ends_at - time.monotonic())
            self._finish(self._pushed - unheard, interrupted=True)

    async def play(self) -> None:
        """Send what is captured, until cancelled."""
        while True:
            frame = await self._frames.get()
            if frame is None:
                await self._wait_until(self._ends_at)
                if self._pushed:
                    self._finish(self._pushed, interrupted=False)
                continue
            if not self._pushed:
                self.on_playback_started(created_at=time.time())
                self._ends_at = max(self._ends_at, time.monotonic())
            self._pushed += frame.duration
            self._ends_at += frame.duration
            await self._websocket.send_bytes(bytes(frame.data))
            await self._wait_until(self._ends_at - AHEAD_S)

    async def _wait_until(self, at: float) -> None:
        await asyncio.sleep(max(0.0, at - time.monotonic()))

    def _finish(self, position: float, *, interrupted: bool) -> None:
        self._pushed = 0.0
        self.on_playback_finished(playback_position=position, interrupted=interrupted)


async def talk(request: web.Request) -> web.WebSocketResponse:
    """One caller, from the handshake to the end."""
    websocket = web.WebSocketResponse(compress=False)
    await websocket.prepare(request)
    session: AgentSession[None] = AgentSession(
        vad=request.app[VAD],
        stt=ScriptedStt(),
        llm=ScriptedLlm(),
        tts=ScriptedTts(),
        turn_handling={
            "turn_detection": "vad",
            "endpointing": {"min_delay": 0.0, "max_delay": 1.0},
            "interruption": {"mode": "vad"},
        },
        user_away_timeout=None,
    )
    frames: asyncio.Queue[bytes] = asyncio.Queue()
    output = SocketOutput(websocket)
    session.input.audio, session.output.audio = SocketInput(frames), output
    await session.start(Agent(instructions="You are a scripted assistant."), record=False)
    playing = asyncio.create_task(output.play())
    async for message in websocket:
        if message.type is WSMsgType.BINARY:
            frames.put_nowait(message.data)
    playing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await playing
    await session.aclose()
    return websocket


VAD = web.AppKey("vad", silero.VAD)


async def serve() -> None:
    """Until the process is ended."""
    app = web.Application()
    app[VAD] = silero.VAD.load(min_silence_duration=SILENCE_S, min_speech_duration=0.064)
    app.router.add_get(PATH, talk)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    await web.SockSite(runner, listener).start()
    sys.stdout.write(f"READY http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main()
