"""The command line of the comparison."""

import pytest

from loadtest.peers.__main__ import main
from loadtest.peers.environments import PeerError


@pytest.mark.parametrize(
    "arguments",
    [
        ["--sessions", "0"],
        ["--sessions"],
        ["--only", "vocode"],
        ["--seconds", "-1"],
        ["--core", "-1"],
        ["--core", "9999"],
    ],
)
def test_what_cannot_be_measured_is_refused_at_once(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["peers", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_what_stands_in_the_way_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> None:
        raise PeerError("pipecat-ai cannot be installed")

    monkeypatch.setattr("loadtest.peers.__main__.compare", fail)
    monkeypatch.setattr("sys.argv", ["peers"])
    assert main() == 2
    assert capsys.readouterr().err == "pipecat-ai cannot be installed\n"


@pytest.mark.parametrize("valid", [True, False])
def test_a_run_that_measured_itself_is_no_success(
    valid: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("loadtest.peers.__main__.compare", lambda _: [{"valid": valid}])
    monkeypatch.setattr("sys.argv", ["peers", "--json"])
    assert main() == (0 if valid else 1)
    assert '"valid"' in capsys.readouterr().out
