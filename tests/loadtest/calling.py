"""What tests of callers share: short clips, a wire that is easily read, records and reports."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import numpy as np
import soundfile

from loadtest.clips import Clip
from loadtest.figures import Sample
from loadtest.habits import Habits
from loadtest.load import Options, Run
from loadtest.records import CallRecord, Progress, TurnRecord
from loadtest.report import Report, report
from loadtest.slo import limits
from loadtest.wires import FRAME_MS, PATH, Ear

RATE = 24_000
FRAME_S = FRAME_MS / 1000
SILENCE = b"silence"


class PlainWire:
    """A wire whose messages are what they say: ``audio`` is 16-bit samples as they are."""

    rate = RATE
    path = PATH
    ready_at_once = True

    def leg(self) -> Self:
        return self

    def hello(self) -> bytes:
        return b"hello"

    def frame(self, pcm: bytes) -> bytes:
        return pcm

    def take(self, message: bytes, now: float, ear: Ear) -> None:
        raise NotImplementedError

    def samples_in(self, encoded: bytes) -> int:
        return len(encoded) // 2

    def decode(self, encoded: bytes) -> bytes:
        return encoded

    def cut(self, item: bytes, heard_ms: int) -> bytes | None:
        return b"cut %s %d" % (item, heard_ms)

    def played(self, mark: bytes) -> bytes | None:
        return b"played " + mark


def clip(name: str = "a.wav", frames: int = 50, words: str = "go forward") -> Clip:
    """A clip of so many frames, speech from the fifth to the fifth but last."""
    numbered = [b"%s %d" % (name.encode(), index) for index in range(frames)]
    return Clip(name, words, numbered, 5 * FRAME_S, (frames - 5) * FRAME_S, frames // 2)


def pcm(ms: float, level: int = 8_000) -> bytes:
    """So much of a sound, 24 kHz."""
    return np.full(round(RATE * ms / 1000), level, "<i2").tobytes()


def speech_folder(folder: Path, seconds: float = 0.6) -> Path:
    """A folder of two clips with their transcripts; each is a buzz that a VAD may take for
    anything, which is enough where nobody listens."""
    time = np.arange(int(RATE * seconds)) / RATE
    for name in ("one.wav", "two.wav"):
        soundfile.write(folder / name, 0.3 * np.sin(2 * np.pi * 220 * time), RATE)
    (folder / "transcripts.json").write_text(json.dumps({"one.wav": "one", "two.wav": "two"}))
    return folder


def turn(**changes: object) -> TurnRecord:
    """An answered turn."""
    usual: dict[str, object] = {
        "call": 0,
        "at_s": 5.0,
        "clip": "a.wav",
        "outcome": "answered",
        "first_audio_ms": 500.0,
        "sentence_ms": 700.0,
        "onset_ms": 510.0,
        "commit_ms": 480.0,
        "said": "go forward",
        "heard": "go forward",
    }
    return TurnRecord(**(usual | changes))  # type: ignore[arg-type]


def call(**changes: object) -> CallRecord:
    """A call that went well."""
    usual: dict[str, object] = {
        "call": 0, "at_s": 0.0, "end": "done", "status": 101, "answer_ms": 5.0, "seconds": 10.0,
    }  # fmt: skip
    return CallRecord(**(usual | changes))  # type: ignore[arg-type]


def made_run(**changes: object) -> Run:
    """A run of two callers for ten seconds, of which all is known."""
    options = Options(
        callers=2, seconds=10.0, url="ws://127.0.0.1:1/v1/realtime", speech="speech", pid=1,
        habits=Habits(),
    )  # fmt: skip
    usual: dict[str, object] = {
        "options": options,
        "began": datetime(2026, 5, 4, tzinfo=UTC),
        "turns": [turn(), turn(at_s=7.0, first_audio_ms=600.0, barge="stopped", stop_ms=200.0)],
        "calls": [call(), call(call=1)],
        "samples": [
            Sample(at_s=1.0, open=2, talking=1, speaking=0, cores=0.5, rss_mb=80.0),
            Sample(at_s=6.0, open=2, talking=0, speaking=2, cores=0.7, rss_mb=90.0),
        ],
        "before": {"antiphon_calls": 0.0},
        "after": {"antiphon_calls": 2.0},
        "progress": {
            0: Progress(
                at_s=10.0, open=2, talking=0, speaking=0, cpu_s=0.01, session_s=20.0,
                late={1: 990, 30: 10}, last=True,
            )
        },
        "elapsed_s": 10.0,
    }  # fmt: skip
    return Run(**(usual | changes))  # type: ignore[arg-type]


def made_report(slo: tuple[str, ...] = (), **changes: object) -> Report:
    """The report of such a run."""
    return report(made_run(**changes), limits(slo), command="voice load -n 2", server="voice serve")
