import asyncio
import itertools
import threading

import numpy as np
import pytest

from engines.asr.guard import Heard
from engines.asr.listening import Clip, Hearing, Listener, Threaded
from engines.audio import Pcm
from engines.ports import EngineError, Load, Priority


class Parrot:
    """A recogniser that says what it is told to and keeps what it was given.

    ``sure`` are the log probabilities of its texts, the last for all that follow.
    """

    def __init__(self, *texts: str, sure: tuple[float, ...] = (-0.1,)) -> None:
        self.texts = iter(texts)
        self.sure = itertools.chain(sure, itertools.repeat(sure[-1]))
        self.clips: list[Clip] = []

    def __call__(self, clip: Clip) -> Hearing:
        self.clips.append(clip)
        text = next(self.texts, None)
        assert text is not None, "it is asked to hear more than it was told to"
        return Hearing(Heard(text, clip.sound, next(self.sure), 0.05), "en")


async def listener(parrot: Parrot) -> Listener:
    parrot.texts, parrot.sure, texts, sure = iter([""]), iter([0.0]), parrot.texts, parrot.sure
    made = Listener("parrot", Threaded("parrot", lambda: parrot))
    await made.warm_up()
    parrot.texts, parrot.sure = texts, sure
    parrot.clips.clear()
    return made


def sound(milliseconds: int, *pauses_ms: int, level: float = 0.1) -> Pcm:
    """Noise that swells and falls 100 times a minute, with a pause of 200 ms at ``pauses_ms``."""
    place = np.arange(16 * milliseconds)
    swell = np.where(place % 9600 < 4800, level, 0.1 * level)
    samples = np.random.default_rng(5).standard_normal(len(place)) * swell
    for pause in pauses_ms:
        samples[16 * pause : 16 * (pause + 200)] = 0
    return Pcm.from_floats(samples, 16_000)


def din(milliseconds: int) -> Pcm:
    """Noise as even as a crowd's."""
    return Pcm.from_floats(
        np.random.default_rng(5).standard_normal(16 * milliseconds) * 0.1, 16_000
    )


async def test_a_clip_becomes_one_transcript_with_its_doubts(listen):
    transcript = await listen(await listener(Parrot("Go forward.")), sound(1500))
    (segment,) = transcript.segments
    assert (transcript.text, transcript.language, transcript.suspicion) == ("Go forward.", "en", "")
    assert (segment.start_ms, segment.end_ms, segment.text) == (0, 1500, "Go forward.")
    assert (segment.avg_logprob, segment.no_speech_prob) == (-0.1, 0.05)
    assert segment.compression_ratio == pytest.approx(11 / 19)


async def test_long_sound_is_heard_in_pieces_each_told_what_came_before(listen):
    one, two = (" ".join(f"{name}{number}" for number in range(20)) for name in "ab")
    parrot = Parrot(one, two)
    transcript = await listen(await listener(parrot), sound(50_000, 26_000), prompt="Zero.")
    assert transcript.text == f"{one} {two}"
    assert [clip.prompt for clip in parrot.clips] == ["Zero.", one]
    assert [clip.language for clip in parrot.clips] == [None, "en"]
    first, second = transcript.segments
    assert (first.start_ms, first.end_ms, second.end_ms) == (0, second.start_ms, 50_000)
    assert sum(len(clip.samples) for clip in parrot.clips) == 800_000
    assert max(len(clip.samples) for clip in parrot.clips) <= 28_000 * 16


async def test_words_over_silence_are_thrown_away_and_named(listen):
    transcript = await listen(await listener(Parrot("Thank you.", sure=(-1.1,))), sound(1000))
    assert (transcript.text, transcript.segments) == ("", ())
    assert transcript.suspicion == "silence"


@pytest.mark.parametrize(
    ("pcm", "suspicion"), [(sound(5000, level=1e-4), ""), (din(5000), "noise")]
)
async def test_sound_that_holds_no_voice_is_not_even_heard(listen, pcm, suspicion):
    parrot = Parrot()
    transcript = await listen(await listener(parrot), pcm, language="en")
    assert (transcript.text, transcript.suspicion, transcript.language) == ("", suspicion, "en")
    assert parrot.clips == []


async def test_silence_without_words_throws_nothing_away(listen):
    transcript = await listen(await listener(Parrot("")), sound(1000))
    assert (transcript.text, transcript.suspicion) == ("", "")


async def test_a_loop_is_cut_and_named(listen):
    transcript = await listen(await listener(Parrot("Ask not. " * 5)), sound(2500))
    assert (transcript.text, transcript.suspicion) == ("Ask not.", "loop")


# --- hearing again --------------------------------------------------------------------------

UNSURE = (-1.2, -0.2)
LONG_MS = 9000
LOOP = "Ask not. " * 5


def seconds(parrot: Parrot) -> list[float]:
    return [round(clip.duration_ms / 1000) for clip in parrot.clips]


async def test_a_loop_in_a_long_clip_is_heard_again_in_smaller_pieces(listen):
    parrot = Parrot(LOOP, "Ask not what", "your country", "can do.")
    transcript = await listen(
        await listener(parrot), sound(LONG_MS, 2900, 5800), prompt="Before.", language="en"
    )
    assert (transcript.text, transcript.suspicion) == ("Ask not what your country can do.", "loop")
    assert seconds(parrot) == [9, 3, 3, 3]
    assert [clip.prompt for clip in parrot.clips] == ["Before.", "", "Ask not what", "your country"]
    places = [(segment.start_ms, segment.end_ms) for segment in transcript.segments]
    assert places[0][0] == 0
    assert places[-1][1] == LONG_MS
    assert places[0][1] == places[1][0]


async def test_loops_in_the_pieces_of_a_loop_are_cut(listen):
    parrot = Parrot(LOOP, LOOP, "Your country.", LOOP)
    transcript = await listen(await listener(parrot), sound(LONG_MS, 2900, 5800))
    assert (transcript.text, transcript.suspicion) == ("Ask not. Your country. Ask not.", "loop")
    assert len(parrot.clips) == 4


async def test_pieces_of_an_uncertain_clip_are_taken_where_all_are_believed(listen):
    parrot = Parrot("A mumble and more of it.", "Ask not", "what your", "country can.", sure=UNSURE)
    transcript = await listen(await listener(parrot), sound(LONG_MS, 2900, 5800))
    assert (transcript.text, transcript.suspicion) == ("Ask not what your country can.", "unsure")


async def test_an_uncertain_clip_stays_where_its_pieces_are_no_surer(listen):
    parrot = Parrot("A mumble and more of it.", "Ask", "not", "what.", sure=(-1.2,))
    transcript = await listen(await listener(parrot), sound(LONG_MS, 2900, 5800))
    assert (transcript.text, transcript.suspicion) == ("A mumble and more of it.", "unsure")
    assert len(parrot.clips) == 4


async def test_too_few_words_for_the_time_are_doubted(listen):
    parrot = Parrot("Ask.", "Ask not", "what your country", "can do.")
    transcript = await listen(await listener(parrot), sound(LONG_MS, 2900, 5800))
    assert transcript.text == "Ask not what your country can do."
    assert transcript.suspicion == "pace"


@pytest.mark.parametrize(
    ("milliseconds", "priority"), [(3500, Priority.FINAL), (LONG_MS, Priority.PARTIAL)]
)
async def test_short_clips_and_partials_are_heard_once(listen, milliseconds, priority):
    parrot = Parrot(LOOP)
    transcript = await listen(await listener(parrot), sound(milliseconds), priority=priority)
    assert (transcript.text, transcript.suspicion) == ("Ask not.", "loop")
    assert len(parrot.clips) == 1


async def test_what_is_said_twice_is_neither_doubted_nor_heard_again(listen):
    parrot = Parrot("Ask not what your country. Ask not what your country.")
    transcript = await listen(await listener(parrot), sound(5000))
    assert (transcript.text[:8], transcript.suspicion, len(parrot.clips)) == ("Ask not ", "", 1)


async def test_a_piece_of_noise_takes_no_words_from_the_others(listen):
    speech, more = (
        "It is speech, " * 2 + " ".join("abcdefgh"),
        "More of it. " + " ".join("ijklmnop"),
    )
    parrot = Parrot(speech, "♪♪", more)
    transcript = await listen(await listener(parrot), sound(70_000, 24_000, 48_000))
    assert (transcript.text, transcript.suspicion) == (f"{speech} {more}", "silence")
    assert [clip.prompt for clip in parrot.clips] == ["", speech, speech]


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
        return Hearing(Heard(f"{length // 16} ms", clip.sound, -0.1, 0.05), "en")

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
    load = asr.load()
    assert (load.slots, load.busy, load.queued) == (2, 2, 3)
    assert load.oldest_ms == pytest.approx(1_000)
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
