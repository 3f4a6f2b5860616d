"""What one GPU can do for Orpheus: its audio decoder, and a Llama of its shape.

    python tests/gpu/bench.py                       # within 6 minutes; writes $OUT/bench.json
    python tests/gpu/bench.py --tiny --device cpu   # the same in tiny, to see that it runs

Needs PyTorch, numpy, this repository, and the pure Python packages snac and einops (folders of
these names on PYTHONPATH do). Weights are random, so no model is needed: it measures time. It
checks first that what it times is right, and stops with status 1 where it is not.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parent)]

import numpy as np
import torch
from gpu_measuring import Bench, out_of_memory, say
from orpheus_llama import TINY as TINY_LLAMA
from orpheus_llama import Decoding, Llama, Shape

try:
    from engines.tts.snac import SnacDecoder, SnacStreams
    from engines.tts.snac_weights import TINY as TINY_SNAC
    from engines.tts.snac_weights import random_snac
    from loadtest.snac_bench import decibels, random_frames, stream, whole, without_noise
except ModuleNotFoundError as error:
    sys.exit(
        f"{error}: `pip download --no-deps snac einops`, unpack the two wheels (they are zip "
        "files of pure Python) into a folder, and name it in PYTHONPATH"
    )
from engines.batching.policy import BUCKETS
from engines.tts.orpheus_tokens import TOKENS_PER_S
from engines.workers import Workers

FRAME_MS = 1000 * SnacDecoder.frame_samples / SnacDecoder.sample_rate


@dataclass(frozen=True)
class Size:
    """What is measured, and how often."""

    snac: dict[str, Any] = field(default_factory=dict)
    llama: Shape = field(default_factory=Shape)
    buckets: Sequence[int] = BUCKETS
    crowds: Sequence[int] = (8, 16, 32, 64, 128, 192, 256, 384, 512)
    crowd_s: float = 4.0
    streams: Sequence[int] = (1, 2, 4, 8, 16, 32, 64, 128)
    rounds: int = 40


TINY = Size(TINY_SNAC, TINY_LLAMA, (1, 2, 4), (2, 4), 0.6, (1, 2, 4), 5)


# --- the audio decoder ----------------------------------------------------------------------


def decoder_of(bench: Bench, slots: int, **how: Any) -> SnacDecoder:
    model = random_snac(1, **bench.size.snac)
    return SnacDecoder(model, slots=slots, device=bench.device, **how)


@torch.inference_mode()
def offline(bench: Bench, frames: np.ndarray) -> np.ndarray:
    """``SNAC.decode`` without noise, of frames (voices, n, 7)."""
    model = without_noise(random_snac(1, **bench.size.snac)).to(bench.device)
    places = ([0], [1, 4], [2, 3, 5, 6])
    codes = [torch.from_numpy(frames[..., place]).flatten(1).to(bench.device) for place in places]
    return model.decode(codes)[:, 0].cpu().numpy()


def difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max())


def check_snac(bench: Bench) -> None:
    """Streaming against offline, graphs against eager, company against solitude."""
    voices = 3
    frames = random_frames(voices, 12)
    plain = decoder_of(bench, voices, noise=False, graphs=False)
    eager = whole(stream(plain, frames))
    bench.check(
        "SNAC, streamed and offline", difference(eager, offline(bench, frames)), bench.rounding
    )
    captured = whole(stream(decoder_of(bench, voices, noise=False), frames))
    bench.check("SNAC, graphs and eager", difference(captured, eager), 1e-5)
    many = max(bench.size.buckets)
    frames = random_frames(many, 4)
    decoder = decoder_of(bench, many)
    together, alone = whole(stream(decoder, frames)), whole(stream(decoder, frames[:1]))
    bench.check(f"SNAC, alone and among {many}", difference(together[:1], alone), bench.rounding)


def time_steps(bench: Bench, decoder: SnacDecoder, name: str) -> None:
    """A step of voices that are past their head, by their number."""
    add = bench.table(
        f"SNAC, one step of {FRAME_MS:.1f} ms of audio: {name}",
        ["voices", "ms", "ms a voice", "voices in real time"],
    )
    for voices in bench.size.buckets:
        if not bench.has(3, f"{voices} voices and more"):
            break
        slots = [decoder.open(seed) for seed in range(voices)]
        for column in random_frames(voices, 4).swapaxes(0, 1):
            decoder.step(slots, [*column])
        frames = [*random_frames(voices, 1)[:, 0]]
        took = bench.median_ms(lambda slots=slots, frames=frames: decoder.step(slots, frames))
        add(voices, took, took / voices, int(voices * FRAME_MS / took))
        for slot in slots:
            decoder.close(slot)


def time_snac(bench: Bench) -> None:
    slots = max(bench.size.buckets)
    time_steps(bench, decoder_of(bench, slots, graphs=False), "eager")
    if bench.on_gpu:
        time_steps(bench, decoder_of(bench, slots), "CUDA graph")
        frames = random_frames(3, 8)
        exact = whole(stream(decoder_of(bench, 3, noise=False), frames))
        with tf32():
            rough = whole(stream(decoder_of(bench, 3, noise=False), frames))
            say(f"\nTF32 is off by {decibels(rough - exact, exact):.0f} dB")
            time_steps(bench, decoder_of(bench, slots), "CUDA graph, products in TF32")


def time_compiled(bench: Bench) -> None:
    """Last, since only torch.compile knows how long it takes."""
    if not bench.on_gpu or not bench.has(100, "SNAC, compiled"):
        return
    voices = 3
    frames = random_frames(voices, 8)
    slots = max(bench.size.buckets)
    began = time.perf_counter()
    decoder = decoder_of(bench, slots, noise=False, compiled=True)
    say(f"\ncompiled and captured in {time.perf_counter() - began:.0f} s")
    eager = decoder_of(bench, voices, noise=False, graphs=False)
    error = difference(whole(stream(decoder, frames)), whole(stream(eager, frames)))
    bench.check("SNAC, compiled and eager", error, 1e-4)
    time_steps(bench, decoder, "compiled, CUDA graph")


@contextmanager
def tf32() -> Iterator[None]:
    kinds = (torch.backends.cuda.matmul, torch.backends.cudnn)
    for kind in kinds:
        kind.allow_tf32 = True
    try:
        yield
    finally:
        for kind in kinds:
            kind.allow_tf32 = False


# --- many voices in real time ---------------------------------------------------------------


async def speak(streams: SnacStreams, seed: int, seconds: float) -> list[float]:
    """One voice whose frames arrive in real time: how late each was decoded, in ms."""
    loop = asyncio.get_running_loop()
    lot = np.random.default_rng(seed)
    frames = lot.integers(0, 4096, (int(1000 * seconds / FRAME_MS), 7))
    arrives = loop.time() + lot.random() * FRAME_MS / 1000
    late = []
    async with streams.open(seed) as voice:
        for frame in frames:
            await asyncio.sleep(max(0.0, arrives - loop.time()))
            await voice.decode(frame, 1000 * arrives + FRAME_MS)
            late.append(1000 * (loop.time() - arrives))
            arrives += FRAME_MS / 1000
    return late


async def crowd(decoder: SnacDecoder, voices: int, seconds: float) -> list[float]:
    workers = Workers("snac")
    streams = SnacStreams(decoder, workers=workers)
    try:
        spoken = await asyncio.gather(*(speak(streams, i, seconds) for i in range(voices)))
    finally:
        await streams.close()
        workers.close()
        await workers.wait_closed()
    return [late for voice in spoken for late in voice]


def time_crowds(bench: Bench) -> None:
    """More and more voices, through the batcher as the server has it, until it is too many."""
    most = max(bench.size.crowds)
    decoder = decoder_of(bench, most)
    add = bench.table(
        f"SNAC, voices in real time, window 15 ms, deadline {FRAME_MS:.1f} ms",
        ["voices", "p50 ms", "p95 ms", "p99 ms", "missed %"],
    )
    held = 0
    for voices in bench.size.crowds:
        if not bench.has(bench.size.crowd_s + 3, f"{voices} voices and more"):
            break
        late = asyncio.run(crowd(decoder, voices, bench.size.crowd_s))
        p50, p95, p99 = (float(value) for value in np.percentile(late, [50, 95, 99]))
        add(voices, p50, p95, p99, 100 * float(np.mean(np.array(late) > FRAME_MS)))
        if p95 > FRAME_MS:
            break
        held = voices
    bench.found["voices_at_p95_deadline"] = held
    say(f"voices whose p95 is within the deadline: {held}{' or more' if held == most else ''}")


# --- the language model ---------------------------------------------------------------------


@torch.inference_mode()
def check_llama(bench: Bench) -> None:
    """A cached step against the whole sequence at once, in 32 bits and tiny; then graphs."""
    model = Llama(TINY_LLAMA, bench.device, torch.float32)
    ids = torch.randint(TINY_LLAMA.vocabulary, (3, 9), device=bench.device)
    expected, cache = model.whole(ids), model.cache(3)
    steps = [
        model.step(ids[:, place], torch.tensor([place], device=bench.device), cache)
        for place in range(ids.shape[1])
    ]
    error = float((torch.stack(steps, 1) - expected).abs().max() / expected.abs().max())
    bench.check("Llama, cached and whole", error, 1e-5)
    if bench.on_gpu:
        eager, captured = (Decoding(model, model.cache(2), 4) for _ in range(2))
        captured.capture(torch.cuda.graph_pool_handle())
        captured.cache.zero_(), captured.at.fill_(4), captured.ids.zero_()
        eager.step(), captured.step()
        error = float((eager.logits - captured.logits).abs().max())
        bench.check("Llama, graphs and eager", error, 1e-5)


@torch.inference_mode()
def time_llama(bench: Bench) -> None:
    shape = bench.size.llama
    dtype = torch.bfloat16
    with out_of_memory("the Llama"):
        model = Llama(shape, bench.device, dtype)
        time_batches(bench, model, "bf16")
        if not bench.has(30, "Llama in FP8"):
            return
        try:
            model.to_fp8()
            model.step(
                torch.zeros(1, device=bench.device, dtype=torch.long),
                torch.zeros(1, device=bench.device, dtype=torch.long),
                model.cache(1),
            )
        except (RuntimeError, AttributeError, NotImplementedError) as error:
            say(f"  skipped: no FP8 by torch._scaled_mm here ({str(error).splitlines()[0]})")
            return
        time_batches(bench, model, "FP8 layers, bf16 cache")


def time_batches(bench: Bench, model: Llama, name: str) -> None:
    how = "CUDA graph" if bench.on_gpu else "eager"
    context = model.shape.context
    add = bench.table(
        f"Llama, {model.bytes / 1e9:.2f} GB read a step, {name}, cache of {context}, {how}",
        ["streams", "ms", "tokens/s", "tokens/s each", "x real time"],
    )
    pool = torch.cuda.graph_pool_handle() if bench.on_gpu else None
    held = 0
    for streams in bench.size.streams:
        if not bench.has(8, f"{streams} streams and more"):
            break
        with out_of_memory(f"{streams} streams"):
            decoding = Decoding(model, model.cache(streams), context // 2)
            if bench.on_gpu:
                decoding.capture(pool)
            each = 1000 / (took := bench.median_ms(decoding.step))
            add(streams, took, streams * each, each, each / TOKENS_PER_S)
            held = max(held, streams if each >= TOKENS_PER_S else 0)
            del decoding  # its cache makes room for the next
    most = max(bench.size.streams)
    bench.found[f"streams_in_real_time, {name}"] = held
    say(
        f"streams at {TOKENS_PER_S:.2f} tokens/s each or more: {held}"
        f"{' or more' if held == most else ''}"
    )


# --- all of it ------------------------------------------------------------------------------


def describe(bench: Bench) -> None:
    about = {"torch": torch.__version__, "device": str(bench.device)}
    if bench.on_gpu:
        gpu = torch.cuda.get_device_properties(bench.device)
        about |= {
            "gpu": gpu.name,
            "multiprocessors": gpu.multi_processor_count,
            "memory_GiB": round(gpu.total_memory / 2**30, 1),
            "cuda": torch.version.cuda,
        }
    bench.found["machine"] = about
    say(", ".join(f"{key} {value}" for key, value in about.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0", help="cuda:N or cpu (cuda:0)")
    parser.add_argument("--tiny", action="store_true", help="tiny models and few rounds")
    wanted = parser.parse_args()
    if wanted.device.startswith("cuda") and not torch.cuda.is_available():
        sys.exit("torch sees no CUDA device here: `--tiny --device cpu` shows that this runs")
    torch.manual_seed(0)
    if wanted.device == "cpu":
        torch.set_num_threads(1)
    else:
        torch.cuda.set_device(torch.device(wanted.device))
    bench = Bench(wanted.device, TINY if wanted.tiny else Size())
    for kind in (torch.backends.cuda.matmul, torch.backends.cudnn):
        kind.allow_tf32 = False  # else nothing could be said of exactness
    describe(bench)
    say("\nexactness first")
    check_snac(bench)
    check_llama(bench)
    failed = 0
    for part in (time_snac, time_crowds, time_llama, time_compiled):
        try:
            part(bench)
        except RuntimeError as error:  # of the device or its libraries: the other parts go on
            failed = 1
            bench.found.setdefault("failures", {})[part.__name__] = str(error)
            say(f"  failed: {part.__name__}: {error}")
    bench.write()
    say(f"\ntook {bench.found['took_s']} s")
    sys.exit(failed)


if __name__ == "__main__":
    main()
