"""The gate and the ledger of replies: nothing stale goes out, and what was heard is known."""

import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from engines.audio import Pcm
from engines.ports import Usage
from pipelines.conversation.echo import EchoGuard
from pipelines.conversation.events import Output, ReplyAudio, ReplyFinished, ReplyText
from pipelines.conversation.playback import Playback, Player
from pipelines.conversation.pulse import RESERVE_MS


def audio(epoch: int, duration_ms: int) -> ReplyAudio:
    return ReplyAudio(epoch, Pcm.silence(duration_ms, 24_000))


# --- the listener's buffer ------------------------------------------------------------------


def test_audio_is_heard_in_real_time_from_when_it_was_sent() -> None:
    player = Player()
    player.send(300, now=1_000)
    assert [player.heard_ms(now) for now in (1_000, 1_100, 1_300, 9_000)] == [0, 100, 300, 300]
    assert [player.lead_ms(now) for now in (1_000, 1_100, 1_300, 9_000)] == [300, 200, 0, 0]


def test_audio_that_is_sent_early_queues_up_behind_the_rest() -> None:
    player = Player()
    player.send(300, now=1_000)
    player.send(300, now=1_100)
    assert player.lead_ms(1_100) == 500
    assert player.heard_ms(1_500) == 500


def test_a_buffer_that_ran_dry_plays_on_from_the_next_audio() -> None:
    player = Player()
    player.send(100, now=1_000)
    player.send(100, now=5_000)
    assert player.heard_ms(5_000) == 100
    assert player.heard_ms(5_050) == 150


steps = st.lists(st.tuples(st.integers(0, 2_000), st.integers(0, 500)), max_size=30)


@given(steps)
def test_no_more_is_heard_than_sent_nor_faster_than_time_nor_ever_unheard(
    steps: list[tuple[int, int]],
) -> None:
    player, now, heard = Player(), 0.0, 0.0
    for elapsed_ms, duration_ms in steps:
        now += elapsed_ms
        assert heard <= player.heard_ms(now) <= min(player.sent_ms, heard + elapsed_ms)
        heard = player.heard_ms(now)
        player.send(duration_ms, now)
        assert player.heard_ms(now) == heard, "what is sent is not heard yet"
    assert player.heard_ms(now + player.lead_ms(now)) == player.sent_ms


# --- the gate -------------------------------------------------------------------------------


class Wire:
    """A playback and what it has let out."""

    def __init__(self) -> None:
        self.sent: list[Output] = []
        self.playback = Playback(self.sent.append, EchoGuard())


def test_a_reply_goes_out_as_it_comes() -> None:
    wire = Wire()
    wire.playback.begin(1, held=False)
    said: list[Output] = [ReplyText(1, "Hi."), audio(1, 200), ReplyFinished(1, Usage())]
    assert all(wire.playback.put(output, now=0) for output in said)
    assert wire.sent == said
    assert wire.playback.epoch == 1
    assert wire.playback.heard_ms(150) == 150
    assert wire.playback.lead_ms(150) == 50


def test_nothing_goes_out_before_a_reply_begins() -> None:
    wire = Wire()
    assert not wire.playback.put(ReplyText(0, "?"), now=0)
    assert wire.sent == []


def test_a_held_reply_is_silent_until_it_is_released_and_plays_from_then_on() -> None:
    wire = Wire()
    wire.playback.begin(1, held=True)
    said: list[Output] = [ReplyText(1, "Hi."), audio(1, 200), audio(1, 300)]
    assert all(wire.playback.put(output, now=0) for output in said)
    assert (wire.sent, wire.playback.heard_ms(900), wire.playback.lead_ms(900)) == ([], 0, 500)
    wire.playback.release(1, now=1_000)
    assert wire.sent == said
    assert wire.playback.lead_ms(1_000) == 500
    assert wire.playback.heard_ms(1_100) == 100
    wire.playback.put(ReplyFinished(1, Usage()), now=1_100)
    assert wire.sent[-1] == ReplyFinished(1, Usage())


def test_a_reply_is_held_until_it_is_released_or_stopped() -> None:
    playback = Playback(lambda _: None, EchoGuard())
    playback.begin(1, held=True)
    assert (playback.holds(1), playback.holds(2)) == (True, False)
    playback.release(1, now=0)
    assert not playback.holds(1)
    playback.begin(2, held=True)
    playback.stop(2)
    assert not playback.holds(2)


def test_a_dropped_reply_leaves_no_trace() -> None:
    wire = Wire()
    wire.playback.begin(1, held=True)
    wire.playback.put(audio(1, 200), now=0)
    wire.playback.stop(1)
    wire.playback.release(1, now=10)
    assert not wire.playback.put(audio(1, 200), now=20)
    assert (wire.sent, wire.playback.heard_ms(900), wire.playback.lead_ms(20)) == ([], 0, 0)


def test_a_stopped_reply_says_nothing_more_and_is_still_known() -> None:
    wire = Wire()
    wire.playback.begin(1, held=False)
    wire.playback.put(audio(1, 500), now=0)
    wire.playback.stop(1)
    assert not wire.playback.put(audio(1, 500), now=100)
    assert len(wire.sent) == 1
    assert (wire.playback.epoch, wire.playback.heard_ms(100)) == (1, 100)


def test_an_older_reply_is_stale_as_soon_as_another_begins() -> None:
    wire = Wire()
    wire.playback.begin(1, held=False)
    wire.playback.begin(2, held=False)
    assert not wire.playback.put(ReplyText(1, "late"), now=0)
    wire.playback.stop(1)
    wire.playback.release(1, now=0)
    assert wire.playback.put(ReplyText(2, "Hi."), now=0), "what is stale stops no other"
    assert wire.sent == [ReplyText(2, "Hi.")]


def test_releasing_twice_lets_out_once() -> None:
    wire = Wire()
    wire.playback.begin(1, held=True)
    wire.playback.put(ReplyText(1, "Hi."), now=0)
    wire.playback.release(1, now=0)
    wire.playback.release(1, now=0)
    assert wire.sent == [ReplyText(1, "Hi.")]


@pytest.mark.parametrize("epoch", [0, 1, 2])
def test_an_epoch_that_does_not_rise_is_refused(epoch: int) -> None:
    wire = Wire()
    wire.playback.begin(2, held=False)
    with pytest.raises(ValueError, match=f"epoch {epoch} does not rise above 2"):
        wire.playback.begin(epoch, held=False)
    assert wire.playback.put(ReplyText(2, "still here"), now=0)


def test_a_reply_is_heard_after_what_still_sounds_of_the_one_before() -> None:
    playback = Playback(lambda _: None, EchoGuard())
    playback.begin(1, held=False)
    playback.put(audio(1, 1_000), now=0)
    playback.begin(2, held=False)
    playback.put(audio(2, 500), now=400)
    assert [playback.heard_ms(now) for now in (400, 1_000, 1_200, 1_500)] == [0, 0, 200, 500]


def test_a_listener_who_flushed_hears_nothing_more_of_what_was_sent() -> None:
    playback = Playback(lambda _: None, EchoGuard())
    playback.begin(1, held=False)
    playback.put(audio(1, 1_000), now=0)
    playback.flush(now=300)
    assert playback.heard_ms(9_000) == 300
    playback.begin(2, held=False)
    playback.put(audio(2, 500), now=350)
    assert playback.heard_ms(450) == 100


def test_a_reply_that_is_stopped_while_it_is_let_out_stops_there() -> None:
    sent: list[Output] = []

    def send(output: Output) -> None:
        sent.append(output)
        playback.stop(1)

    playback = Playback(send, EchoGuard())
    playback.begin(1, held=True)
    playback.put(ReplyText(1, "Hi."), now=0)
    playback.put(ReplyText(1, " Bye."), now=0)
    playback.release(1, now=0)
    assert sent == [ReplyText(1, "Hi.")]


# --- how its replies are doing --------------------------------------------------------------


def test_audio_that_comes_too_late_in_a_reply_is_an_underrun() -> None:
    playback = Playback(lambda _: None)
    playback.begin(1, held=False)
    playback.put(audio(1, 200), now=0)
    playback.put(audio(1, 200), now=500)
    assert (playback.pulse.underruns, playback.pulse.underrun_ms) == (1, 500 - 200 - RESERVE_MS)


def test_what_is_held_is_not_late() -> None:
    playback = Playback(lambda _: None)
    playback.begin(1, held=True)
    playback.put(audio(1, 200), now=0)
    playback.put(audio(1, 200), now=900)
    playback.release(1, now=1_000)
    playback.put(audio(1, 200), now=1_400 + RESERVE_MS)
    assert playback.pulse.underruns == 0


def test_a_listener_who_was_cut_off_or_has_heard_all_lacks_nothing() -> None:
    playback = Playback(lambda _: None)
    playback.begin(1, held=False)
    playback.put(audio(1, 2_000), now=0)
    assert playback.pulse.lead_ms(1_500) == 500 + RESERVE_MS
    playback.pause(1, now=1_500)
    assert playback.pulse.lead_ms(1_500) is None
    playback.resume(1, heard_ms=1_000, now=5_000)
    assert playback.pulse.lead_ms(6_000) == RESERVE_MS
    playback.put(ReplyFinished(1, Usage()), now=5_500)
    assert playback.pulse.lead_ms(6_000) is None
    playback.begin(2, held=False)
    playback.put(audio(2, 200), now=9_000)
    assert playback.pulse.underruns == 0


class AnyReplies(RuleBasedStateMachine):
    """Replies that begin, put, are held, released and stopped in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Output] = []
        self.playback = Playback(self._sent, EchoGuard())
        self.now = 0.0
        self.serial = 0
        self.put: list[Output] = []
        self.leaks: list[Output] = []
        self.current = 0
        self.held = self.stopped = False
        self.heard = 0.0

    def _sent(self, output: Output) -> None:
        self.sent.append(output)
        if output.epoch != self.current or self.held or self.stopped:
            self.leaks.append(output)

    @rule(held=st.booleans())
    def a_reply_begins(self, held: bool) -> None:
        self.current += 1
        self.held, self.stopped, self.heard = held, False, 0.0
        self.playback.begin(self.current, held=held)

    @rule(back=st.sampled_from([0, 0, 0, 1, 2, -1]), duration_ms=st.integers(0, 400))
    def a_reply_puts(self, back: int, duration_ms: int) -> None:
        self.serial += 1
        epoch = self.current - back
        output: Output = ReplyText(epoch, str(self.serial))
        if duration_ms:
            output = audio(epoch, duration_ms)
        wanted = self.current > 0 and back == 0 and not self.stopped
        assert self.playback.put(output, self.now) == wanted
        if wanted:
            self.put.append(output)

    @rule(back=st.sampled_from([0, 0, 1, -1]))
    def a_reply_is_released(self, back: int) -> None:
        if back == 0 and not self.stopped:
            self.held = False
        self.playback.release(self.current - back, self.now)

    @rule(back=st.sampled_from([0, 0, 1, -1]))
    def a_reply_is_stopped(self, back: int) -> None:
        if back == 0:
            self.stopped = True
        self.playback.stop(self.current - back)

    @rule(elapsed_ms=st.integers(0, 1_000))
    def time_passes(self, elapsed_ms: int) -> None:
        self.now += elapsed_ms

    @invariant()
    def nothing_of_a_stale_held_or_stopped_reply_goes_out(self) -> None:
        assert self.leaks == []

    @invariant()
    def all_of_a_reply_that_may_be_heard_is_out_in_the_order_it_was_put(self) -> None:
        if not (self.held or self.stopped):
            mine = [output for output in self.put if output.epoch == self.current]
            assert [output for output in self.sent if output.epoch == self.current] == mine

    @invariant()
    def each_output_goes_out_once_at_most_and_in_order(self) -> None:
        rest = iter(self.put)
        assert all(any(output is queued for queued in rest) for output in self.sent)

    @invariant()
    def no_more_of_the_current_reply_is_heard_than_went_out(self) -> None:
        out_ms = sum(
            output.pcm.duration_ms
            for output in self.sent
            if isinstance(output, ReplyAudio) and output.epoch == self.current
        )
        assert self.heard <= self.playback.heard_ms(self.now) <= out_ms
        self.heard = self.playback.heard_ms(self.now)


AnyReplies.TestCase.settings = settings(stateful_step_count=40)
TestAnyReplies = AnyReplies.TestCase


def test_after_a_call_nothing_goes_out_and_its_listeners_are_let_go() -> None:
    out, guard = list[Output](), EchoGuard()
    playback = Playback(out.append, guard)
    playback.begin(1, held=False)
    playback.close()
    assert not playback.put(audio(1, 20), 0.0)
    playback.flush(0.0)
    assert out == []
    alive = weakref.ref(guard)
    del guard
    assert alive() is None
