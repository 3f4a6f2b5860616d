"""pipecat: its OpenAIRealtimeLLMService in a pipeline of the usual shape."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from loguru import logger
from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import (
    ErrorFrame,
    Frame,
    FunctionCallResultFrame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMMessagesAppendFrame,
    LLMRunFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSStoppedFrame,
    TTSTextFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.services.openai.stt import OpenAIRealtimeSTTService
from pipecat.workers.runner import WorkerRunner
from steps import (
    ANSWER,
    HEARD,
    KEY,
    MODEL,
    RATE,
    STORY,
    TYPED,
    WEATHER,
    WS,
    Microphone,
    Noted,
    StepError,
    check,
    main,
    speech,
    step,
)

NAMES = {
    TranscriptionFrame: "transcript",
    TTSAudioRawFrame: "audio",
    TTSTextFrame: "words",
    TTSStoppedFrame: "stopped",
    LLMFullResponseEndFrame: "end",
    InterruptionFrame: "interrupted",
    FunctionCallResultFrame: "tool result",
    ErrorFrame: "error",
}


class Recorder(FrameProcessor):
    """Notes what passes; the rest of the pipeline sees all of it."""

    def __init__(self, noted: Noted) -> None:
        super().__init__()
        self._noted = noted

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if name := NAMES.get(type(frame)):
            self._noted.add(name, frame)
        await self.push_frame(frame, direction)


class Service(OpenAIRealtimeLLMService):
    """Notes what it asks of the server."""

    noted: Noted

    async def send_client_event(self, event: Any) -> None:
        self.noted.add(f"sent {event.type}", event)
        await super().send_client_event(event)


async def weather(params: Any) -> None:
    await params.result_callback(f"rain in {params.arguments['city']}")


def text_of(noted: Noted, mark: int) -> str:
    return " ".join(frame.text.strip() for frame in noted.since(mark, "words"))


async def wait_words(noted: Noted, mark: int, words: str) -> None:
    """Until this has been said, and the reply is over."""
    spoken = 0
    while words not in text_of(noted, mark):
        spoken += 1
        try:
            await noted.wait("words", mark, count=spoken)
        except StepError as error:
            raise StepError(f"said {text_of(noted, mark)!r}, not {words!r}: {error}") from error
    await noted.wait("end", noted.mark() - 1)


async def run() -> None:
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    noted = Noted()
    properties = events.SessionProperties(
        audio=events.AudioConfiguration(
            input=events.AudioInput(transcription=events.InputAudioTranscription())
        )
    )
    service = Service(
        api_key=KEY,
        base_url=f"{WS}/v1/realtime",
        settings=Service.Settings(model=MODEL, session_properties=properties),
    )
    service.noted = noted
    service.register_function("weather", weather)
    city = {"city": {"type": "string"}}
    tool = FunctionSchema("weather", "The weather of a city.", city, ["city"])
    context = LLMContext(
        [{"role": "user", "content": TYPED}], tools=ToolsSchema(standard_tools=[tool])
    )
    aggregators = LLMContextAggregatorPair(context)
    before, behind = Recorder(noted), Recorder(noted)
    pipeline = Pipeline([aggregators.user(), before, service, behind, aggregators.assistant()])
    rates = PipelineParams(audio_in_sample_rate=RATE, audio_out_sample_rate=RATE)
    worker = PipelineWorker(pipeline, params=rates)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    tasks = [asyncio.create_task(runner.run())]

    async def send(audio: bytes) -> None:
        await worker.queue_frame(InputAudioRawFrame(audio=audio, sample_rate=RATE, num_channels=1))

    microphone = Microphone(send)
    tasks.append(asyncio.create_task(microphone.run()))

    async def ask(text: str) -> None:
        message = {"role": "user", "content": text}
        await before.push_frame(LLMMessagesAppendFrame([message], run_llm=True))

    await talk(noted, microphone, worker, ask)
    await transcription()


async def transcription() -> None:
    """By its speech recogniser, which has a session of its own kind."""
    noted = Noted()
    hearing = OpenAIRealtimeSTTService(
        api_key=KEY,
        base_url=f"{WS}/v1/realtime",
        turn_detection={"type": "server_vad"},
        settings=OpenAIRealtimeSTTService.Settings(model="gpt-4o-transcribe"),
    )
    rates = PipelineParams(audio_in_sample_rate=RATE, audio_out_sample_rate=RATE)
    worker = PipelineWorker(Pipeline([hearing, Recorder(noted)]), params=rates)
    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)

    async def send(audio: bytes) -> None:
        await worker.queue_frame(InputAudioRawFrame(audio=audio, sample_rate=RATE, num_channels=1))

    microphone = Microphone(send)
    _kept = [asyncio.create_task(each) for each in (runner.run(), microphone.run())]
    with step("transcription") as told:
        microphone.say(speech())
        heard = await noted.wait("transcript", 0)
        check(heard.text == HEARD, f"heard {heard.text!r}")
        check(not noted.since(0, "error"), f"{noted.since(0, 'error')}")
        told.append(heard.text)


async def talk(noted: Noted, microphone: Microphone, worker: Any, ask: Any) -> None:
    with step("text turn") as told:
        mark = noted.mark()
        await worker.queue_frame(LLMRunFrame())
        await noted.wait("end", mark)
        check(text_of(noted, mark) == ANSWER, f"said {text_of(noted, mark)!r}")
    with step("spoken turn") as told:
        mark = noted.mark()
        microphone.say(speech())
        heard = await noted.wait("transcript", mark)
        check(heard.text == HEARD, f"heard {heard.text!r}")
        await noted.wait("audio", mark)
        await noted.wait("end", mark)
        check(text_of(noted, mark) == ANSWER, f"said {text_of(noted, mark)!r}")
    with step("barge-in") as told:
        mark = noted.mark()
        await ask(STORY)
        await noted.wait("audio", mark)
        await asyncio.sleep(0.8)
        microphone.say(speech())
        await noted.wait("interrupted", mark)
        cut = await noted.wait("sent conversation.item.truncate", mark)
        told.append(f"cut at {cut.audio_end_ms} ms")
        await wait_words(noted, mark, ANSWER)
    with step("tool call") as told:
        mark = noted.mark()
        await ask(WEATHER)
        result = await noted.wait("tool result", mark)
        check(result.result == "rain in Bergen", f"{result.result}")
        await wait_words(noted, mark, "rain in Bergen")
        told.append(text_of(noted, mark))
        check(not noted.since(0, "error"), f"{noted.since(0, 'error')}")


main(run)
