"""Orpheus: speech from a Llama that writes audio tokens, and SNAC, which makes them audible.

The language model runs wherever ``source`` says: in this process by TensorRT-LLM or transformers,
or behind any server that has /v1/completions. The audio decoder runs here, many voices a batch.

It is faster than speech, so it is held back: audio is made at most ``ahead_ms`` beyond what has
been read. Leaving a request's context ends its generation and frees its slot at once.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from engines.audio import Pcm
from engines.extras import how_to_install
from engines.ports import EngineError, Load, Priority, SpeechRequest
from engines.tokens.ports import TokenRequest, TokenSource
from engines.tts.orpheus_buffer import SpeechBuffer
from engines.tts.orpheus_speech import Codec, Piece, Speech
from engines.tts.orpheus_text import FOREIGN_VOICES, TAGS, VOICES, pieces, seconds_of, speakable
from engines.tts.orpheus_tokens import (
    CUSTOM_TOKEN_0,
    FRAME_TOKENS,
    GRAMMAR,
    RATE,
    STOP,
    prompt_ids,
    seed_of,
)
from engines.tts.orpheus_watch import most_frames
from engines.workers import Workers

if TYPE_CHECKING:
    from engines.models import ModelStore
    from engines.tts.snac import SnacDecoder

_NAME: Final = "orpheus"
_REHEARSAL: Final = "Hello there."

Encode: TypeAlias = Callable[[str], list[int]]


@dataclass(frozen=True, slots=True)
class Options:
    """``model``: the folder, or the hub's name, of the weights and of tokenizer.json; a server
    of ``base_url`` has weights of its own, of which only the tokenizer is read here. ``source``:
    ``trtllm``, ``completions``, ``transformers``, or the import path of another token source.

    ``slots`` is how many speak at once, here and in the token source: one number. ``voices`` and
    ``tags`` are those that the model was trained on: a fine-tune brings its own. ``ahead_ms``:
    what is made beyond what has been read. ``piece_s``: the longest text in one go. ``retries``:
    of a piece that came out wrong, as ``watch`` finds; without it a piece may just not last
    longer than it ever should. ``window_ms``, ``early``, ``compiled``, ``noise``: of the audio
    decoder. ``kv_fraction``: of the device's free memory, for TensorRT-LLM. ``served_model``,
    ``server``, ``extra_body``, ``timeout_s``: of ``completions``.
    """

    model: str = "canopylabs/orpheus-3b-0.1-ft"
    source: str = "trtllm"
    device: str = "cuda"
    slots: int = 8
    voice: str = "tara"
    voices: tuple[str, ...] = VOICES
    tags: tuple[str, ...] = TAGS
    temperature: float = 0.6
    top_p: float = 0.8
    repetition_penalty: float = 1.1
    ahead_ms: float = 2000.0
    piece_s: float = 12.0
    retries: int = 2
    watch: bool = True
    snac: str = "hubertsiuzdak/snac_24khz"
    window_ms: float = 15.0
    early: bool = False
    compiled: bool = False
    noise: bool = True
    kv_fraction: float = 0.6
    base_url: str = "http://127.0.0.1:8000/v1"
    api_key: str = field(default="", repr=False)
    served_model: str = ""
    server: str = ""
    extra_body: dict[str, Any] = field(default_factory=dict)
    timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What is loaded besides the token source. ``encode`` gives a text's ids, the
    beginning-of-text token first; ``close`` frees the rest."""

    encode: Encode
    codec: Codec
    close: Callable[[], Awaitable[None]]


def create(options: Options, models: ModelStore) -> Orpheus:
    """The plug-in contract: loads nothing yet."""
    if options.slots < 1:
        raise EngineError(_NAME, "bad_request", f"slots is {options.slots}: set at least 1")
    name = options.source
    module = importlib.import_module(name if "." in name else f"engines.tokens.{name}")
    return Orpheus(options, module.create_source(options, models), partial(_load, options, models))


class Orpheus:
    """A Tts at 24 kHz. It has no control of speed: what a request says of it is not looked at."""

    def __init__(
        self, options: Options, source: TokenSource, load: Callable[[], Awaitable[Parts]]
    ) -> None:
        self._options = options
        self._source = source
        self._load = load
        self._parts: Parts | None = None
        self._busy = self._tokens = 0

    async def warm_up(self) -> None:
        """Load, and speak once. Raises EngineError where a part is missing or does not fit."""
        self._parts = await self._load()
        await self._source.warm_up()
        async with self.open(SpeechRequest(_REHEARSAL)) as chunks:
            async for _ in chunks:
                pass

    async def close(self) -> None:
        """Free both models."""
        await self._source.close()
        if self._parts is not None:
            await self._parts.close()
            self._parts = None

    def load(self) -> Load:
        """Requests that are open, and what the audio decoder is doing."""
        decoding = Load() if self._parts is None else self._parts.codec.load()
        return replace(decoding, slots=self._options.slots, busy=self._busy, tokens=self._tokens)

    def open(self, request: SpeechRequest) -> AbstractAsyncContextManager[AsyncIterator[Pcm]]:
        """Speak, from now on: some 85 ms an item, none where nothing can be spoken.

        Entering raises EngineError where all slots are taken (``unavailable``) and where there
        is no such voice (``bad_request``); iterating raises what the token source raises.
        """
        return self._open(request)

    @asynccontextmanager
    async def _open(self, request: SpeechRequest) -> AsyncGenerator[AsyncIterator[Pcm], None]:
        options, parts = self._options, self._parts
        if parts is None:
            raise EngineError(_NAME, "unavailable", "it is not loaded: call warm_up first")
        if self._busy >= options.slots:
            raise EngineError(
                _NAME,
                "unavailable",
                f"all {options.slots} slots are taken: admit fewer callers, or set more slots",
            )
        spoken = self._pieces(request, parts.encode)
        buffer = SpeechBuffer(RATE, options.ahead_ms / 1000.0)
        speech = Speech(
            self._source,
            parts.codec,
            buffer,
            retries=options.retries,
            watched=options.watch,
            made=self._count,
        )
        self._busy += 1
        making = asyncio.get_running_loop().create_task(speech.speak(spoken))
        try:
            yield buffer
        finally:
            making.cancel()
            try:
                await asyncio.wait([making])
            finally:  # whoever leaves may be cancelled once more, and the slot was lost for good
                self._busy -= 1

    def _count(self, tokens: int) -> None:
        self._tokens += tokens

    def _pieces(self, request: SpeechRequest, encode: Encode) -> list[Piece]:
        options = self._options
        voice = request.voice or options.voice
        if voice in FOREIGN_VOICES and voice not in options.voices:
            voice = options.voice  # clients made for another service must not need a change
        if voice not in options.voices:
            known = ", ".join(options.voices)
            raise EngineError(_NAME, "bad_request", f"there is no voice {voice!r}: take {known}")

        def piece(place: int, text: str) -> Piece:
            def tokens(attempt: int) -> TokenRequest:
                return TokenRequest(
                    prompt_ids(encode(f"{voice}: {text}")),
                    # One frame more than it may have: by that one the watch sees the fault.
                    max_tokens=(most_frames(seconds_of(text)) + 1) * FRAME_TOKENS,
                    stop=STOP,
                    temperature=options.temperature,
                    top_p=options.top_p,
                    repetition_penalty=options.repetition_penalty,
                    # Of what is said, where and how often: the same request sounds the same.
                    seed=seed_of(voice, text, place, attempt),
                    grammar=GRAMMAR,
                    priority=request.priority,
                )

            return Piece(text, tokens)

        texts = pieces(speakable(request.text, options.tags), options.piece_s)
        return [piece(place, text) for place, text in enumerate(texts)]


async def _load(options: Options, models: ModelStore) -> Parts:
    workers = Workers("snac")
    try:
        encode = await workers.run(Priority.FINAL, _load_tokenizer, options, models)
        decoder = await workers.run(Priority.FINAL, _load_decoder, options)
    except BaseException:
        workers.close()
        raise
    from engines.tts.snac import SnacStreams

    streams = SnacStreams(decoder, window_ms=options.window_ms, workers=workers)

    async def close() -> None:
        await streams.close()
        workers.close()
        await workers.wait_closed()

    return Parts(encode, streams, close)


def _load_decoder(options: Options) -> SnacDecoder:
    try:
        from engines.tts.snac import SnacDecoder, load_snac
    except ImportError as error:
        raise EngineError(
            _NAME, "unavailable", f"{error}, for its decoder: {how_to_install('orpheus')}"
        ) from error
    try:
        return SnacDecoder(
            load_snac(options.snac),
            # A slot is given back once the step that it is part of is over, which may be after
            # its request has ended and the next has begun.
            slots=2 * options.slots,
            device=options.device,
            noise=options.noise,
            early=options.early,
            compiled=options.compiled,
        )
    except (AssertionError, RuntimeError, ValueError) as error:  # the first where CUDA is lacking
        raise EngineError(
            _NAME, "unavailable", f"no decoder on {options.device} ({error}): see to [tts] device"
        ) from error


def _load_tokenizer(options: Options, models: ModelStore) -> Encode:
    from tokenizers import Tokenizer

    where = models.locate(options.model)
    try:
        if Path(where).is_dir():
            tokenizer = Tokenizer.from_file(str(Path(where) / "tokenizer.json"))
        else:
            tokenizer = Tokenizer.from_pretrained(where)
    except Exception as error:  # the library raises nothing narrower
        raise EngineError(
            _NAME, "unavailable", f"no tokenizer.json of {where} ({error}): see to [tts] model"
        ) from error
    if tokenizer.token_to_id("<custom_token_0>") != CUSTOM_TOKEN_0:
        raise EngineError(
            _NAME, "bad_request", f"{where} has no audio tokens: it is not an Orpheus model"
        )
    return lambda text: list(tokenizer.encode(text).ids)
