"""A reply that is cut and goes on: its listener hears every sample once, in order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engines.audio import Pcm
from engines.ports import Usage
from pipelines.conversation.dialogue import AgentItem
from pipelines.conversation.echo import EchoGuard
from pipelines.conversation.events import Output, ReplyAudio, ReplyFinished, ReplyText
from pipelines.conversation.playback import LATEST_MS, Playback

RATE = 1_000
FADED = 5
"""Samples that a fade at a cut may change."""


class Listener:
    """Plays what it is sent of reply 1, in real time, until it throws away the rest."""

    def __init__(self) -> None:
        self.playback = Playback(self.take, EchoGuard())
        self.playback.begin(1, held=False)
        self.heard: list[int] = []
        self.finished = 0
        self._buffer: list[int] = []

    def take(self, output: Output) -> None:
        if isinstance(output, ReplyAudio):
            self._buffer += output.pcm.samples.tolist()
        self.finished += isinstance(output, ReplyFinished)

    def listen(self, milliseconds: int) -> None:
        self.heard += self._buffer[:milliseconds]
        self._buffer = self._buffer[milliseconds:]

    def pause(self, now: float) -> float:
        """Cut the reply: all that is not heard is thrown away. Gives what was heard of it."""
        self.playback.pause(1, now)
        self._buffer = []
        return self.playback.heard_ms(now)


def piece(start: int, size: int) -> ReplyAudio:
    return ReplyAudio(1, Pcm(np.arange(start, start + size, dtype=np.int16), RATE))


def test_a_reply_goes_on_where_it_was_cut_and_ends_once_more() -> None:
    listener = Listener()
    playback = listener.playback
    for output in (ReplyText(1, "one two"), piece(0, 400), ReplyFinished(1, Usage())):
        playback.put(output, 0)
    listener.listen(150)
    assert listener.pause(150) == 150
    assert playback.lead_ms(150) == 0
    assert playback.has_more(150)
    assert not playback.has_more(400)
    playback.resume(1, 150, 900)
    listener.listen(250)
    assert listener.finished == 2
    assert listener.heard[:150] == list(range(150))
    assert listener.heard[150 + FADED :] == list(range(150 + FADED, 400))


def test_what_comes_in_the_pause_is_kept_and_counts_as_lead() -> None:
    listener = Listener()
    playback = listener.playback
    playback.put(piece(0, 100), 0)
    listener.listen(100)
    listener.pause(100)
    assert playback.put(piece(100, 300), 120)
    assert playback.lead_ms(120) == 300
    assert not playback.holds(1), "the client knows of it"
    assert playback.has_more(100)
    playback.resume(1, 100, 200)
    listener.listen(300)
    assert listener.heard == list(range(400))


def test_only_a_paused_reply_goes_on_and_only_the_current_one_is_paused() -> None:
    listener = Listener()
    playback = listener.playback
    playback.put(piece(0, 10), 0)
    playback.resume(1, 0, 0)
    playback.pause(7, 0)
    playback.resume(7, 0, 0)
    listener.pause(0)
    playback.stop(1)
    playback.resume(1, 0, 0)
    playback.pause(1, 0)
    listener.listen(100)
    assert listener.heard == []


def test_a_second_pause_keeps_what_the_first_has_kept() -> None:
    listener = Listener()
    playback = listener.playback
    playback.put(piece(0, 50), 0)
    listener.pause(0)
    playback.put(piece(50, 50), 0)
    listener.pause(0)
    playback.resume(1, 0, 0)
    listener.listen(100)
    assert listener.heard[FADED:] == list(range(FADED, 100))


def test_of_a_long_reply_only_what_may_still_be_wanted_is_kept() -> None:
    listener = Listener()
    playback = listener.playback
    for second in range(600):
        playback.put(ReplyText(1, f" number {second}"), 1_000 * second)
        for place in range(0, 1_000, 200):
            playback.put(piece(place, 200), 1_000 * second)
    assert len(playback._unheard._phrases) <= 2 + LATEST_MS // 1_000
    assert playback.has_more(600_000 - LATEST_MS)


class Remembering:
    """What a speaker keeps of a reply's words, an item for each time that it goes on."""

    def __init__(self) -> None:
        self.playback = Playback(self.take, EchoGuard())
        self.playback.begin(1, held=False)
        self.items = [AgentItem("0", spoken=True)]

    def take(self, output: Output) -> None:
        if isinstance(output, ReplyText):
            self.items[-1].say(output.text)
        elif isinstance(output, ReplyAudio):
            self.items[-1].sound(output.pcm.duration_ms)

    def cut(self, now: float) -> None:
        self.playback.pause(1, now)
        self.items[-1].cut(self.playback.heard_ms(now))
        self.items[-1].status = "incomplete"

    def go_on(self, now: float) -> None:
        heard_ms = self.items[-1].played_ms
        if cut := self.playback.cut(heard_ms):
            self.items[-1].end_within(*cut)
        self.items.append(AgentItem("next", spoken=True))
        self.playback.resume(1, heard_ms, now)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("phrase"), st.integers(1, 6)),
            st.tuples(st.just("audio"), st.integers(1, 500)),
            st.tuples(st.just("listen"), st.integers(1, 900)),
            st.tuples(st.just("cut"), st.integers(0, 300)),
            st.tuples(st.just("go on"), st.integers(0, 300)),
        ),
        max_size=80,
    )
)
def test_whatever_is_cut_its_words_are_remembered_once_and_in_order(
    steps: list[tuple[str, int]],
) -> None:
    speaker, now, words, away = Remembering(), 0.0, 0, False
    playback = speaker.playback
    for what, size in steps:
        if what == "phrase":
            playback.put(ReplyText(1, "".join(f" w{words + n}" for n in range(size))), now)
            playback.put(piece(0, 10), now)
            words += size
        elif what == "audio":
            playback.put(piece(0, size), now)
        elif what == "listen":
            now += size
        elif what == "cut" and not away:
            speaker.cut(now)
            away = True
        elif what == "go on" and away:
            speaker.go_on(now)
            away = False
    if away:
        speaker.go_on(now)
    told = "".join(f" {item.heard_text}" for item in speaker.items if item.spans).split()
    assert told == [f"w{n}" for n in range(words)]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(1, 300)),
            st.tuples(st.just("listen"), st.integers(1, 300)),
            st.tuples(st.just("cut"), st.integers(0, 300)),
        ),
        max_size=60,
    )
)
def test_whatever_is_cut_is_heard_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    listener, now, made, cuts = Listener(), 0.0, 0, set()
    playback = listener.playback
    for what, size in steps:
        if what == "put":
            playback.put(piece(made, size), now)
            made += size
        elif what == "listen":
            listener.listen(size)
            now += size
        else:
            heard_ms = listener.pause(now)
            now += size
            cuts.update(range(len(listener.heard), len(listener.heard) + FADED))
            playback.resume(1, heard_ms, now)
    listener.listen(100_000)
    assert len(listener.heard) == made
    assert all(sample == place or place in cuts for place, sample in enumerate(listener.heard)), (
        "every sample once"
    )
