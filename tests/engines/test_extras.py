"""Commands that fetch packages, as they can be copied."""

import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from engines import extras
from engines.extras import how_to_install, install_command

ROOT = Path(__file__).parents[2]


def test_a_command_is_for_this_python_and_may_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/my venv/bin/python")
    assert install_command("snac>=1.2") == ("'/opt/my venv/bin/python' -m pip install 'snac>=1.2'")


@pytest.mark.parametrize("extra", ["orpheus", "build"])
def test_an_extra_comes_from_the_checkout_with_a_word_about_its_size(extra: extras.Extra) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extra in known["optional-dependencies"]
    said = how_to_install(extra)
    assert said.startswith(f"`{sys.executable} -m pip install -e '{ROOT}[{extra}]'` (")
    assert "CUDA" in said


def test_without_a_checkout_packages_have_their_own_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        metadata,
        "requires",
        lambda name: [
            "rich>=13",
            'torch>=2.6; extra == "orpheus"',
            "snac>=1.2; (python_version < '3.13') and extra == 'orpheus'",
            "ray; extra == 'orpheus-more'",
        ],
    )
    assert extras._command("orpheus", tmp_path) == install_command("torch>=2.6", "snac>=1.2")
