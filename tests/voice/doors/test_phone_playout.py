"""What a telephone is sent and what its caller has heard, by the clock and by its marks."""

import numpy as np
import pytest

from engines.audio import Pcm
from pipelines.conversation.dialogue import AgentItem
from voice.doors.phone_pacer import Pacer
from voice.doors.phone_playout import MOST_LAG_MS, BlockedError, Playout

RATE = 8_000
WORDS = "one two three four five six seven eight nine ten"


def tone(milliseconds: int, rate: int = RATE, level: int = 8_000, hertz: float = 300.0) -> Pcm:
    at = np.arange(milliseconds * rate // 1000) / rate
    return Pcm((level * np.sin(2 * np.pi * hertz * at)).astype(np.int16), rate)


def begun(marks: bool = True, epoch: int = 3, milliseconds: int = 2_000) -> tuple[Playout, AgentItem]:  # fmt: skip  # noqa: E501
    playout, item = Playout(Pacer(RATE, 20), marks=marks), AgentItem("item_1", spoken=True)
    item.say(WORDS)
    item.sound(milliseconds)
    playout.begin(epoch, item, 0.0)
    playout.put(tone(milliseconds))
    return playout, item


def run(playout: Playout, until: float, since: float = 0.0) -> list[tuple[float, object]]:
    """All that is sent until then, each with its time."""
    sent, now = [], since
    while now <= until:
        sent += [(now, each) for each in playout.take(now)]
        now += 5.0
    return sent


def marks_in(sent: list[tuple[float, object]]) -> list[str]:
    return [each for _, each in sent if isinstance(each, str)]


def audio_in(sent: list[tuple[float, object]]) -> np.ndarray:
    return np.concatenate([each for _, each in sent if isinstance(each, np.ndarray)])


def test_marks_carry_their_reply_and_stand_every_half_second_and_at_the_end() -> None:
    playout, _ = begun()
    playout.finish()
    sent = run(playout, 2_500)
    assert marks_in(sent) == ["e3-1", "e3-2", "e3-3", "e3-4", "e3-5-end"]
    assert sent[-1][1] == "e3-5-end"
    assert len(audio_in(sent)) == 2 * RATE


def test_a_wire_that_tells_nothing_is_asked_nothing() -> None:
    playout, _ = begun(marks=False)
    playout.finish()
    assert marks_in(run(playout, 2_500)) == []


def test_the_end_is_marked_even_where_it_is_told_after_the_last_frame() -> None:
    playout, _ = begun(milliseconds=100)
    first = run(playout, 0)
    assert marks_in(first) == ["e3-1"]
    playout.put(tone(20))
    assert marks_in(run(playout, 500, 5)) == []
    playout.finish()
    assert playout.take(505) == ["e3-2-end"]


def test_by_the_clock_what_was_heard_is_what_has_been_sent_for_long_enough() -> None:
    playout, item = begun(marks=False)
    run(playout, 1_000)
    assert playout.heard_ms(1_000) == pytest.approx(1_000, abs=1)
    playout.stop(1_000, flushed=True)
    assert item.played_ms == pytest.approx(1_000, abs=1)
    assert WORDS.startswith(item.heard_text)
    assert 0 < len(item.heard_text) < len(WORDS)


def test_a_mark_that_is_late_says_how_much_less_was_heard() -> None:
    playout, item = begun()
    run(playout, 500)
    playout.played("e3-1", 180 + 300)  # its audio ends at 180
    assert playout.lag_ms == 300
    run(playout, 1_000, 505)
    playout.stop(1_000, flushed=True)
    assert item.played_ms == pytest.approx(700, abs=1)


def test_what_a_mark_has_told_was_heard_whatever_the_clock_says() -> None:
    playout, item = begun()
    sent = run(playout, 600)
    last = marks_in(sent)[-1]
    playout.played(last, 605)
    playout.stop(606, flushed=True)
    assert item.played_ms >= 600


def test_marks_of_what_was_thrown_away_say_nothing() -> None:
    playout, item = begun()
    run(playout, 600)
    playout.stop(600, flushed=True)
    heard_ms = item.played_ms
    playout.played("e3-1", 2_000)  # a carrier returns them all when it clears
    playout.played("e3-2", 2_000)
    assert playout.lag_ms == 0
    assert item.played_ms == heard_ms
    playout.begin(4, AgentItem("item_2", spoken=True), 3_000)
    playout.put(tone(1_000))
    assert marks_in(run(playout, 3_100, 3_000)) == ["e4-3"]
    playout.played("e3-2", 3_150)
    playout.played("e9-9", 3_150)
    assert playout.lag_ms == 0


def test_a_mark_that_overtook_another_settles_both() -> None:
    playout, _ = begun()
    run(playout, 1_000)
    playout.played("e3-2", 1_000)
    lag_ms = playout.lag_ms
    playout.played("e3-1", 1_900)
    assert playout.lag_ms == lag_ms


def test_a_mark_cannot_make_a_caller_deaf() -> None:
    playout, _ = begun()
    run(playout, 500)
    playout.played("e3-1", 60_000)
    assert playout.lag_ms == MOST_LAG_MS


def test_a_reply_that_waits_behind_another_is_cut_alone() -> None:
    playout, first = begun(milliseconds=400)
    playout.finish()
    first.status = "completed"
    second = AgentItem("item_2", spoken=True)
    second.say(WORDS)
    second.sound(2_000)
    playout.begin(4, second, 0.0)
    playout.put(tone(2_000))
    run(playout, 1_000)
    playout.stop(1_000, flushed=True)
    assert first.heard_ms is None
    assert second.played_ms == pytest.approx(600, abs=1)


def test_what_is_still_said_of_an_older_reply_is_cut_too() -> None:
    playout, first = begun(milliseconds=1_000)
    playout.finish()
    first.status = "completed"
    playout.begin(4, AgentItem("item_2", spoken=True), 100.0)
    run(playout, 300)
    playout.stop(300, flushed=True)
    assert first.played_ms == pytest.approx(300, abs=1)


def test_who_cannot_take_back_hears_what_was_sent_and_a_fading_end() -> None:
    playout, item = begun(marks=False)
    sent = run(playout, 300)
    playout.stop(300, flushed=False)
    after = run(playout, 1_000, 300)
    tail = audio_in(after)
    assert len(tail) == 160  # one frame
    assert abs(int(tail[-1])) < 200
    assert item.played_ms == pytest.approx(len(audio_in(sent)) / 8, abs=1)
    playout.stop(1_000, flushed=False)
    assert run(playout, 2_000, 1_000) == []


def test_whatever_comes_after_a_stop_begins_anew() -> None:
    playout, _ = begun()
    run(playout, 300)
    playout.stop(300, flushed=True)
    assert playout.deadline is None
    assert playout.heard_at(300) == 300
    playout.begin(5, None, 400)
    playout.put(tone(40))
    playout.finish()
    assert marks_in(run(playout, 500, 400)) == ["e5-2-end"]


@pytest.mark.parametrize("rate", [16_000, 22_050, 24_000])
def test_how_a_reply_is_cut_is_not_heard(rate: int) -> None:
    """Field, line 2: what a filter holds back changes neither the pace nor the length."""
    voice = tone(1_000, rate)
    whole, cut = Playout(Pacer(RATE, 20), marks=False), Playout(Pacer(RATE, 20), marks=False)
    for playout, size in ((whole, len(voice)), (cut, 137)):
        playout.begin(1, None, 0.0)
        for start in range(0, len(voice), size):
            playout.put(voice.part(start, start + size))
        playout.finish()
    one, other = audio_in(run(whole, 1_500)), audio_in(run(cut, 1_500))
    assert len(one) == len(other)
    assert 1_000 <= len(one) / 8 <= 1_020
    assert np.abs(one.astype(int) - other.astype(int)).max() <= 3  # dither
    expected = tone(1_000).samples.astype(int)
    assert np.abs(one[400:7_600].astype(int) - expected[400:7_600]).max() < 400


def test_a_line_that_takes_nothing_for_two_minutes_is_given_up() -> None:
    playout, _ = begun()
    playout.hold(True)
    with pytest.raises(BlockedError, match="takes none"):
        for _ in range(130):
            playout.put(tone(1_000))
    assert playout.take(1_000) == []


def test_of_a_long_call_only_what_may_still_be_cut_is_kept() -> None:
    playout, now = Playout(Pacer(RATE, 20), marks=False), 0.0
    items = [AgentItem(f"item_{number}", spoken=True) for number in range(50)]
    for item in items:
        item.say(WORDS)
        item.sound(1_000)
        item.status = "completed"
        playout.begin(1, item, now)
        playout.put(tone(1_000))
        playout.finish()
        run(playout, now + 1_500, now)
        now += 1_500
    assert len(playout._said) <= 4
    playout.stop(now, flushed=True)
    assert {item.heard_ms for item in items} == {None}


def test_what_is_no_item_is_taken_back_like_one() -> None:
    playout = Playout(Pacer(RATE, 20), marks=True)
    playout.begin(0, None, 0.0)
    playout.put(tone(1_000))
    assert marks_in(run(playout, 100)) == ["e0-1"]
    playout.stop(100, flushed=True)
    assert playout.take(200) == []


def test_when_all_will_have_been_heard_is_known() -> None:
    playout, _ = begun(milliseconds=1_000)
    playout.finish()
    assert playout.heard_at(0.0) == pytest.approx(1_000 + 500)  # and the last mark is waited for
    sent = run(playout, 1_000)
    playout.played(marks_in(sent)[-1], 1_010)
    assert playout.heard_at(1_010) == 1_010
