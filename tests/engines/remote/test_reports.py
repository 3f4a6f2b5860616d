"""What an engine process tells its starter."""

import pytest

from engines.remote.reports import Progress, Ready, Unfit, from_line, to_line


@pytest.mark.parametrize(
    "report", [Progress("warms up"), Ready(), Unfit("whisper", "failed", "two\nlines")]
)
def test_a_report_is_one_line(report):
    line = to_line(report)
    assert line.count(b"\n") == 1
    assert from_line(line) == report


@pytest.mark.parametrize("line", [b"", b"loading...\n", b'{"type":"Other"}\n'])
def test_anything_else_is_no_report(line):
    with pytest.raises(ValueError, match=r"JSON|truncated|Invalid"):
        from_line(line)
