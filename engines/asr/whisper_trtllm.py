"""Whisper on TensorRT-LLM's PyTorch backend: many clips at once, each a request of its own.

One clip a request is what its in-flight batching wants: a clip joins the batch at the next step
and leaves it with its last token. The engine pads each to 30 s. Tokens are read as they come,
so that an answer that loops is given up at once, and leaving aborts it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from engines.asr.guard import Doubt, doubt
from engines.asr.listening import RATE, Clip, Hearing, Listener
from engines.asr.whisper_checkpoint import Checkpoint, read, without_rules
from engines.asr.whisper_decoding import POSITIONS, Attempt, Decoded, Trial, most_tokens
from engines.asr.whisper_forcing import Forcing, as_text, forcing, take_any_prompt
from engines.models import ModelStore
from engines.ports import Asr, EngineError, Priority
from engines.trtllm import Runtime, Written

NAME: Final = "whisper_trtllm"
ENCODER_POSITIONS: Final = 1500  # of every clip, however short
CROSS_FRACTION: Final = 0.75  # 1500 positions of the encoder to at most 448 of the decoder
WATCHED_TOKENS: Final = 16
GRAPHS: Final = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128)


@dataclass(frozen=True)
class Options:
    """``model`` is a folder in transformers' format, or a name at the hub.

    ``language``: the code of the language spoken; empty: detected in each clip. ``slots``:
    clips in flight, the engine's max_batch_size. ``encoders``: clips that are encoded in one
    step. ``kv_fraction``: of the free memory, kept for keys and values; a clip needs 31 MB of
    it in 16 bits with large-v3-turbo, 246 MB with large-v3. ``retries``: how often a doubtful
    clip is decoded again. ``no_speech`` False does without the probability that nobody speaks,
    and needs a ``language``; decoding is then three steps shorter and may overlap.
    """

    model: str = "openai/whisper-large-v3-turbo"
    language: str = ""
    slots: int = 32
    encoders: int = 8
    kv_fraction: float = 0.6
    dtype: str = "auto"
    retries: int = 2
    no_speech: bool = True


def create(options: Options, models: ModelStore) -> Asr:
    """The recogniser; ``warm_up`` loads the model."""
    if not (options.no_speech or options.language):
        raise EngineError(
            NAME, "bad_request", "without no_speech no language is detected: set a language"
        )
    checkpoint = read(NAME, options.model, models)
    return Listener(NAME, TrtWhisper(options, checkpoint))


def arguments(api: Any, where: str, options: Options) -> dict[str, Any]:
    """Arguments of ``LLM``: docs/source/models/encoder-decoder.md of TensorRT-LLM."""
    graphs = [size for size in GRAPHS if size < options.slots]
    return {
        "model": where,
        "backend": "pytorch",
        "attn_backend": "TRTLLM",
        "dtype": options.dtype,
        "max_batch_size": options.slots,
        "max_input_len": ENCODER_POSITIONS,
        "max_num_tokens": options.encoders * ENCODER_POSITIONS,
        "enable_chunked_prefill": False,
        "disable_overlap_scheduler": options.no_speech,  # see Forcing
        "stream_interval": 1,
        "kv_cache_config": api.KvCacheConfig(
            enable_block_reuse=False,
            free_gpu_memory_fraction=options.kv_fraction,
            cross_kv_cache_fraction=CROSS_FRACTION,
        ),
        "cuda_graph_config": api.CudaGraphConfig(
            batch_sizes=[*graphs, options.slots], enable_padding=True
        ),
        "scheduler_config": api.SchedulerConfig(use_python_scheduler=True),
    }


class TrtWhisper:
    """A recogniser of ``slots`` clips at once, see ``engines.asr.listening.Recogniser``."""

    def __init__(self, options: Options, checkpoint: Checkpoint) -> None:
        self.slots = options.slots
        self._options = options
        self._checkpoint = checkpoint
        self._vocabulary = checkpoint.vocabulary
        self._end = self._vocabulary.id("<|endoftext|>")
        self._runtime = Runtime(
            NAME,
            slots=options.slots,
            arguments=lambda api: arguments(api, self._where(), options),
        )
        self._folder: TemporaryDirectory[str] | None = None

    async def warm_up(self) -> None:
        """Load the model. Raises EngineError."""
        try:
            await self._runtime.start()
            llm = self._runtime.llm
            take_any_prompt(NAME, llm)
        except EngineError:
            await self.close()
            raise
        profile = getattr(llm.args, "max_batch_size", None) or self.slots
        self.slots = min(self.slots, profile)

    async def close(self) -> None:
        """Free the device."""
        await self._runtime.close()
        if self._folder:
            self._folder.cleanup()

    async def hear(self, clip: Clip, priority: Priority) -> Hearing:  # noqa: ARG002
        """Decode one clip of at most 30 s, again where the guard doubts the result.

        The engine serves in order of arrival: who goes first is decided before.
        """
        options = self._options
        trial = Trial(clip, self._vocabulary, language=options.language, retries=options.retries)
        for attempt in trial:
            trial.add(await self._decode(clip, attempt, trial))
        return trial.hearing

    def _where(self) -> str:
        """What the engine loads. Where a processor writes the task, it follows the rules too."""
        where = self._checkpoint.where
        if not self._options.no_speech:
            return where
        self._folder = TemporaryDirectory(prefix="antiphon-whisper-")
        return str(without_rules(where, Path(self._folder.name)))

    async def _decode(self, clip: Clip, attempt: Attempt, trial: Trial) -> Decoded:
        prompt = self._vocabulary.history(attempt.before)
        forced = None
        if self._options.no_speech:
            forced = forcing(self._checkpoint, attempt.language)
            prompt.append(forced.start)
        else:
            prompt += self._vocabulary.task(str(attempt.language))
        answer = Answer(forced, attempt.language, self._end)
        most = min(most_tokens(clip.duration_ms), POSITIONS - len(prompt) - answer.forced)
        inputs = {
            "prompt": as_text(prompt),
            "multi_modal_data": {"audio": [(clip.samples, RATE)]},
        }
        sampling = self._sampling(answer.forced + most, attempt.temperature, forced)
        async with self._runtime.open(inputs, sampling) as stream:
            async for written in stream:
                answer.add(written)
                if answer.is_due and self._loops(answer, trial):
                    break
        return answer.decoded(self._vocabulary.language)

    def _sampling(self, most: int, temperature: float, forced: Forcing | None) -> Any:
        """One for each request, since the engine writes into it."""
        return self._runtime.sampling(
            max_tokens=most,
            end_id=self._end,
            temperature=temperature,
            seed=0,  # the same clip comes out the same
            logprobs=2,
            detokenize=False,
            logits_processor=forced,
        )

    def _loops(self, answer: Answer, trial: Trial) -> bool:
        return doubt(trial.heard(self._vocabulary.text(answer.ids))) is Doubt.LOOP


class Answer:
    """The tokens of one request as they come: first the forced ones, then the text."""

    def __init__(self, forced: Forcing | None, language: str | None, end: int) -> None:
        self.forced = len(forced.task) if forced else 0
        self.ids: list[int] = []
        self._forcing = forced
        self._language = language
        self._end = end
        self._task: list[int] = []
        self._logprobs: list[float] = []
        self._no_speech_prob: float | None = None
        self._watched = 0

    def add(self, written: Written) -> None:
        """Take the next tokens. Raises EngineError where the engine has ended them itself."""
        for token, logprobs in zip(written.tokens, written.logprobs, strict=True):
            if self._forcing and len(self._task) < self.forced:
                self._take_forced(self._forcing, token, logprobs)
                continue
            self._logprobs.append(logprobs[token])
            if token != self._end:
                self.ids.append(token)
        if written.finish not in ("", "stop", "length"):
            raise EngineError(NAME, "failed", f"the engine broke off: {written.finish}")

    @property
    def is_due(self) -> bool:
        """Whether enough has come since the last time to look for a loop."""
        if len(self.ids) < self._watched + WATCHED_TOKENS:
            return False
        self._watched = len(self.ids)
        return True

    def decoded(self, language_of: Callable[[int], str]) -> Decoded:
        """All of it."""
        language = self._language
        if self._forcing and self._forcing.task[0] is None:
            language = language_of(self._task[0])
        mean = sum(self._logprobs) / max(1, len(self._logprobs))
        return Decoded(self.ids, mean, self._no_speech_prob, str(language))

    def _take_forced(self, forced: Forcing, token: int, logprobs: Mapping[int, float]) -> None:
        place = len(self._task)
        wanted = forced.task[place]
        if token != wanted and not (wanted is None and token in forced.languages):
            raise EngineError(
                NAME,
                "failed",
                f"TensorRT-LLM wrote the token {token} where {wanted} was forced: this release "
                "bends the logits in another way; set no_speech = false and a language",
            )
        if place == 0:
            self._no_speech_prob = forced.no_speech_prob(token, logprobs)
        self._task.append(token)
