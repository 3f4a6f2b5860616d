"""What a Realtime session asks for, in the words of a call."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from msgspec import structs

from engines.ports import Tool
from pipelines.conversation.patience import Profile
from pipelines.conversation.ports import CallSettings
from pipelines.conversation.settings import TurnSettings
from voice.wire.realtime_mcp import RealtimeToolChoiceMcp
from voice.wire.realtime_objects import RealtimeResponseCreateParams
from voice.wire.realtime_session import (
    MaxTokens,
    RealtimeAudio,
    RealtimeAudioInput,
    RealtimeAudioOutput,
    RealtimeFunctionTool,
    RealtimeSemanticVad,
    RealtimeServerVad,
    RealtimeSession,
    RealtimeTool,
    RealtimeToolChoice,
    RealtimeTranscription,
    RealtimeTranscriptionAudio,
    RealtimeTranscriptionSession,
    RealtimeTurnDetection,
    Session,
    read_tools,
    voice_name,
)

logger = logging.getLogger(__name__)

_PROFILES: Final[dict[str, Profile]] = {
    "high": "normal",
    "medium": "normal",
    "auto": "normal",
    "low": "patient",
}
"""How long ``semantic_vad`` waits for a caller who may go on."""


def first_session(
    query: Mapping[str, Sequence[str]],
    base: CallSettings,
    model: str,
    session_id: str,
    granted: Session | None = None,
) -> Session:
    """The session that a connection begins with; ``query`` is its URL's, ``model`` our own name.
    ``granted`` is that of a key that was made for it, and goes before what the URL says.

    Clients ask for models that only OpenAI has; they get what the server runs, under the name
    that they asked for.
    """
    if granted is not None:
        return structs.replace(granted, id=session_id)
    asked = next(iter(query.get("model", ())), model)
    if asked != model:
        _log_other_model(asked, model)
    hearing = RealtimeAudioInput(
        transcription=RealtimeTranscription(language=base.language),
        turn_detection=_turn_detection(base.turns) if base.turns.detect else None,
    )
    if query.get("intent") == ["transcription"]:
        return RealtimeTranscriptionSession(
            id=session_id, model=asked, audio=RealtimeTranscriptionAudio(hearing)
        )
    return RealtimeSession(
        id=session_id,
        model=asked,
        instructions=base.instructions,
        max_output_tokens=base.max_tokens or "inf",
        audio=RealtimeAudio(hearing, RealtimeAudioOutput(voice=base.voice)),
    )


@lru_cache(maxsize=64)
def _log_other_model(asked: str, model: str) -> None:
    """Once for each name, not for each call. The name is whatever a client put into its URL."""
    logger.info("clients that ask for model %.100r get %s", asked, model)


def call_settings(session: Session, base: CallSettings) -> CallSettings:
    """The call's settings under this session; ``base`` holds what a session does not say."""
    audio_input = session.audio.input
    transcription = audio_input.transcription
    settings = replace(
        base,
        turns=_turn_settings(audio_input.turn_detection, base.turns),
        language=(transcription and transcription.language) or base.language,
        asr_prompt=(transcription and transcription.prompt) or base.asr_prompt,
    )
    if not isinstance(session, RealtimeSession):
        return replace(settings, turns=_unanswered(settings.turns))
    spoken = "audio" in session.output_modalities
    return replace(
        settings,
        turns=settings.turns if spoken else replace(settings.turns, filler_ms=None),
        instructions=session.instructions,
        tools=_functions(session.tools),
        tool_choice=_tool_choice(session.tool_choice),
        parallel_tools=session.parallel_tool_calls,
        max_tokens=_max_tokens(session.max_output_tokens),
        voice=voice_name(session.audio.output.voice) or base.voice,
        speed=session.audio.output.speed,
        spoken=spoken,
    )


def response_settings(
    settings: CallSettings, params: RealtimeResponseCreateParams | None
) -> CallSettings:
    """The settings of one response that asks for something else than its session does. The tools of
    MCP servers are the door's business: see ``realtime_mcp``."""
    if params is None:
        return settings
    tools = None if params.tools is None else read_tools(params.tools, "response.tools")
    changes: dict[str, object] = {
        "instructions": params.instructions,
        "tools": None if tools is None else _functions(tools),
        "tool_choice": None if params.tool_choice is None else _tool_choice(params.tool_choice),
        "parallel_tools": params.parallel_tool_calls,
        "spoken": None if params.output_modalities is None else "audio" in params.output_modalities,
        "voice": voice_name(params.audio.output.voice)
        if params.audio is not None and params.audio.output is not None
        else None,
    }
    if params.max_output_tokens is not None:
        settings = replace(settings, max_tokens=_max_tokens(params.max_output_tokens))
    given = {name: value for name, value in changes.items() if value is not None}
    return replace(settings, **given)  # type: ignore[arg-type]


def _unanswered(turns: TurnSettings) -> TurnSettings:
    """Nobody speaks but the caller."""
    return replace(turns, create_response=False, idle_ms=None, hang_up_ms=None, filler_ms=None)


def _turn_settings(detection: RealtimeTurnDetection | None, base: TurnSettings) -> TurnSettings:
    if detection is None:  # the client takes the turns, and asks for the replies
        return replace(base, detect=False, create_response=False)
    turns = replace(
        base,
        detect=True,
        create_response=detection.create_response,
        interrupt_response=detection.interrupt_response,
    )
    if isinstance(detection, RealtimeSemanticVad):
        return replace(turns, profile=detection.profile or _PROFILES[detection.eagerness])
    endpoint = replace(
        base.endpoint,
        threshold=detection.threshold,
        silence_ms=detection.silence_duration_ms,
        prefix_ms=detection.prefix_padding_ms,
    )
    return replace(turns, profile=None, idle_ms=detection.idle_timeout_ms, endpoint=endpoint)


def _turn_detection(turns: TurnSettings) -> RealtimeTurnDetection:
    """What a client is told of how turns are taken."""
    if turns.profile is not None:
        return RealtimeSemanticVad(
            "low" if turns.profile == "patient" else "auto",
            profile="digits" if turns.profile == "digits" else None,
            create_response=turns.create_response,
            interrupt_response=turns.interrupt_response,
        )
    return RealtimeServerVad(
        turns.endpoint.threshold,
        turns.endpoint.prefix_ms,
        turns.endpoint.silence_ms,
        turns.idle_ms,
        create_response=turns.create_response,
        interrupt_response=turns.interrupt_response,
    )


def _functions(tools: Sequence[RealtimeTool]) -> tuple[Tool, ...]:
    """Those that the client carries out."""
    return tuple(
        Tool(tool.name, tool.description or "", tool.parameters or {})
        for tool in tools
        if isinstance(tool, RealtimeFunctionTool)
    )


def _tool_choice(choice: RealtimeToolChoice) -> str:
    if isinstance(choice, RealtimeToolChoiceMcp):
        return "auto"  # until it is known what the server's tools are called
    return choice if isinstance(choice, str) else choice.name


def _max_tokens(most: MaxTokens) -> int | None:
    return most if isinstance(most, int) else None
