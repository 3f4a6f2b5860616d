"""The session of an OpenAI Realtime call: what it is made of, and how an update changes it.

The types describe a session that is in force, so every setting has a value and a server reads
it without asking whether it is there. An update is part of such an object and travels as a
plain dict until ``merge`` lays it over the session. Unlike events, sessions are encoded whole:
clients read settings back from them (the JS SDK looks for ``interrupt_response``).
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, field, structs

from voice.wire.realtime_errors import WireError, convert, wire_error
from voice.wire.realtime_mcp import RealtimeMcpTool, RealtimeToolChoiceMcp

Threshold: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Speed: TypeAlias = Annotated[float, Meta(ge=0.25, le=1.5)]
MaxTokens: TypeAlias = Annotated[int, Meta(ge=1)] | Literal["inf"]
# The API takes one at a time: audio always brings its text along.
Modalities: TypeAlias = Annotated[list[Literal["text", "audio"]], Meta(min_length=1, max_length=1)]


class RealtimeAudioPCM(Struct, frozen=True, tag="audio/pcm"):
    """Signed 16-bit little-endian, mono."""

    rate: Literal[24000] = 24000


class RealtimeAudioPCMU(Struct, frozen=True, tag="audio/pcmu"):
    """G.711 mu-law, 8 kHz mono."""


class RealtimeAudioPCMA(Struct, frozen=True, tag="audio/pcma"):
    """G.711 A-law, 8 kHz mono."""


RealtimeAudioFormat: TypeAlias = RealtimeAudioPCM | RealtimeAudioPCMU | RealtimeAudioPCMA


class RealtimeServerVad(Struct, frozen=True, tag="server_vad"):
    """The turn ends after a fixed length of silence."""

    threshold: Threshold = 0.5
    prefix_padding_ms: Annotated[int, Meta(ge=0, le=5_000)] = 300
    silence_duration_ms: Annotated[int, Meta(ge=0, le=10_000)] = 500
    idle_timeout_ms: Annotated[int, Meta(ge=1)] | None = None
    create_response: bool = True
    interrupt_response: bool = True


class RealtimeSemanticVad(Struct, frozen=True, tag="semantic_vad"):
    """The turn ends where the words sound finished. ``profile`` is ours, and goes before the
    eagerness: ``digits`` waits for a number to be whole."""

    eagerness: Literal["low", "medium", "high", "auto"] = "auto"
    profile: Literal["normal", "patient", "digits"] | None = None
    create_response: bool = True
    interrupt_response: bool = True


RealtimeTurnDetection: TypeAlias = RealtimeServerVad | RealtimeSemanticVad


class RealtimeNoiseReduction(Struct, frozen=True):
    type: Literal["near_field", "far_field"] = "near_field"


class RealtimeTranscription(Struct, frozen=True, omit_defaults=True):
    """How the caller's words are written down for the client to see. What is not set is left out:
    a null model ends a pipecat session."""

    model: str | None = None
    language: str | None = None
    prompt: str | None = None


class RealtimeAudioInput(Struct, frozen=True):
    """``turn_detection`` None leaves it to the client to commit and to ask for replies."""

    format: RealtimeAudioFormat = RealtimeAudioPCM()
    noise_reduction: RealtimeNoiseReduction | None = None
    transcription: RealtimeTranscription | None = None
    turn_detection: RealtimeTurnDetection | None = RealtimeServerVad()


class RealtimeVoiceId(Struct, frozen=True):
    """The other way in which the API names a voice."""

    id: str


def voice_name(voice: str | RealtimeVoiceId | None) -> str | None:
    """The voice's name, whichever way it was given."""
    return voice.id if isinstance(voice, RealtimeVoiceId) else voice


class RealtimeAudioOutput(Struct, frozen=True):
    """``voice`` None is the engine's own; ``speed`` 1.0 is the voice's own."""

    format: RealtimeAudioFormat = RealtimeAudioPCM()
    voice: str | RealtimeVoiceId | None = None
    speed: Speed = 1.0


class RealtimeAudio(Struct, frozen=True):
    input: RealtimeAudioInput = RealtimeAudioInput()
    output: RealtimeAudioOutput = RealtimeAudioOutput()


class RealtimeTranscriptionAudio(Struct, frozen=True):
    input: RealtimeAudioInput = RealtimeAudioInput()


class RealtimeFunctionTool(Struct, frozen=True, omit_defaults=True, tag="function"):
    """A function that the model may ask the client to call. ``parameters``: a JSON schema."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


RealtimeTool: TypeAlias = RealtimeFunctionTool | RealtimeMcpTool


def read_tools(tools: object, path: str) -> list[RealtimeTool]:
    """A client's tools; one that names no type is a function. Raises WireError."""
    read: list[RealtimeTool] = convert(_with_types(tools), list[RealtimeTool], path)
    return read


class RealtimeToolChoiceFunction(Struct, frozen=True, tag="function"):
    """This function, and no other, must be called."""

    name: str


RealtimeToolChoice: TypeAlias = (
    Literal["auto", "none", "required"] | RealtimeToolChoiceFunction | RealtimeToolChoiceMcp
)


class RealtimeSession(Struct, frozen=True, kw_only=True, tag="realtime"):
    """A conversation: speech or text in, speech or text out."""

    id: str = ""
    object: Literal["realtime.session"] = "realtime.session"
    model: str = ""
    output_modalities: Modalities = field(default_factory=lambda: ["audio"])
    instructions: str = ""
    tools: list[RealtimeTool] = []
    tool_choice: RealtimeToolChoice = "auto"
    parallel_tool_calls: bool = True
    max_output_tokens: MaxTokens = "inf"
    truncation: str | dict[str, Any] = "auto"
    tracing: str | dict[str, Any] | None = None
    audio: RealtimeAudio = RealtimeAudio()


class RealtimeTranscriptionSession(Struct, frozen=True, kw_only=True, tag="transcription"):
    """A session that only writes down what it hears."""

    id: str = ""
    object: Literal["realtime.transcription_session"] = "realtime.transcription_session"
    model: str = ""
    audio: RealtimeTranscriptionAudio = RealtimeTranscriptionAudio()


MOST_BYTES: Final = 1024 * 1024
"""Of a session as JSON: instructions, tools and all."""

Session: TypeAlias = RealtimeSession | RealtimeTranscriptionSession

# What null switches off. Elsewhere null says nothing, as in clients that dump unset fields.
_OPTIONAL = frozenset(
    (
        *("noise_reduction", "transcription", "turn_detection", "idle_timeout_ms", "language"),
        "profile",
        *("prompt", "voice", "tracing", "description", "parameters"),
    )
)
_FIXED = ("id", "object")


def merge(session: Session, update: dict[str, Any]) -> Session:
    """The session with ``update`` laid over it, level by level.

    An object whose ``type`` changes is replaced, not mixed with its predecessor; so are lists.
    An update without a ``type`` keeps the one in force. Unknown fields are dropped. Raises
    WireError where the outcome would not be a session, its ``param`` starting with ``session``.
    """
    before = msgspec.to_builtins(session)
    changes = {name: value for name, value in update.items() if name not in _FIXED}
    if changes.get("type", before["type"]) != before["type"]:
        before = {name: value for name, value in before.items() if name != "object"}
    if "tools" in changes:
        changes["tools"] = _with_types(changes["tools"])
    try:
        merged = _overlaid(before, changes)
    except RecursionError as error:
        raise wire_error(error) from error
    after: Session = convert(merged, Session, "session")  # type: ignore[arg-type]
    if len(msgspec.json.encode(after)) > MOST_BYTES:
        raise WireError("invalid_value", f"The session would exceed {MOST_BYTES} bytes.", "session")
    return after


def without_secrets(session: Session) -> Session:
    """The session as it is shown, to its own client too: it may be a page that was given a key for
    a session, and must not learn what opens the servers of its tools."""
    if not isinstance(session, RealtimeSession):
        return session
    shown = [
        structs.replace(tool, authorization=None, headers=None)
        if isinstance(tool, RealtimeMcpTool)
        else tool
        for tool in session.tools
    ]
    return structs.replace(session, tools=shown)


def check_update(update: dict[str, Any]) -> None:
    """Raise WireError if no session could take this update."""
    merge(_DEFAULT, update)


def _with_types(tools: object) -> object:
    if not isinstance(tools, list):
        return tools
    return [{"type": "function", **tool} if isinstance(tool, dict) else tool for tool in tools]


def _overlaid(base: dict[str, Any], update: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in update.items():
        if value is None and name not in _OPTIONAL:
            continue
        before = base.get(name)
        merged[name] = _replacement(before, value) if isinstance(value, dict) else value
    return merged


def _replacement(before: object, after: dict[str, Any]) -> dict[str, Any]:
    kept = before if isinstance(before, dict) else {}
    if "type" in after and after["type"] != kept.get("type"):
        kept = {}
    return _overlaid(kept, after)


_DEFAULT = RealtimeSession()
