"""What is wrong with a client's message, in the words that OpenAI's clients know.

msgspec says where and why a message does not fit its type; ``wire_error`` turns that into a
code, a message and the path of the offending field.
"""

from __future__ import annotations

import re
from typing import Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

T = TypeVar("T")


class WireError(Exception):
    """A client's message that cannot be taken. The call goes on.

    ``code`` is one of ``invalid_json``, ``invalid_type``, ``invalid_value``, ``invalid_audio``
    and ``missing_required_parameter``; ``param`` is the path of the field, as in
    ``session.audio.input.turn_detection.threshold``; ``event_id`` is the client's own.
    """

    type = "invalid_request_error"

    def __init__(
        self, code: str, message: str, param: str | None = None, event_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.event_id = event_id


# The parts of msgspec's messages: "Expected `int`, got `str` - at `$.session.x[0].y`".
_WHERE = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>[^`]*)`")
_TYPES = re.compile(r"`([^`]*)`")
_GOT = re.compile(r"Expected `[^`]*`, got `[^`]*`")
_WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "a string",
    "bytes": "a base64 string",
    "bool": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_INDEX = re.compile(r"\[[^\]]*\]")

# msgspec names the value that is not among the choices, but not the choices. By the last two
# names of the path, or the last alone.
_CHOICES = {
    "turn_detection.type": "server_vad, semantic_vad",
    "format.type": "audio/pcm, audio/pcmu, audio/pcma",
    "format.rate": "24000",
    "session.type": "realtime, transcription",
    "item.type": "message, function_call, function_call_output, mcp_approval_response",
    "input.type": "message, function_call, function_call_output, item_reference",
    "content.type": "input_text, input_audio, input_image, output_text, output_audio",
    "tools.type": "function, mcp",
    "tool_choice.type": "function, mcp",
    "require_approval": "always, never, or an object that names tools",
    "noise_reduction.type": "near_field, far_field",
    "output_modalities": "audio, text",
    "tool_choice": "auto, none, required, or an object that names a function",
    "max_output_tokens": "a whole number above 0, inf",
    "eagerness": "low, medium, high, auto",
    "role": "user, assistant, system",
    "status": "completed, incomplete, in_progress",
    "conversation": "auto, none",
    "detail": "auto, low, high",
    "chunking_strategy.type": "server_vad",
    "timestamp_granularities": "word, segment",
}


def wire_error(
    error: Exception, path: str = "", event_id: str | None = None, kind: object = None
) -> WireError:
    """Translate msgspec's error. ``path`` goes before the path that msgspec found; ``kind`` is the
    type that the message was to be: what its own fields may be is told."""
    if isinstance(error, RecursionError):
        return WireError("invalid_json", "The message is nested too deeply.", None, event_id)
    if not isinstance(error, msgspec.ValidationError):
        return WireError("invalid_json", f"The message is not valid JSON: {error}.", None, event_id)
    match = _WHERE.match(str(error))
    what, inner = (match["what"], match["path"] or "") if match else (str(error), "")
    code, field, reason = _verdict(what)
    whole = f"{path}{inner}" if path else inner.removeprefix(".")
    param = ".".join(filter(None, [whole, field])) or None
    return WireError(
        code, f"{_opening(code, param)} {reason}{_choices(what, param, kind)}.", param, event_id
    )


def convert(value: object, type_: type[T], path: str) -> T:
    """``msgspec.convert`` that raises WireError; ``path`` is where the value sits."""
    try:
        return msgspec.convert(value, type_)
    except (msgspec.ValidationError, RecursionError) as error:
        raise wire_error(error, path, kind=type_) from error


def _verdict(what: str) -> tuple[str, str, str]:
    """The code, the missing field's name and the reason, of one of msgspec's complaints."""
    if missing := _MISSING.match(what):
        return "missing_required_parameter", missing["field"], "it is required"
    if what.startswith("Invalid base64"):
        return "invalid_audio", "", "it is not valid base64"
    reason = _TYPES.sub(_in_words, what[:1].lower() + what[1:])
    # No more than the type is said of a tag that is not text.
    is_type = _GOT.match(what) or what == "Expected `str`"
    return "invalid_type" if is_type else "invalid_value", "", reason


def _in_words(types: re.Match[str]) -> str:
    """Types of msgspec's in JSON's words; ``what`` may quote other things, too."""
    return " or ".join(_WORDS.get(name, name) for name in types[1].split(" | "))


def _opening(code: str, param: str | None) -> str:
    place = f"'{param}'" if param else "the message"
    if code == "missing_required_parameter":
        return f"Missing parameter {place}:"
    if code == "invalid_type":
        return f"Invalid type for {place}:"
    return f"Invalid value for {place}:"


def _choices(what: str, param: str | None, kind: object) -> str:
    if not what.startswith("Invalid") or param is None:
        return ""
    names = _INDEX.sub("", param).split(".")
    own = get_type_hints(kind).get(param) if isinstance(kind, type) else None
    choices = (
        ", ".join(get_args(own))
        if get_origin(own) is Literal
        else _CHOICES.get(".".join(names[-2:])) or _CHOICES.get(names[-1])
    )
    return f"; supported values are: {choices}" if choices else ""
