"""Which packages an engine needs, and what is said of those that are missing."""

import pytest

from voice import packages
from voice.config import EngineConfig
from voice.packages import faults, needs_of, version_of


def found(monkeypatch: pytest.MonkeyPatch, needed: dict[str, list[str]], **versions: str):
    monkeypatch.setattr(packages, "version_of", lambda name: versions.get(name, ""))
    return faults(packages.packages(needed))


def test_packages_that_one_command_brings_are_told_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed = {name: ["tts"] for name in ("torch", "snac", "nvidia-ml-py")}
    both, other = found(monkeypatch, needed).items()
    assert both[0].startswith("tts: the packages torch, snac are missing: `")
    assert "[orpheus]" in both[0]
    assert "CUDA" in both[0]
    assert other[0].startswith("tts: the package nvidia-ml-py is missing: `")
    assert both[1] == other[1] == ("tts",)


def test_a_package_that_nobody_needs_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(monkeypatch, {}) == {}
    assert found(monkeypatch, {"torch": ["asr", "tts"]}, torch="2.9") == {}


def test_an_old_tensorrt_llm_is_told_of_with_all_who_suffer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed = {"tensorrt_llm": ["asr", "llm"]}
    [(text, kinds)] = found(monkeypatch, needed, tensorrt_llm="1.2.0").items()
    assert text.startswith("asr and llm: tensorrt_llm 1.2.0 is too old: ")
    assert kinds == ("asr", "llm")
    assert found(monkeypatch, needed, tensorrt_llm="1.3.0rc26") == {}


def test_an_engine_needs_the_packages_of_its_parts() -> None:
    class Options:
        source = "transformers"

    assert needs_of("tts", EngineConfig("orpheus")) == ("torch", "snac")
    assert set(needs_of("tts", EngineConfig("orpheus"), Options)) == {
        "torch", "snac", "transformers",
    }  # fmt: skip
    assert needs_of("tts", EngineConfig("hibari")) == ()
    assert needs_of("diarization", EngineConfig("pyannote")) == ("pyannote.audio",)


def test_versions_come_from_what_is_installed() -> None:
    assert version_of("msgspec")[0].isdigit()
    assert version_of("no-such-package") == ""
    assert version_of("no_such_package") == ""
    assert version_of("voice") == "of no known version"
