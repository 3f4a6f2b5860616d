"""What the comparison plays, and what it prints."""

import numpy as np
import pytest

from loadtest.peers.comparison import last_sound, make_program, table, turns_in

RUN = {
    "server": "pipecat-ai 1.14.0",
    "sessions": 4,
    "turns": 9,
    "unanswered": 1,
    "after_speech_ms": {"p50": 223.0, "p95": 226.4},
    "overhead_ms": {"p50": 23.0, "p95": 26.4},
    "cpu_ms_per_session_second": 77.3,
    "core_share": 0.3,
    "memory_mb": 189.2,
    "gaps": 0,
    "lost": 0,
    "sender_late_ms_p99": 1.0,
    "valid": True,
}


def test_the_last_sound_is_no_breath() -> None:
    noise = np.random.default_rng(1).normal(size=16_000)
    samples = np.concatenate([noise * 3_000, noise[:8_000] * 30]).astype(np.int16)
    assert last_sound(samples) == 16_000


@pytest.mark.engine
def test_what_is_played_is_one_turn_and_the_time_to_answer_it() -> None:
    program = make_program()
    assert turns_in(program.samples) == 1
    assert turns_in(np.tile(program.samples, 3)) == 3
    assert program.seconds - program.speech_s == pytest.approx(4.5, abs=0.2)


def test_the_table_has_a_row_a_run() -> None:
    text = table([RUN, RUN | {"valid": False}, RUN | {"after_speech_ms": {}, "overhead_ms": {}}])
    head, _, good, late, mute = text.splitlines()
    assert "1.14.0 | 77.3 | 23 / 26 | 223 / 226 | 0 | 1 of 9 | 0 | 189 |" in good
    assert "not valid" in late
    assert "no answer" in mute
    assert good.count("|") == head.count("|")
