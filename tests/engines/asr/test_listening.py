import asyncio
import threading

import numpy as np
import pytest

from engines.asr.guard import Heard
from engines.asr.listening import Clip, Hearing, Listener, Threaded
from engines.audio import Pcm
from engines.ports import EngineError, Load, Priority

SPEECH_DBFS = -20.0


class Parrot:
    """A recogniser that says what it is told to and keeps what it was given."""

    def __init__(self, *texts: str, loudness: float = SPEECH_DBFS) -> None:
        self.texts = iter(texts)
        self.loudness = loudness
        self.clips: list[Clip] = []

    def __call__(self, clip: Clip) -> Hearing:
        self.clips.append(clip)
        duration_ms = len(clip.samples) / 16
        return Hearing(Heard(next(self.texts), duration_ms, self.loudness, -0.1, 0.05), "en")


async def listener(parrot: Parrot) -> Listener:
    parrot.texts = iter(["", *parrot.texts])
    made = Listener("parrot", Threaded("parrot", lambda: parrot))
    await made.warm_up()
    parrot.clips.clear()
    return made


def sound(milliseconds: int, *pauses_ms: int) -> Pcm:
    """Noise with a pause of 200 ms at each of ``pauses_ms``."""
    samples = np.random.default_rng(5).standard_normal(16 * milliseconds) * 0.1
    for pause in pauses_ms:
        samples[16 * pause : 16 * (pause + 200)] = 0
    return Pcm.from_floats(samples, 16_000)


async def test_a_clip_becomes_one_transcript_with_its_doubts(listen):
    transcript = await listen(await listener(Parrot("Go forward.")), sound(1500))
    (segment,) = transcript.segments
    assert (transcript.text, transcript.language, transcript.suspicion) == ("Go forward.", "en", "")
    assert (segment.start_ms, segment.end_ms, segment.text) == (0, 1500, "Go forward.")
    assert (segment.avg_logprob, segment.no_speech_prob) == (-0.1, 0.05)
    assert segment.compression_ratio == pytest.approx(11 / 19)


async def test_long_sound_is_heard_in_pieces_each_told_what_came_before(listen):
    parrot = Parrot("One of two.", "Two of two.")
    transcript = await listen(await listener(parrot), sound(50_000, 26_000), prompt="Zero.")
    assert transcript.text == "One of two. Two of two."
    assert [clip.prompt for clip in parrot.clips] == ["Zero.", "One of two."]
    assert [clip.language for clip in parrot.clips] == [None, "en"]
    first, second = transcript.segments
    assert (first.start_ms, first.end_ms, second.end_ms) == (0, second.start_ms, 50_000)
    assert sum(len(clip.samples) for clip in parrot.clips) == 800_000
    assert max(len(clip.samples) for clip in parrot.clips) <= 28_000 * 16


async def test_words_over_silence_are_thrown_away_and_named(listen):
    transcript = await listen(await listener(Parrot("Thank you.", loudness=-70)), sound(1000))
    assert (transcript.text, transcript.segments) == ("", ())
    assert transcript.suspicion == "silence"


async def test_silence_without_words_throws_nothing_away(listen):
    transcript = await listen(await listener(Parrot("")), sound(1000))
    assert (transcript.text, transcript.suspicion) == ("", "")


async def test_a_loop_is_cut_and_named(listen):
    transcript = await listen(await listener(Parrot("Ask not. " * 5)), sound(2500))
    assert (transcript.text, transcript.suspicion) == ("Ask not.", "loop")


async def test_a_piece_of_noise_takes_no_words_from_the_others(listen):
    parrot = Parrot("Speech.", "♪♪", "More speech.")
    transcript = await listen(await listener(parrot), sound(70_000, 24_000, 48_000))
    assert (transcript.text, transcript.suspicion) == ("Speech. More speech.", "silence")
    assert [clip.prompt for clip in parrot.clips] == ["", "Speech.", "Speech."]


@pytest.mark.parametrize("milliseconds", [0, 99])
async def test_next_to_nothing_is_not_even_heard(listen, milliseconds):
    parrot = Parrot()
    transcript = await listen(await listener(parrot), sound(milliseconds))
    assert (transcript.text, parrot.clips) == ("", [])


async def test_another_rate_is_refused_with_the_remedy(listen):
    with pytest.raises(EngineError, match=r"8000 samples a second.*resample") as refused:
        await listen(await listener(Parrot()), Pcm.silence(1000, 8000))
    assert refused.value.code == "bad_request"


async def test_a_model_that_is_not_loaded_says_so(listen):
    with pytest.raises(EngineError, match=r"warm_up\(\) first"):
        await listen(Listener("parrot", Threaded("parrot", Parrot)), sound(1000))


async def test_a_model_that_cannot_be_loaded_fails_the_warm_up():
    def load() -> Parrot:
        raise EngineError("parrot", "unavailable", "no such folder")

    with pytest.raises(EngineError, match="no such folder"):
        await Listener("parrot", Threaded("parrot", load)).warm_up()


async def test_after_closing_nothing_is_heard(listen):
    asr = await listener(Parrot())
    await asr.close()
    with pytest.raises(EngineError, match="not loaded"):
        await listen(asr, sound(1000))


async def test_a_caller_who_leaves_in_mid_decode_holds_up_nobody(listen):
    entered, free = threading.Event(), threading.Event()

    class Slow(Parrot):
        def __call__(self, clip: Clip) -> Hearing:
            if len(clip.samples) == 8_000:
                entered.set()
                assert free.wait(10)
            return super().__call__(clip)

    asr = await listener(Slow("dropped", "Next."))
    leaving = asyncio.create_task(listen(asr, sound(500)))
    assert await asyncio.to_thread(entered.wait, 10)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    free.set()
    assert (await listen(asr, sound(1000))).text == "Next."


class Chorus:
    """A recogniser of two clips at once, each of which ends when the test says so."""

    slots = 2

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.free: dict[int, asyncio.Event] = {}
        self.stopped: list[int] = []
        self.closed = False

    async def warm_up(self) -> None:
        self.free[16_000] = asyncio.Event()
        self.free[16_000].set()

    async def hear(self, clip: Clip, priority: Priority) -> Hearing:
        length = len(clip.samples)
        self.begun.append(length // 16)
        try:
            await self.free.setdefault(length, asyncio.Event()).wait()
        except asyncio.CancelledError:
            self.stopped.append(length // 16)
            raise
        return Hearing(Heard(f"{length // 16} ms", length / 16, SPEECH_DBFS, -0.1, 0.05), "en")

    async def close(self) -> None:
        self.closed = True


async def start(listen, asr: Listener, *clips: tuple[int, Priority]) -> list[asyncio.Task]:
    """Clips handed in one after the other."""
    tasks = []
    for milliseconds, priority in clips:
        tasks.append(asyncio.create_task(listen(asr, sound(milliseconds), priority=priority)))
        await asyncio.sleep(0)
    return tasks


@pytest.mark.virtual_clock
async def test_as_many_clips_are_heard_at_once_as_there_are_slots_finals_before_partials(listen):
    chorus = Chorus()
    asr = Listener("chorus", chorus)
    await asr.warm_up()
    chorus.begun.clear()
    tasks = await start(
        listen,
        asr,
        (300, Priority.BATCH),
        (400, Priority.PARTIAL),
        (500, Priority.BATCH),
        (600, Priority.FINAL),
        (700, Priority.SPECULATIVE),
    )
    await asyncio.sleep(1)
    assert chorus.begun == [300, 400]
    assert asr.load() == Load(slots=2, busy=2, queued=3)
    for milliseconds in (300, 400, 600, 700, 500):
        chorus.free.setdefault(16 * milliseconds, asyncio.Event()).set()
    heard = [(await task).text for task in tasks]
    assert chorus.begun == [300, 400, 600, 700, 500]
    assert heard == ["300 ms", "400 ms", "500 ms", "600 ms", "700 ms"]
    assert asr.load() == Load(slots=2)


@pytest.mark.virtual_clock
async def test_a_caller_who_leaves_stops_the_clip_and_frees_its_slot(listen):
    chorus = Chorus()
    asr = Listener("chorus", chorus)
    await asr.warm_up()
    chorus.begun.clear()
    first, _, last = await start(listen, asr, *((ms, Priority.FINAL) for ms in (300, 400, 500)))
    await asyncio.sleep(1)
    first.cancel()
    await asyncio.sleep(1)
    assert chorus.stopped == [300]
    assert chorus.begun == [300, 400, 500]
    chorus.free[16 * 500].set()
    assert (await last).text == "500 ms"


async def test_closing_closes_the_recogniser_and_leaves_no_slot():
    chorus = Chorus()
    asr = Listener("chorus", chorus)
    await asr.warm_up()
    await asr.close()
    assert chorus.closed
    assert asr.load() == Load()
