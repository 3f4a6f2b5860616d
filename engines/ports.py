"""The ports: what a flow may ask of a model, and nothing more.

Every model here is the same thing: a function from one request to a stream of results.
``open`` starts the work and gives back its stream; leaving the context ends it and frees
whatever it held, whether or not the stream was read to its end::

    async with asr.open(AsrRequest(pcm)) as transcripts:
        async for transcript in transcripts:
            ...

Whisper, a chat model and a speech model all take their whole input at once (a segment of
speech, a list of messages, a phrase), so a request carries it and no port has a ``send``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from engines.audio import Pcm
from engines.batching.tally import Tally

Request_contra = TypeVar("Request_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)


class EngineError(Exception):
    """A model failed in a way that the caller can be told of.

    Adapters translate their library's errors into this one and raise nothing else; anything
    else that escapes an engine is a bug and ends the call.

    ``code`` is one of a small set of words that clients may act on: ``unavailable``,
    ``timeout``, ``unauthorized``, ``rate_limited``, ``bad_request``, ``bad_response``,
    ``empty`` and ``failed``.
    """

    def __init__(self, engine: str, code: str, message: str) -> None:
        super().__init__(f"{engine}: {message}")
        self.engine = engine
        self.code = code
        self.message = message


class Priority(IntEnum):
    """Who goes first where a device is shared: smaller is sooner."""

    FINAL = 0
    SPECULATIVE = 1
    PARTIAL = 2
    BATCH = 3


class Engine(Protocol[Request_contra, Out_co]):
    """A model as a function from one request to a stream of results."""

    async def warm_up(self) -> None:
        """Load what is needed and run once, so that the first call pays nothing.

        Raises EngineError where the model cannot be loaded or reached.
        """
        ...

    def open(self, request: Request_contra) -> AbstractAsyncContextManager[AsyncIterator[Out_co]]:
        """Start one request. Leaving the context cancels what is left of it, at once."""
        ...

    async def close(self) -> None:
        """Free the model. No request is open any more."""
        ...


# --- speech recognition ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AsrRequest:
    """One segment of speech, cut by the VAD. ``pcm`` is 16 kHz.

    ``prompt`` is what was said before, so that no engine has to remember a call. ``call`` names
    it all the same: where there are several places, requests of one call go to the same one.
    ``word_times`` asks for ``Segment.words``, which only some engines can tell, and which cost.
    """

    pcm: Pcm
    language: str | None = None
    prompt: str = ""
    priority: Priority = Priority.FINAL
    call: str = ""
    word_times: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its punctuation and its time, counted as its segment's. ``probability``: how
    sure the recogniser was of it, 0 to 1, where it tells."""

    text: str
    start_ms: int
    end_ms: int
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of words with the recogniser's own doubts about it. Times from the clip's start.

    ``words``: those of ``text`` where they were asked for and the engine can tell, else none.
    """

    text: str
    start_ms: int
    end_ms: int
    avg_logprob: float | None = None
    no_speech_prob: float | None = None
    compression_ratio: float | None = None
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was said. ``suspicion`` says why a guard threw words away, heard them
    again, or doubts them; empty where it did not."""

    text: str
    language: str | None = None
    segments: tuple[Segment, ...] = ()
    suspicion: str = ""


Asr: TypeAlias = Engine[AsrRequest, Transcript]

# --- language model -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A function that the model wants called. ``arguments`` is JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Image:
    """A picture as a ``data:`` URL. ``detail``, how closely to look: auto, low, high."""

    url: str = field(repr=False)
    detail: str = "auto"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat. ``tool_call_id`` names the call that a ``tool`` message answers.
    ``images`` are the user's, and come to no model that is not ``Sighted``."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """A function offered to the model. ``parameters`` is a JSON schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A dialogue to be continued. ``tool_choice``: auto, none, required, or a tool's name;
    ``parallel_tools`` off asks for one call at a time.

    ``max_tokens`` 0 asks for no answer: it tells what will be asked before long, and a model that
    keeps prompts may read it now. Its stream holds a Usage and no text.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    max_tokens: int | None = None
    temperature: float | None = None
    priority: Priority = Priority.FINAL
    call: str = ""
    parallel_tools: bool = True


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the answer's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """The next piece of a tool call. ``index`` tells parallel calls apart; ``id`` and ``name``
    come with the first piece of each."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """The last delta: what the answer cost, and why it ended."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    finish_reason: str = "stop"


Delta: TypeAlias = TextDelta | ToolCallDelta | Usage
Llm: TypeAlias = Engine[ChatRequest, Delta]


@runtime_checkable
class Sighted(Protocol):
    """A language model that says whether it takes images; one that says nothing takes none."""

    @property
    def sees_images(self) -> bool:
        """``Message.images`` may hold something."""
        ...


# --- speech synthesis -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpeechRequest:
    """One phrase to be spoken. ``speed`` 1.0 is the voice's own.

    The same request gives the same audio: an engine that draws lots takes its seed from it.
    Audio is made as it is read, so whoever stops reading holds the engine back. A voice that knows
    where its words end marks them in what it gives (``Pcm.marks``).
    """

    text: str
    voice: str | None = None
    speed: float = 1.0
    priority: Priority = Priority.FINAL
    call: str = ""


Tts: TypeAlias = Engine[SpeechRequest, Pcm]

# --- end of turn ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """The caller's open turn so far, its silence at the end included. ``pcm`` is 16 kHz."""

    pcm: Pcm
    call: str = ""


EndOfTurn: TypeAlias = Engine[TurnRequest, float]
"""Gives one number: the probability that the caller has finished."""

# --- embeddings -----------------------------------------------------------------------------

FloatArray: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """Texts to be told apart by what they mean. Below ``Priority.BATCH`` a caller waits: it goes
    ahead of what is gathered into batches.

    A text that is longer than the model reads is refused (``bad_request``), or with ``cut`` read
    as far as it goes.
    """

    texts: tuple[str, ...]
    priority: Priority = Priority.FINAL
    call: str = ""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Embeddings:
    """A vector for each text, (texts, dimensions), each of length 1, so that the product of two is
    their likeness; those of different ``model`` s have nothing to do with each other. ``tokens``:
    how much was read."""

    vectors: FloatArray
    model: str
    tokens: int = 0


Embedder: TypeAlias = Engine[EmbeddingRequest, Embeddings]
"""Gives one Embeddings."""

# --- what an engine is doing ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Load:
    """What an engine is doing now, for gauges, routing and admission.

    ``slots``: requests it serves at once, 0 where there is no bound; ``busy``: those open now.
    ``speaking``: streams that its next batch waits for; ``batch``: rows of the last one, which
    took ``step_ms``. ``queued``: items that wait; the oldest of those that a caller waits for has
    waited ``oldest_ms`` (files and what is read ahead may wait for long). ``batches``: what they
    were like since the start, where there are any. ``tokens``: of speech, made since the start by
    a voice that makes such.
    """

    slots: int = 0
    busy: int = 0
    speaking: int = 0
    batch: int = 0
    step_ms: float = 0.0
    queued: int = 0
    oldest_ms: float = 0.0
    batches: Tally | None = None
    tokens: int = 0


@runtime_checkable
class Measured(Protocol):
    """An engine that can say what it is doing."""

    def load(self) -> Load:
        """Now; cheap, and called on the loop."""
        ...


# --- voice activity -------------------------------------------------------------------------

SlotArray: TypeAlias = NDArray[np.intp]


class Vad(Protocol):
    """Voice activity over many calls at once: one batched step for all that have a window.

    A call holds a slot, which keeps its recurrent state between windows. The step is a plain
    function of a few tens of microseconds a window, so it is called on the loop; how windows
    gather into batches is the business of ``engines.vad.ears``.
    """

    rate: int
    window_samples: int

    def open(self) -> int:
        """Take a slot with fresh state."""
        ...

    def close(self, slot: int) -> None:
        """Give the slot back."""
        ...

    def twin(self) -> Vad:
        """Another with the same weights and slots of its own, for use in another thread."""
        ...

    def follow(self, slot: int, windows: FloatArray) -> FloatArray:
        """Speech probabilities (n,) of windows (n, window_samples) of one call, one after the
        other: what as many steps would give, at once."""
        ...

    def step(self, slots: SlotArray, windows: FloatArray) -> FloatArray:
        """Speech probabilities, shape (n,), of the windows (n, window_samples) in [-1, 1].

        ``slots`` (n,) names the call of each row; no slot may occur twice in one step.
        """
        ...
