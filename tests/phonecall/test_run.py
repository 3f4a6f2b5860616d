"""Whether calls can be placed here is told before any is."""

from pathlib import Path

import pytest

from tests.phonecall import run
from tests.phonecall.debian import PhoneCallError


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """The folders that a Debian was made in."""
    made: list[Path] = []
    monkeypatch.setattr("sys.argv", ["phonecall", "--prepare"])
    monkeypatch.setattr(run, "cache", lambda: tmp_path)
    monkeypatch.setattr(run, "debian", made.append)
    monkeypatch.setattr(run, "check_machine", lambda: None)
    monkeypatch.setattr(run, "place_calls", lambda _: pytest.fail("no call is to be placed"))
    return made


def test_what_calls_need_is_made_and_no_more(built: list[Path], tmp_path: Path) -> None:
    assert run.main() == 0
    assert built == [tmp_path]


def test_where_none_can_be_placed_the_reason_is_told(
    built: list[Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise PhoneCallError("only root may")

    monkeypatch.setattr(run, "check_machine", refuse)
    assert run.main() == 2
    assert capsys.readouterr().err == "only root may\n"
    assert built == []
