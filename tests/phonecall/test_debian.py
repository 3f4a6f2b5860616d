"""The Debian that calls are placed in is built once, or it is said why not and what to do."""

from pathlib import Path

import pytest

from tests.phonecall import debian as module
from tests.phonecall.debian import PhoneCallError, check_machine, debian


@pytest.fixture
def mmdebstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name, which makes the folder it is told; not in namespaces of its own."""
    program = tmp_path / "bin" / "mmdebstrap"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor each; do :; done\nmkdir "$each"\necho "I: done" >&2\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setattr(module, "APART", ())
    return program


def test_it_is_built_once(
    mmdebstrap: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = debian(tmp_path / "cache")
    assert folder.is_dir()
    assert "  I: done\n" in capfd.readouterr().err
    mmdebstrap.write_text("#!/bin/sh\nexit 1\n")
    assert debian(tmp_path / "cache") == folder


def test_a_build_that_fails_says_why_and_leaves_nothing(mmdebstrap: Path, tmp_path: Path) -> None:
    mmdebstrap.write_text(
        '#!/bin/sh\nfor each; do :; done\nmkdir "$each"\necho E: no way >&2\nexit 1'
    )
    with pytest.raises(PhoneCallError, match=r"E: no way\nIs Debian's archive reachable"):
        debian(tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["lock"]


def test_what_is_not_installed_is_named_by_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda tool: None if tool == "ip" else tool)
    with pytest.raises(PhoneCallError, match=r"apt-get install iproute2$"):
        check_machine()


def test_whoever_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1_000)
    with pytest.raises(PhoneCallError, match="run it as root"):
        check_machine()
