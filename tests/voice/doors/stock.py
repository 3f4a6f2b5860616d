"""The stock openai package as a caller, and the classes that it has for the server's events."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from openai.types import realtime as sdk

from tests.voice.conftest import eventually

TYPES = {
    "session.updated": sdk.SessionUpdatedEvent,
    "input_audio_buffer.speech_started": sdk.InputAudioBufferSpeechStartedEvent,
    "input_audio_buffer.speech_stopped": sdk.InputAudioBufferSpeechStoppedEvent,
    "input_audio_buffer.committed": sdk.InputAudioBufferCommittedEvent,
    "conversation.item.added": sdk.ConversationItemAdded,
    "conversation.item.done": sdk.ConversationItemDone,
    "conversation.item.input_audio_transcription.delta": (
        sdk.ConversationItemInputAudioTranscriptionDeltaEvent
    ),
    "conversation.item.input_audio_transcription.completed": (
        sdk.ConversationItemInputAudioTranscriptionCompletedEvent
    ),
    "response.created": sdk.ResponseCreatedEvent,
    "response.output_item.added": sdk.ResponseOutputItemAddedEvent,
    "response.content_part.added": sdk.ResponseContentPartAddedEvent,
    "response.output_audio_transcript.delta": sdk.ResponseAudioTranscriptDeltaEvent,
    "response.output_audio.delta": sdk.ResponseAudioDeltaEvent,
    "response.output_audio.done": sdk.ResponseAudioDoneEvent,
    "response.output_audio_transcript.done": sdk.ResponseAudioTranscriptDoneEvent,
    "response.content_part.done": sdk.ResponseContentPartDoneEvent,
    "response.output_item.done": sdk.ResponseOutputItemDoneEvent,
    "response.done": sdk.ResponseDoneEvent,
}


@asynccontextmanager
async def stock_call(server: Any, key: str = "k") -> AsyncIterator[Any]:
    client = AsyncOpenAI(api_key=key, base_url=f"http://127.0.0.1:{server.port}/v1")
    async with (
        client,
        client.realtime.connect(
            model="gpt-realtime", websocket_connection_options={"proxy": None, "max_queue": None}
        ) as connection,
    ):
        yield connection


@asynccontextmanager
async def stock_client(server: Any, key: str = "k") -> AsyncIterator[AsyncOpenAI]:
    """For the REST doors; it tries once only."""
    url = f"http://127.0.0.1:{server.port}/v1"
    async with AsyncOpenAI(
        api_key=key,
        base_url=url,
        max_retries=0,
        timeout=60,
        http_client=DefaultAsyncHttpxClient(trust_env=False),
    ) as client:
        yield client
    await eventually(lambda: not server.connections)  # its own end is closed a moment later


@asynccontextmanager
async def plain_client(server: Any) -> AsyncIterator[httpx.AsyncClient]:
    """For what the stock client would not send."""
    async with httpx.AsyncClient(trust_env=False) as client:
        yield client
    await eventually(lambda: not server.connections)


def words_in(text: str) -> list[str]:
    """In small letters, without marks."""
    return re.findall(r"[a-z0-9']+", text.lower())
