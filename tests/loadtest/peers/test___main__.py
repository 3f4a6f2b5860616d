"""The command line of the comparison."""

import pytest

from loadtest.peers.__main__ import main


@pytest.mark.parametrize(
    "arguments",
    [["--sessions", "0"], ["--sessions"], ["--only", "vocode"], ["--seconds", "-1"]],
)
def test_what_cannot_be_measured_is_refused_at_once(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["peers", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "usage" in capsys.readouterr().err
