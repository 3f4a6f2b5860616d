from contextlib import asynccontextmanager

import pytest

from engines.audio import Pcm
from engines.ports import Transcript
from loadtest import asr_bench
from loadtest.speech import Recording
from loadtest.wer import Wer


class Deaf:
    """Hears "go" in everything."""

    def __init__(self) -> None:
        self.log: list[str] = []

    async def warm_up(self) -> None:
        self.log.append("warm")

    async def close(self) -> None:
        self.log.append("closed")

    @asynccontextmanager
    async def open(self, request):
        self.log.append(f"{len(request.pcm)}")

        async def transcripts():
            yield Transcript("Go.")

        yield transcripts()


CLIPS = [
    Recording("a", Pcm.silence(100, 16_000), "go"),
    Recording("b", Pcm.silence(200, 16_000), "go forward"),
]


async def test_every_clip_is_heard_in_every_round_by_a_warm_engine():
    deaf = Deaf()
    row = await asr_bench.measure(deaf, CLIPS, rounds=2)
    assert deaf.log == ["warm", "1600", "3200", "1600", "3200", "closed"]
    assert row.errors == Wer(1, 3, lost=1)
    assert 0 < row.p50_ms <= row.p95_ms
    assert row.cpu_s > 0


async def test_the_table_has_a_row_for_each_engine_and_number_of_threads(
    monkeypatch, capsys, tmp_path
):
    monkeypatch.setattr(asr_bench, "engine", lambda name, threads, models: Deaf())
    monkeypatch.setattr(asr_bench, "recordings", lambda folder: CLIPS)
    await asr_bench.report(tmp_path, ["moonshine", "whisper"], [1, 2])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[:3] for row in rows] == [
        ["moonshine", "1", "33.3"],
        ["moonshine", "2", "33.3"],
        ["whisper", "1", "33.3"],
        ["whisper", "2", "33.3"],
    ]


def test_missing_recordings_end_it_with_a_reason(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["asr_bench", str(tmp_path)])
    with pytest.raises(SystemExit, match=r"asr_bench: .*transcripts.json"):
        asr_bench.main()
