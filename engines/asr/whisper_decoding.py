"""What every Whisper shares, whatever runs it: its tokens, its prompt, which decoding to believe.

A backend turns an ``Attempt`` into a ``Decoded`` and leaves the rest to a ``Trial``::

    trial = Trial(clip, vocabulary, language=options.language, retries=options.retries)
    for attempt in trial:
        trial.add(self._decode(attempt))
    return trial.hearing
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from tokenizers import Tokenizer

from engines.asr.guard import Doubt, Heard, doubt
from engines.asr.listening import Clip, Hearing
from engines.ports import EngineError

POSITIONS = 448  # of the decoder, for the prompt and the text together
MOST_PROMPT_TOKENS = 223  # half of them, less <|startofprev|>
MOST_TEXT_TOKENS = 224
TOKENS_A_SECOND = 12  # fast speech has 8 in English; scripts split into bytes have more
SPARE_TOKENS = 12
_HALF = "\ufffd"
_MOST_BYTES = 4  # of a character in UTF-8


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to decode a clip: so much silence behind it, the words before it or none, how warm.

    ``language`` is a code, or None where the backend has to find out.
    """

    pad_ms: int
    before: str
    temperature: float
    language: str | None


@dataclass(frozen=True, slots=True)
class Decoded:
    """What came of an attempt: the text's tokens, without the prompt and without the end.

    ``avg_logprob`` is the mean over these tokens and the end token, as Whisper's own is;
    ``no_speech_prob`` is None where the backend cannot tell.
    """

    ids: Sequence[int]
    avg_logprob: float
    no_speech_prob: float | None
    language: str


class Vocabulary:
    """Whisper's tokens by name. ``tokenizer`` is that of tokenizer.json and is kept."""

    def __init__(self, engine: str, tokenizer: Tokenizer, *, multilingual: bool) -> None:
        self._engine = engine
        self._tokens = tokenizer
        self._tokens.encode_special_tokens = True  # a prompt's "<|en|>" is text, no command
        self.multilingual = multilingual
        self._end = self.id("<|endoftext|>")

    def id(self, token: str) -> int:
        """The id of a special token. Raises EngineError (``bad_request``) where there is none."""
        found: int | None = self._tokens.token_to_id(token)
        if found is None:
            raise self._refused(f"the model has no token {token}")
        return found

    def _refused(self, why: str) -> EngineError:
        return EngineError(
            self._engine, "bad_request", f"{why}: as a language give a code such as en, de or ja"
        )

    @property
    def no_speech(self) -> int:
        """The token whose probability right after the start says that nobody speaks."""
        newer = self._tokens.token_to_id("<|nospeech|>")
        return self.id("<|nocaptions|>") if newer is None else int(newer)

    @property
    def languages(self) -> range:
        """The ids of the languages, which lie between the start and the tasks."""
        return range(self.id("<|startoftranscript|>") + 1, self.id("<|translate|>"))

    def language(self, token: int) -> str:
        """The code that a language's token stands for."""
        return (self._tokens.id_to_token(token) or "").strip("<|>")

    def history(self, before: str) -> list[int]:
        """The tokens of what was said before, cut to its end; empty where nothing was."""
        if not before.strip():
            return []
        whole = before.encode(errors="replace").decode()  # a lone surrogate is no text to it
        words = self._tokens.encode(f" {whole.strip()}", add_special_tokens=False).ids
        return [self.id("<|startofprev|>"), *words[-MOST_PROMPT_TOKENS:]]

    def task(self, language: str) -> list[int]:
        """The tokens that start a transcript without timestamps."""
        names = ["<|startoftranscript|>"]
        if self.multilingual:
            names += [f"<|{language}|>", "<|transcribe|>"]
        ids = [self.id(name) for name in [*names, "<|notimestamps|>"]]
        if self.multilingual and ids[1] not in self.languages:
            raise self._refused(f"{names[1]} is a token of the model's, but no language")
        return ids

    def prompt(self, before: str, language: str) -> list[int]:
        """All that stands before the text."""
        return [*self.history(before), *self.task(language)]

    def text(self, ids: Sequence[int]) -> str:
        """The words of some tokens, without any special ones, which lie behind the end's."""
        words: str = self._tokens.decode(self.spoken(ids))
        return words.strip()

    def spoken(self, ids: Sequence[int]) -> list[int]:
        """Those that are text."""
        return [token for token in ids if token < self._end]

    def characters(self, ids: Sequence[int]) -> list[str]:
        """What each token adds to the text. Where several make up one character, the last does."""
        texts: list[str] = []
        before: list[int] = []
        for token in ids:
            before.append(token)
            text: str = self._tokens.decode(before)
            if text.endswith(_HALF) and len(before) < _MOST_BYTES:
                texts.append("")
            else:
                texts.append(text)
                before = []
        return texts


def most_tokens(duration_ms: float) -> int:
    """As many tokens of text as can be said in the time."""
    return min(ceil(duration_ms / 1000 * TOKENS_A_SECOND) + SPARE_TOKENS, MOST_TEXT_TOKENS)


class Trial:
    """The attempts at one clip until one of them settles it.

    ``language`` is that of the options, the clip's own goes before it. ``pad_ms`` 0 is for a
    backend whose window has one length.
    """

    def __init__(
        self,
        clip: Clip,
        vocabulary: Vocabulary,
        *,
        language: str = "",
        pad_ms: int = 0,
        retries: int = 2,
    ) -> None:
        self._clip = clip
        self._vocabulary = vocabulary
        self._language = _code(clip.language or language)
        if not vocabulary.multilingual:
            self._language = "en"
        self._pad_ms = pad_ms
        self._retries = retries
        self._sound = clip.sound
        self._heard: list[Heard] = []
        self._ids: list[Sequence[int]] = []

    def __iter__(self) -> Iterator[Attempt]:
        """The plain way; then more silence and no prompt, which misleads at times; then warmer."""
        yield Attempt(self._pad_ms, self._clip.prompt, 0.0, self._language)
        coldest = 0 if self._pad_ms or self._clip.prompt else 1  # else it would hear the same
        for retry in range(self._retries):
            if is_settled(self._heard):
                return
            yield Attempt(2 * self._pad_ms, "", 0.2 * (retry + coldest), self._language)

    def add(self, decoded: Decoded) -> None:
        """What came of the last attempt."""
        self._language = decoded.language
        text = self._vocabulary.text(decoded.ids)
        self._ids.append(decoded.ids)
        self._heard.append(self.heard(text, decoded.avg_logprob, decoded.no_speech_prob))

    def heard(
        self, text: str, avg_logprob: float | None = None, no_speech_prob: float | None = None
    ) -> Heard:
        """Some words for this clip, as the guard wants them."""
        return Heard(text, self._sound, avg_logprob, no_speech_prob)

    @property
    def hearing(self) -> Hearing:
        """The best of the attempts so far, of which there must be one."""
        believed = best(self._heard)
        doubts = (doubt(each) for each in self._heard if each is not believed)
        return Hearing(believed, self._language, disbelieved=tuple(filter(None, doubts)))

    @property
    def ids(self) -> list[int]:
        """The tokens of its text."""
        place = self._heard.index(best(self._heard))
        return self._vocabulary.spoken(self._ids[place])


def is_settled(attempts: list[Heard]) -> bool:
    """Whether the last attempt needs no other: it is believed, no speech, or the same again.

    What comes out alike under a longer padding was said so: people do say things twice.
    """
    last = attempts[-1]
    if (why := doubt(last)) in (None, Doubt.SILENCE, Doubt.NOISE):
        return True
    repeated = len(attempts) > 1 and last.words == attempts[-2].words
    return repeated and why is not Doubt.LOOP


def best(attempts: list[Heard]) -> Heard:
    """The last where it is believed, else the likeliest of those that are no loop."""
    if is_settled(attempts):
        return attempts[-1]
    return max(attempts, key=lambda heard: (doubt(heard) is not Doubt.LOOP, heard.avg_logprob))


def _code(language: str) -> str | None:
    """``en`` of ``en-GB`` or ``EN_us``; None of nothing."""
    return language.replace("_", "-").split("-")[0].lower() or None
