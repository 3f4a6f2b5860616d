"""What ranges are measured on: prompts as Orpheus gets them, and audio tokens after them.

FP8 scales are as good as the activations they are measured on, and those of audio tokens are not
those of text. So the model itself speaks some sentences, by the same rules as when it is served,
or recorded tokens are taken.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from engines.build.steps import BuildError, Steps, needs, step
from engines.tts.orpheus_text import VOICES
from engines.tts.orpheus_tokens import GRAMMAR, prompt_ids

if TYPE_CHECKING:
    import torch

OWN_TEXTS: Final = "sentences of this package"
_BATCH: Final = 16
_SAMPLING: Final = {"temperature": 0.6, "top_p": 0.8, "repetition_penalty": 1.1}

Encode = Callable[[str], list[int]]


@dataclass(frozen=True, slots=True)
class Line:
    """A text to be said by ``voice``, any where it is empty; ``tokens`` where they are known."""

    text: str
    voice: str = ""
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Spoken:
    """A prompt and the audio tokens that follow it."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """All of it, as the model reads it."""
        return self.prompt + self.tokens


def read_lines(source: Path | None) -> list[Line]:
    """The texts of a file or folder, or this package's own where there is none.

    A ``.txt`` has a text on each line; a ``.jsonl`` an object ``{"text": …, "voice": …,
    "tokens": […]}``, the last two optional; the tokens are audio ids as the model writes them.
    Raises BuildError.
    """
    if source is None:
        own = resources.files("engines.build") / "sentences.txt"
        return [Line(text) for text in own.read_text("utf-8").splitlines()]
    source = Path(source).expanduser()
    lines = [line for path in _files(source) for line in _lines(path)]
    if not lines:
        raise BuildError(f"{source} has no line to calibrate on", "bad_request")
    return lines


def choose(lines: Sequence[Line], count: int, held_out: int, seed: int) -> list[Line]:
    """``held_out`` lines, then ``count`` others, each with a voice.

    Lines are repeated in other voices until there are enough; none of the first ones' texts is
    among the others' where there are texts enough.
    """
    order = random.Random(seed)
    shuffled = order.sample(lines, len(lines))
    apart = held_out if len(shuffled) > held_out else 0
    return [
        *_in_voices(shuffled[:apart] or shuffled, held_out, order),
        *_in_voices(shuffled[apart:], count, order),
    ]


def speak(
    model: Any, encode: Encode, lines: Sequence[Line], *, frames: int, seed: int, steps: Steps
) -> list[Spoken]:
    """Each line's prompt with its tokens; where it has none, the model's own, drawn with
    ``seed``, up to ``frames`` frames of 85 ms. The same on each run."""
    prompts = [prompt_ids(encode(f"{line.voice}: {line.text}")) for line in lines]
    spoken = {i: Spoken(prompts[i], line.tokens) for i, line in enumerate(lines) if line.tokens}
    silent = [i for i, line in enumerate(lines) if not line.tokens]
    most = frames * GRAMMAR.slots
    with step(steps, "generate", "tokens", len(silent) * most):
        for first in range(0, len(silent), _BATCH):
            batch = silent[first : first + _BATCH]
            made = _generate(model, [prompts[i] for i in batch], most, seed + first, steps)
            spoken |= {i: Spoken(prompts[i], own) for i, own in zip(batch, made, strict=True)}
    return [spoken[i] for i in range(len(lines))]


def digest(spoken: Iterable[Spoken]) -> str:
    """sha256 of all ids, so that two builds can be told apart by what they were measured on."""
    content = json.dumps([[one.prompt, one.tokens] for one in spoken], separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


# --- files ----------------------------------------------------------------------------------


def _files(source: Path) -> list[Path]:
    if source.is_dir():
        return sorted(path for path in source.iterdir() if path.suffix in (".txt", ".jsonl"))
    if source.is_file():
        return [source]
    raise BuildError(f"there is no file or folder {source} to calibrate on", "bad_request")


def _lines(path: Path) -> Iterator[Line]:
    try:
        rows = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(f"{path} cannot be read as UTF-8 text: {error}", "bad_request") from error
    for number, row in enumerate(rows, 1):
        if row.strip():
            yield _line(row, f"{path}:{number}") if path.suffix == ".jsonl" else Line(row.strip())


def _line(row: str, where: str) -> Line:
    try:
        content = json.loads(row)
        tokens = tuple(content.get("tokens", ()))
        line = Line(str(content["text"]), str(content.get("voice", "")), tokens)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BuildError(
            f'{where} is no object {{"text": …, "voice": …, "tokens": […]}}: {error!r}',
            "bad_request",
        ) from error
    for place, token in enumerate(tokens):
        if token not in GRAMMAR.allowed(place)[0]:
            raise BuildError(
                f"{where}: token {place} is {token}, and may be one of "
                f"{GRAMMAR.allowed(place)[0]}: tokens are audio ids, seven places in turn",
                "bad_request",
            )
    return line


def _in_voices(lines: Sequence[Line], count: int, order: random.Random) -> list[Line]:
    shift = order.randrange(len(VOICES))
    chosen = []
    for number in range(count):
        line = lines[number % len(lines)]
        voice = VOICES[(number + number // len(lines) + shift) % len(VOICES)]
        chosen.append(Line(line.text, line.voice or voice, line.tokens))
    return chosen


# --- the model's own ------------------------------------------------------------------------


def _generate(
    model: Any, prompts: list[tuple[int, ...]], most: int, seed: int, steps: Steps
) -> list[tuple[int, ...]]:
    """Continue the prompts together, padded on the left; a row that stops before is cut there."""
    torch = needs("torch")
    longest = max(map(len, prompts))
    padding = [longest - len(prompt) for prompt in prompts]
    ids = [[0] * pad + list(prompt) for pad, prompt in zip(padding, prompts, strict=True)]
    mask = [[0] * pad + [1] * len(prompt) for pad, prompt in zip(padding, prompts, strict=True)]
    device = model.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        out = model.generate(
            input_ids=torch.tensor(ids, device=device),
            attention_mask=torch.tensor(mask, device=device),
            max_new_tokens=most,
            do_sample=True,
            eos_token_id=GRAMMAR.stop,
            pad_token_id=GRAMMAR.stop,
            logits_processor=[_InPlace(longest, steps)],
            **_SAMPLING,
        )
    return [_until_stop(row) for row in out[:, longest:].tolist()]


class _InPlace:
    """Leaves only the ids that have the next place of a frame, and counts what was written.

    All rows began at once, so all are at the same place. The first frame may not be the end, or
    there would be nothing to measure.
    """

    def __init__(self, prompt: int, steps: Steps) -> None:
        self._prompt = prompt
        self._steps = steps

    def __call__(self, ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        made = ids.shape[1] - self._prompt
        allowed, may_stop = GRAMMAR.allowed(made)
        bent = logits.new_full(logits.shape, float("-inf"))
        places = slice(allowed.start, allowed.stop)
        bent[:, places] = logits[:, places]
        if may_stop and made:
            bent[:, GRAMMAR.stop] = logits[:, GRAMMAR.stop]
        self._steps.advance(len(ids))
        return bent


def _until_stop(row: list[int]) -> tuple[int, ...]:
    return tuple(row[: row.index(GRAMMAR.stop)] if GRAMMAR.stop in row else row)
