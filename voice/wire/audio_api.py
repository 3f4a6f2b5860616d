"""OpenAI's audio endpoints as types: what a client may ask for, and what it is answered.

See https://platform.openai.com/docs/api-reference/audio. Fields that we do not know are let pass,
so that newer clients work; values that we cannot give are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from engines.ports import Segment
from pipelines.transcription.captions import Utterance, words_of
from voice.wire.realtime_errors import WireError, convert, wire_error

_JSON = msgspec.json.Encoder()

# --- speech ---------------------------------------------------------------------------------


class VoiceName(Struct):
    """A voice of somebody's own, by its id."""

    id: str


class SpeechBody(Struct):
    """The body of POST /v1/audio/speech."""

    input: str
    model: str
    voice: str | VoiceName | None = None
    instructions: str | None = None
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] = "mp3"
    speed: Annotated[float, Meta(ge=0.25, le=4.0)] = 1.0
    stream_format: Literal["audio", "sse"] = "audio"

    @property
    def voice_name(self) -> str | None:
        """The voice by its name, None for the server's own."""
        return self.voice.id if isinstance(self.voice, VoiceName) else self.voice or None


class SpeechDelta(Struct, tag="speech.audio.delta", tag_field="type"):
    """More bytes of the file."""

    audio: bytes


class SpeechUsage(Struct):
    """What it cost: in words, and in tenths of a second, since not every voice has tokens."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class SpeechDone(Struct, tag="speech.audio.done", tag_field="type"):
    """All of it was sent."""

    usage: SpeechUsage


def speech_body(data: bytes, most_characters: int) -> SpeechBody:
    """A request as it came. Raises WireError."""
    try:
        body = msgspec.json.decode(data, type=SpeechBody)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise wire_error(error, kind=SpeechBody) from error
    if not body.input.strip():
        raise WireError("invalid_value", "Invalid value for 'input': it is empty.", "input")
    if len(body.input) > most_characters:
        told = f"Invalid value for 'input': it has {len(body.input)} characters, and"
        many = f"{told} {most_characters} are the most (files.max_characters)."
        raise WireError("string_above_max_length", many, "input")
    return body


# --- transcriptions: what is asked for ------------------------------------------------------


class ServerVad(Struct):
    """How the sound is to be cut."""

    type: Literal["server_vad"]
    threshold: Annotated[float, Meta(ge=0, le=1)] = 0.5
    prefix_padding_ms: Annotated[int, Meta(ge=0, le=5_000)] = 300
    silence_duration_ms: Annotated[int, Meta(ge=100, le=10_000)] = 600


class TranscriptionForm(Struct):
    """The fields of POST /v1/audio/transcriptions beside the file. ``diarize``, who speaks in srt
    and vtt, and ``speakers``, how many there are, are ours."""

    model: str
    language: str | None = None
    prompt: str = ""
    temperature: Annotated[float, Meta(ge=0, le=1)] = 0.0
    response_format: Literal["json", "text", "srt", "vtt", "verbose_json", "diarized_json"] = "json"
    timestamp_granularities: tuple[Literal["word", "segment"], ...] = ("segment",)
    stream: bool = False
    chunking_strategy: ServerVad | None = None
    diarize: bool = False
    speakers: Annotated[int, Meta(ge=1, le=100)] | None = None

    @property
    def by_speaker(self) -> bool:
        """Speakers are to be told apart."""
        return self.diarize or self.speakers is not None or self.response_format == "diarized_json"


def transcription_form(fields: Iterable[tuple[str, str]]) -> TranscriptionForm:
    """A form's fields as they came: lists as ``name[]`` several times, objects as ``name[key]`` or
    as JSON. Raises WireError."""
    values: dict[str, Any] = {}
    for name, value in fields:
        field, _, key = name.removesuffix("]").partition("[")
        if field == "timestamp_granularities":
            values.setdefault(field, []).append(value)
        elif field == "chunking_strategy":
            values[field] = _strategy(values.get(field), key, value)
        elif field in ("known_speaker_names", "known_speaker_references"):
            told = (
                "Speakers are not known by name here: without it, they are called A, B and so on."
            )
            raise WireError("unsupported_value", told, field)
        elif name in TranscriptionForm.__struct_fields__ and (value or name == "model"):
            values[name] = _plain(name, value)
    form = convert(values, TranscriptionForm, "")
    _check(form)
    return form


def _strategy(before: Any, key: str, value: str) -> Any:
    """How to cut, as far as it has been told. What comes later goes over what is no object."""
    if key:
        told = before if isinstance(before, dict) else {}
        return {**told, key: value if key == "type" else _number(value)}
    if value == "auto":
        return None
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError) as error:
        raise wire_error(error, "chunking_strategy") from error


def _plain(name: str, value: str) -> object:
    """A form has text only."""
    if name in ("stream", "diarize") and value.lower() in ("true", "false", "1", "0"):
        return value.lower() in ("true", "1")
    return _number(value) if name in ("temperature", "speakers") else value


def _number(value: str) -> object:
    """What is no number stays text, and is refused as such."""
    try:
        return int(value) if value.isdecimal() else float(value)
    except ValueError:
        return value


def _check(form: TranscriptionForm) -> None:
    if "word" in form.timestamp_granularities and form.response_format != "verbose_json":
        told = "Times of words are given in verbose_json only."
        raise WireError("invalid_value", told, "timestamp_granularities")
    if form.by_speaker and form.response_format not in ("diarized_json", "srt", "vtt"):
        told = f"Speakers are told in diarized_json, srt and vtt, not in {form.response_format}."
        raise WireError("unsupported_value", told, "response_format")
    if form.stream and form.response_format in ("srt", "vtt"):
        told = f"{form.response_format} is not streamed: take json, text or verbose_json."
        raise WireError("unsupported_value", told, "stream")


# --- transcriptions: what is answered -------------------------------------------------------


class Duration(Struct, tag="duration", tag_field="type"):
    """What it cost."""

    seconds: float


class SpokenLanguage(Struct):
    """A language that was heard."""

    code: str


class VerboseSegment(Struct, omit_defaults=True):
    """What one stretch of speech said. Tokens are not known, and a temperature was not chosen."""

    id: int
    seek: int
    start: float
    end: float
    text: str
    tokens: list[int]
    temperature: float
    avg_logprob: float
    compression_ratio: float
    no_speech_prob: float
    suspicion: str = ""


class TimedWord(Struct):
    """A word and its time, an estimate where the recogniser tells none
    (``pipelines.transcription.captions``)."""

    word: str
    start: float
    end: float


class TranscriptionJson(Struct, omit_defaults=True):
    """``json``. ``suspicion``: what the guard doubts; it and ``words`` are ours."""

    text: str
    usage: Duration
    languages: list[SpokenLanguage] | UnsetType = UNSET
    words: list[TimedWord] | UnsetType = UNSET
    suspicion: str = ""


class TranscriptionVerbose(Struct, omit_defaults=True):
    """``verbose_json``."""

    task: str
    language: str
    duration: float
    text: str
    usage: Duration
    segments: list[VerboseSegment] | UnsetType = UNSET
    words: list[TimedWord] | UnsetType = UNSET
    suspicion: str = ""


class TextDelta(Struct, tag="transcript.text.delta", tag_field="type"):
    """More words."""

    delta: str


class TextSegment(Struct, tag="transcript.text.segment", tag_field="type"):
    """A stretch of speech. Where speakers are not told apart, ``speaker`` is empty."""

    id: str
    start: float
    end: float
    text: str
    speaker: str = ""


class HeardUsage(Struct, tag="tokens", tag_field="type"):
    """What it cost, which a stream has in tokens only: tenths of a second, and words, as
    ``SpeechUsage`` has them."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class TextDone(Struct, tag="transcript.text.done", tag_field="type", omit_defaults=True):
    """All the words."""

    text: str
    usage: HeardUsage
    suspicion: str = ""


def text_done(heard: Sequence[Utterance], duration_ms: int) -> TextDone:
    """The last event of all that was heard."""
    text = text_of(heard)
    tenths, words = round(duration_ms / 100), len(text.split())
    return TextDone(text, HeardUsage(tenths, words, tenths + words), suspicion_of(heard))


def text_of(heard: Iterable[Utterance]) -> str:
    """All that was said, as one text."""
    return " ".join(each.text for each in heard if each.text)


def suspicion_of(heard: Iterable[Utterance]) -> str:
    """All doubts, each once."""
    reasons = (reason for each in heard for reason in each.suspicion.split(", ") if reason)
    return ", ".join(dict.fromkeys(reasons))


def json_answer(
    heard: Sequence[Utterance], duration_ms: int, form: TranscriptionForm
) -> TranscriptionJson:
    """``json`` of all that was heard. Languages are in the order of how often they were."""
    counted = Counter(each.language for each in heard if each.language)
    return TranscriptionJson(
        text_of(heard),
        Duration(duration_ms / 1000),
        [SpokenLanguage(code) for code, _ in counted.most_common()] or UNSET,
        timed_words(heard) if "word" in form.timestamp_granularities else UNSET,
        suspicion_of(heard),
    )


def verbose_answer(
    heard: Sequence[Utterance], duration_ms: int, form: TranscriptionForm
) -> TranscriptionVerbose:
    """``verbose_json`` of all that was heard."""
    language = next((each.language for each in heard if each.language), form.language) or ""
    answer = TranscriptionVerbose(
        "transcribe",
        language,
        duration_ms / 1000,
        text_of(heard),
        Duration(duration_ms / 1000),
        suspicion=suspicion_of(heard),
    )
    segments = [(segment, each.suspicion) for each in heard for segment in each.segments]
    if "segment" in form.timestamp_granularities:
        answer.segments = [_verbose(number, *each) for number, each in enumerate(segments)]
    if "word" in form.timestamp_granularities:
        answer.words = timed_words(heard)
    return answer


def timed_words(heard: Iterable[Utterance]) -> list[TimedWord]:
    """All words with their times."""
    return [
        TimedWord(word.text, word.start_ms / 1000, word.end_ms / 1000)
        for utterance in heard
        for spoken in utterance.spoken
        for word in words_of(spoken)
    ]


def segment_event(number: int, segment: Segment) -> TextSegment:
    """A stretch of speech as it is streamed."""
    start, end = segment.start_ms / 1000, segment.end_ms / 1000
    return TextSegment(f"seg_{number}", start, end, segment.text)


def _verbose(number: int, segment: Segment, suspicion: str) -> VerboseSegment:
    return VerboseSegment(
        number,
        segment.start_ms // 10,
        segment.start_ms / 1000,
        segment.end_ms / 1000,
        segment.text,
        [],
        0.0,
        segment.avg_logprob or 0.0,
        segment.compression_ratio or 0.0,
        segment.no_speech_prob or 0.0,
        suspicion,
    )


# --- server-sent events ---------------------------------------------------------------------


def to_json(answer: Struct) -> bytes:
    """As the body of an answer."""
    return _JSON.encode(answer)


def sse(event: Struct | dict[str, object]) -> bytes:
    """As one server-sent event."""
    return b"data: " + _JSON.encode(event) + b"\n\n"
