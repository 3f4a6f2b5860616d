import pytest

from loadtest.listening import Reply, VirtualPlayer
from tests.loadtest.calling import RATE, pcm


def feed(reply: Reply, now: float, ms: float, level: int = 8_000) -> None:
    audio = pcm(ms, level)
    reply.sound(now, len(audio) // 2, RATE, lambda: audio)


def test_the_first_audible_sample_is_found_behind_silence():
    reply = Reply(b"r")
    feed(reply, 1.0, 100, level=0)
    feed(reply, 1.02, 100)
    assert reply.onset_s == pytest.approx(0.1)
    assert reply.onset_at == pytest.approx(1.1)


def test_an_onset_that_comes_late_is_heard_when_it_comes():
    reply = Reply(b"r")
    feed(reply, 1.0, 100, level=100)
    feed(reply, 3.0, 100)
    assert reply.onset_at == 3.0


def test_what_was_audible_once_is_not_decoded_again():
    reply = Reply(b"r")
    feed(reply, 1.0, 20)
    reply.sound(1.1, 480, RATE, lambda: pytest.fail("decoded"))
    assert reply.seconds == pytest.approx(0.04)


def test_the_first_sentence_is_complete_with_the_words_after_it():
    reply = Reply(b"r")
    for now, text in ((1.0, "Well, this"), (1.2, " is one."), (1.5, " And two.")):
        reply.say(text)
        feed(reply, now, 200)
        feed(reply, now + 0.1, 200)
    assert reply.sentence_complete
    assert reply.sentence_at() == pytest.approx(1.3)


def test_a_single_sentence_is_complete_with_the_reply():
    reply = Reply(b"r")
    reply.say("Yes.")
    feed(reply, 1.0, 200)
    feed(reply, 1.4, 200)
    assert reply.sentence_at() == pytest.approx(1.4)


def test_of_words_that_run_ahead_letters_tell():
    reply = Reply(b"r")
    reply.say("One two. Two two. Six two.")
    for index in range(10):
        feed(reply, 1.0 + index, 100)
    # 8 of 26 letters: 0.31 of a second of audio, which came with the fourth piece.
    assert reply.sentence_at() == pytest.approx(4.0)


@pytest.mark.parametrize(
    "text", ["Dr. Who came", "It is 3.5 times", "e.g. this one", "Mr. A. Smith"]
)
def test_a_dot_is_not_always_an_end(text):
    reply = Reply(b"r")
    reply.say(text)
    feed(reply, 1.0, 200)
    reply.say(" and more.")
    assert not reply.sentence_complete


def test_nothing_heard_has_no_sentence():
    assert Reply(b"r").sentence_at() is None


def put(player: VirtualPlayer, reply: Reply, now: float, ms: float) -> None:
    feed(reply, now, ms)
    player.put(now, reply, ms / 1000)


def test_what_comes_within_the_prebuffer_is_no_underrun():
    player, reply = VirtualPlayer(), Reply(b"r")
    put(player, reply, 1.0, 40)
    put(player, reply, 1.099, 40)
    assert reply.underruns == 0
    assert player.end == pytest.approx(1.140)


def test_a_listener_who_waits_is_counted():
    player, reply = VirtualPlayer(), Reply(b"r")
    put(player, reply, 1.0, 40)
    put(player, reply, 1.25, 40)
    put(player, reply, 1.35, 40)
    assert reply.underruns == 2
    assert reply.underrun_s == pytest.approx(0.15 + 0.06)
    assert reply.gaps_s() == pytest.approx([0.25, 0.1])


def test_the_next_reply_waits_for_the_one_that_plays_and_is_no_underrun():
    player, first, second = VirtualPlayer(), Reply(b"1"), Reply(b"2")
    put(player, first, 1.0, 500)
    put(player, second, 1.1, 500)
    assert player.end == pytest.approx(2.06)
    put(player, Reply(b"3"), 9.0, 100)
    assert second.underruns == 0
    assert player.end == pytest.approx(9.16)


def test_falling_silent_tells_what_was_cut_and_how_much_was_heard():
    player, reply = VirtualPlayer(), Reply(b"r")
    put(player, reply, 1.0, 1_000)
    assert player.heard_s(1.03) == 0.0
    assert player.fall_silent(1.36) is reply
    assert reply.cut
    assert not player.playing(1.36)
    assert player.fall_silent(1.4) is None


def test_how_much_has_been_heard():
    player, reply = VirtualPlayer(), Reply(b"r")
    assert player.heard_s(0.0) == 0.0
    put(player, reply, 1.0, 1_000)
    assert player.heard_s(1.36) == pytest.approx(0.3)
    assert player.heard_s(9.0) == pytest.approx(1.0)


def test_what_comes_after_silence_was_asked_for_is_no_underrun():
    player, reply = VirtualPlayer(), Reply(b"r")
    put(player, reply, 1.0, 1_000)
    player.fall_silent(1.5)
    put(player, reply, 1.7, 100)
    assert reply.underruns == 0
    assert player.playing(1.75)
