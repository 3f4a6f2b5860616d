"""A pipecat bot at the work of ``voice serve --scripted``; runs in an environment of its own.

Its wire is as plain as can be, 16-bit audio in binary messages; each socket is a pipeline of
pipecat's usual shape on its own websocket transport, with its Silero analyser and scripted
services. Prints READY and its port.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator
from dataclasses import fields

import uvicorn
from fastapi import FastAPI, WebSocket
from loguru import logger
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.audio.vad.vad_analyzer import VADParams
from pipecat.frames.frames import (
    Frame,
    InputAudioRawFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    OutputAudioRawFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection
from pipecat.serializers.base_serializer import FrameSerializer
from pipecat.services.llm_service import LLMService
from pipecat.services.settings import LLMSettings, STTSettings, TTSSettings
from pipecat.services.stt_service import SegmentedSTTService
from pipecat.services.tts_service import TTSService
from pipecat.transports.websocket.fastapi import (
    FastAPIWebsocketParams,
    FastAPIWebsocketTransport,
)
from pipecat.turns.user_start import VADUserTurnStartStrategy
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.utils.time import time_now_iso8601
from pipecat.workers.runner import WorkerRunner

from loadtest.peers.script import HEARD, IN_RATE, OUT_RATE, PATH, SILENCE_S, TOKENS, speech


class PlainAudio(FrameSerializer):
    """Binary messages are audio, and nothing else goes over the wire."""

    async def serialize(self, frame: Frame) -> bytes | None:
        return frame.audio if isinstance(frame, OutputAudioRawFrame) else None

    async def deserialize(self, data: str | bytes) -> Frame | None:
        if isinstance(data, bytes):
            return InputAudioRawFrame(audio=data, sample_rate=IN_RATE, num_channels=1)
        return None


class ScriptedStt(SegmentedSTTService):
    """Hears the same words in every segment."""

    @property
    def wants_wav_segments(self) -> bool:
        return False

    async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame, None]:  # noqa: ARG002
        await asyncio.sleep(0)
        yield TranscriptionFrame(HEARD, "caller", time_now_iso8601())


class ScriptedLlm(LLMService):
    """Gives the same answer to everything, a word at a time."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if not isinstance(frame, LLMContextFrame):
            await self.push_frame(frame, direction)
            return
        await self.push_frame(LLMFullResponseStartFrame())
        for token in TOKENS:
            await asyncio.sleep(0)
            await self._push_llm_text(token)
        await self.push_frame(LLMFullResponseEndFrame())


class ScriptedTts(TTSService):
    """Speaks a quiet tone."""

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame, None]:
        for audio in speech(text):
            await asyncio.sleep(0)
            yield TTSAudioRawFrame(audio, OUT_RATE, 1, context_id=context_id)


async def talk(websocket: WebSocket) -> None:
    """One caller, from the handshake to the end."""
    await websocket.accept()
    params = FastAPIWebsocketParams(
        audio_in_enabled=True, audio_out_enabled=True, serializer=PlainAudio()
    )
    transport = FastAPIWebsocketTransport(websocket=websocket, params=params)
    vad = SileroVADAnalyzer(params=VADParams(start_secs=0.064, stop_secs=SILENCE_S, min_volume=0))
    turns = UserTurnStrategies(
        start=[VADUserTurnStartStrategy()],
        stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0)],
    )
    aggregators = LLMContextAggregatorPair(
        LLMContext([{"role": "system", "content": "You are a scripted assistant."}]),
        user_params=LLMUserAggregatorParams(vad_analyzer=vad, user_turn_strategies=turns),
    )
    pipeline = Pipeline(
        [
            transport.input(),
            ScriptedStt(settings=STTSettings(model=None, language=None)),
            aggregators.user(),
            ScriptedLlm(settings=_no_llm_settings()),
            ScriptedTts(
                push_start_frame=True,
                push_stop_frames=True,
                settings=TTSSettings(model=None, voice=None, language=None),
            ),
            transport.output(),
            aggregators.assistant(),
        ]
    )
    rates = PipelineParams(audio_in_sample_rate=IN_RATE, audio_out_sample_rate=OUT_RATE)
    worker = PipelineWorker(pipeline, params=rates)

    @transport.event_handler("on_client_disconnected")
    async def hang_up(*_: object) -> None:
        await worker.cancel()

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    await runner.run()


def _no_llm_settings() -> LLMSettings:
    """All of them, since pipecat refuses a service with one that is not given."""
    names = [field.name for field in fields(LLMSettings) if field.name != "extra"]
    return LLMSettings(**dict.fromkeys(names))


def main() -> None:
    logger.remove()
    logger.add(sys.stderr, level="ERROR")
    app = FastAPI()
    app.add_api_websocket_route(PATH, talk)
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"READY http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(
        app,
        loop="uvloop",
        log_level="error",
        ws="websockets-sansio",
        ws_per_message_deflate=False,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
