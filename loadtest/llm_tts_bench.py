"""How soon the embedded LLM and TTS answer: ``python -m loadtest.llm_tts_bench``.

For the LLM: the time to the first token of the second turn, with ten turns behind it and
without, unseen or evaluated ahead, and the tokens a second. For the TTS: the time to the first
audio of phrases of 2 to 16 words. ``--contended`` runs a process beside it that wants a core
all the time, as the other engines of a busy server do.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import numpy as np

from engines.audio import Pcm
from engines.llm import smollm2
from engines.models import ModelStore
from engines.ports import ChatRequest, Llm, Message, SpeechRequest, TextDelta, Tts, Usage
from engines.tts import hibari

SYSTEM = Message(
    "system",
    "You are a friendly voice assistant on the telephone. Answer in one or two short spoken "
    "sentences, without lists, markup or emojis. If you do not know something, say so.",
)
PHRASES = {
    2: "Of course.",
    4: "Well, that depends on",
    8: "The capital of France is the city Paris.",
    16: "You can take the train from the central station, which leaves every hour until midnight.",
}
ANSWER_TOKENS = 60
NAMES = ("Ann", "Bob", "Cat", "Dan", "Eve", "Fay", "Gus", "Hal", "Ida", "Joe")


@dataclass(frozen=True, slots=True)
class Answer:
    """``first_ms``: until the first token. ``per_second``: tokens after it."""

    text: str
    first_ms: float
    per_second: float
    usage: Usage


async def ask(llm: Llm, messages: list[Message], max_tokens: int = ANSWER_TOKENS) -> Answer:
    """One answer, timed."""
    start = first = time.perf_counter()
    text, usage = "", Usage()
    async with llm.open(ChatRequest(tuple(messages), max_tokens=max_tokens)) as deltas:
        async for delta in deltas:
            if isinstance(delta, TextDelta):
                first = first if text else time.perf_counter()
                text += delta.text
            elif isinstance(delta, Usage):
                usage = delta
    rate = (usage.output_tokens - 1) / (time.perf_counter() - first)
    return Answer(text, 1000 * (first - start), rate, usage)


def history(caller: str, turns: int) -> list[Message]:
    """A dialogue of so many turns, its first words being those of ``caller`` alone."""
    messages = [SYSTEM]
    for turn in range(turns):
        question = f"{caller} here, turn {turn}: what is the weather like in city number {turn}?"
        answer = f"In city number {turn} it is lovely, {caller}, with a few clouds and a breeze."
        messages += [Message("user", question), Message("assistant", answer)]
    return messages


async def second_turn(llm: Llm, caller: str, turns: int, ahead: bool) -> tuple[Answer, Answer]:
    """A turn after ``turns`` others that the model has not seen, and the turn after that one."""
    messages = history(caller, turns)
    if ahead:
        await ask(llm, messages, max_tokens=0)
    messages.append(Message("user", f"{caller} again: what is the best time to go there?"))
    cold = await ask(llm, messages)
    messages += [Message("assistant", cold.text), Message("user", "Thanks. What else?")]
    return cold, await ask(llm, messages)


async def bench_llm(threads: int, rounds: int, model: str) -> None:
    """Print the rows of one number of threads."""
    llm = smollm2.create(smollm2.Options(model=model, threads=threads), ModelStore())
    await llm.warm_up()
    for turns in (0, 10):
        for ahead in (False, True):
            callers = [f"{name} {ahead}" for name in NAMES[:rounds]]
            pairs = [await second_turn(llm, caller, turns, ahead) for caller in callers]
            cold = median(first.first_ms for first, _ in pairs)
            warm = median(second.first_ms for _, second in pairs)
            rate = median(answer.per_second for pair in pairs for answer in pair)
            seen = pairs[-1][1].usage
            print(
                f"llm  {threads} threads  {turns:2} turns of history  "
                f"{'evaluated ahead' if ahead else 'unseen':15}  first token {cold:5.0f} ms  "
                f"next turn {warm:4.0f} ms ({seen.cached_tokens}/{seen.input_tokens} cached)  "
                f"{rate:3.0f} tokens/s"
            )
    await llm.close()


async def speak(tts: Tts, phrase: str) -> tuple[float, list[Pcm]]:
    """Milliseconds to the first audio, and all of it."""
    start = time.perf_counter()
    first = 0.0
    chunks = []
    async with tts.open(SpeechRequest(phrase)) as stream:
        async for chunk in stream:
            first = first or 1000 * (time.perf_counter() - start)
            chunks.append(chunk)
    return first, chunks


async def bench_tts(threads: int, rounds: int) -> None:
    """Print the rows of one number of threads."""
    tts = hibari.create(hibari.Options(threads=threads), ModelStore())
    await tts.warm_up()
    for words, phrase in PHRASES.items():
        spoken = [await speak(tts, phrase) for _ in range(rounds)]
        samples = np.concatenate([chunk.floats() for chunk in spoken[-1][1]])
        level = 10 * np.log10(np.square(samples[abs(samples) > 0.01]).mean())
        print(
            f"tts  {threads} threads  {words:2} words  first audio "
            f"{median(first for first, _ in spoken):4.0f} ms  "
            f"{len(samples) / 24_000:4.2f} s of speech at {level:.0f} dB"
        )
    await tts.close()


def _want_a_core() -> None:
    while True:
        pass


@contextmanager
def company(contended: bool) -> Iterator[None]:
    """A process beside us that wants a core all the time, if so wished."""
    process = multiprocessing.get_context("spawn").Process(target=_want_a_core, daemon=True)
    if contended:
        process.start()
    try:
        yield
    finally:
        if contended:
            process.terminate()


async def bench(threads: list[int], rounds: int, model: str) -> None:
    """Print all rows."""
    for count in threads:
        await bench_llm(count, rounds, model)
    for count in threads:
        await bench_tts(count, 5 * rounds)


def main() -> None:
    """Read the command line and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3, choices=range(1, 1 + len(NAMES)))
    parser.add_argument("--model", default="smollm2-135m", help="a name, or a folder")
    parser.add_argument("--contended", action="store_true", help="beside a process that is busy")
    arguments = parser.parse_args()
    with company(arguments.contended):
        asyncio.run(bench(arguments.threads, arguments.rounds, arguments.model))


if __name__ == "__main__":
    main()
