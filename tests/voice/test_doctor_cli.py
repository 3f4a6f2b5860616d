"""``voice doctor`` as it is typed, and as it looks."""

import argparse
import io
import json
import os
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from voice import doctor_cli

SCRIPTED = [
    "--set", "server.port=0", "--set", "end_of_turn.engine=none",
    "--set", "asr.engine=scripted", "--set", "llm.engine=scripted", "--set", "tts.engine=scripted",
    "--set", "vad.engine=engines.asr.scripted",
]  # fmt: skip


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("VOICE_")]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def machine(nvml: ModuleType) -> ModuleType:
    """One without a GPU, unless it is told to be another."""
    return nvml


def voice_doctor(*words: str, width: int = 80) -> tuple[int, str]:
    parser = argparse.ArgumentParser()
    doctor_cli.add_arguments(parser)
    out = io.StringIO()
    status = doctor_cli.run(parser.parse_args(list(words)), Console(file=out, width=width))
    return status, out.getvalue()


def placed(**wanted: str) -> list[str]:
    return [
        word for kind, names in wanted.items() for word in ("--set", f"placement.{kind}={names}")
    ]


def test_a_server_that_runs_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voice.doctor._door", lambda _: ([], "http://127.0.0.1:8080"))
    status, said = voice_doctor(*SCRIPTED)
    assert status == 0
    first, second = said.splitlines()[:2]
    assert first == "A server of Antiphon runs at http://127.0.0.1:8080: its port is its own."
    assert second == "Nothing else is in the way of `voice serve`."


def test_an_address_is_looked_at_as_it_is_given() -> None:
    status, said = voice_doctor("--host", "0.0.0.0", "--port", "0", *SCRIPTED)
    assert status == 1
    assert "server.host: 0.0.0.0 is not a loopback address" in said


@pytest.mark.parametrize("width", [80, 120])
def test_without_a_gpu_it_says_why_and_that_the_server_would_start(width: int) -> None:
    status, said = voice_doctor(*SCRIPTED, width=width)
    assert status == 0
    assert "none: NVIDIA's driver is not installed here" in said
    first, second = said.splitlines()[:2]
    assert first == "Nothing is in the way of `voice serve`."
    assert second.strip() == "Not tried: loading the models, and whether they fit into memory."
    assert "Placement" not in said
    assert "Packages" not in said
    assert max(map(len, said.splitlines())) <= width


@pytest.mark.parametrize("width", [80, 120])
def test_seven_slices_stand_in_rows_with_whole_uuids(nvml, width: int) -> None:
    card = nvml.h200(*["1g.18gb"] * 7)
    for number, part in enumerate(card.parts):
        part.uuid = f"MIG-1129305a-e681-4fed-aee3-c43c44381ab{number}"
    nvml.pretend(gpus=[card])
    status, said = voice_doctor(*SCRIPTED, *placed(asr="1g.18gb,1g.18gb", llm="cpu"), width=width)
    assert status == 0
    rows = [line.split() for line in said.splitlines()]
    for number, part in enumerate(card.parts):
        assert [f"gpu0:{number}", "1g.18gb", "16.0", part.uuid] in rows
    assert "GPUs (driver 580.95.05)" in said
    assert ["asr", "1g.18gb", "gpu0:1", "(1g.18gb,", "16.0", "GiB)"] in rows
    assert ["llm", "cpu", "cpu"] in rows
    assert ["asr", "scripted", "2", "processes", "its", "own", "ready"] in rows
    assert ["llm", "scripted", "1", "process", "its", "own", "ready"] in rows
    assert max(map(len, said.splitlines())) <= width


def test_a_half_made_plan_begins_with_commands_that_are_not_wrapped(nvml) -> None:
    nvml.pretend(gpus=[nvml.h200(*["1g.18gb"] * 7)])
    status, said = voice_doctor(*SCRIPTED, *placed(asr="1g.18gb", tts="3g.71gb"), width=60)
    assert status == 1
    assert "missing: there is none" in said
    verdict, *lines = said.splitlines()[:6]
    assert verdict == "`voice serve` would not start: 1 thing stands in its way."
    assert [line.strip() for line in lines] == [
        "1. placement: tts on 3g.71gb: there is none",
        "# To cut GPU 0 (NVIDIA H200) anew, which ends whatever runs on its slices:",
        "sudo nvidia-smi mig -i 0 -dci",
        "sudo nvidia-smi mig -i 0 -dgi",
        "sudo nvidia-smi mig -i 0 -cgi 3g.71gb,1g.18gb -C",
    ]


def test_gpus_that_are_not_cut_or_cannot_be_say_so(nvml) -> None:
    lost = nvml.h200(index=3)
    lost.faults["nvmlDeviceGetHandleByIndex"] = nvml.NVML_ERROR_GPU_IS_LOST
    hidden = nvml.Card("NVIDIA L4", "GPU-l4", 23034, faults={
        "nvmlDeviceGetMemoryInfo": nvml.NVML_ERROR_NO_PERMISSION})  # fmt: skip
    nvml.pretend(gpus=[nvml.h200(mig=False), nvml.h200(index=1), hidden, lost])
    status, said = voice_doctor(*SCRIPTED, *placed(asr="gpu0", tts="gpu0"), width=120)
    assert status == 0
    assert "NVIDIA H200 (MIG off)" in said
    assert "NVIDIA H200 (MIG), not cut yet" in said
    assert "GPU 3 cannot be used: GPU is lost" in said
    assert "asr and tts share gpu0" in said
    assert "gpu0 (NVIDIA H200, 140.4 GiB)" in said
    assert ["gpu2", "NVIDIA", "L4", "?", "GPU-l4"] in [line.split() for line in said.splitlines()]


def test_models_are_told_with_their_state_and_the_command(tmp_path: Path) -> None:
    status, said = voice_doctor("--set", f"models_dir={tmp_path}", *SCRIPTED[:2], width=200)
    assert status == 1
    assert "moonshine-tiny-en (missing)" in said
    assert "see above" in said
    assert (
        "     voice models pull silero-vad smart-turn-v3.2 moonshine-tiny-en smollm2-135m"
        f" --folder {tmp_path}\n" in said
    )


def test_a_file_that_is_not_there_leaves_the_rest_of_the_report(tmp_path: Path) -> None:
    status, said = voice_doctor("--config", str(tmp_path / "voice.toml"), width=300)
    assert status == 1
    assert "Machine" in said
    assert "Engines" not in said
    assert "would not start: 1 thing stands in its way." in said
    assert "1. " in said.splitlines()[1]
    assert "voice.toml: cannot be read" in said


def test_missing_packages_say_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("voice.packages.version_of", lambda name: "")
    _, said = voice_doctor(*SCRIPTED, *placed(asr="gpu0"), width=300)
    assert "nvidia-ml-py  missing  listing GPUs, [placement] on them" in said
    assert "asr: the package nvidia-ml-py is missing: `" in said
    assert "torch" not in said  # no engine here wants it


def test_what_only_a_start_can_tell_is_said(tmp_path: Path) -> None:
    named = ["--set", "asr.engine=whisper", "--set", "asr.model=/nowhere/at/all"]
    status, said = voice_doctor(*SCRIPTED, *named, width=200)
    assert status == 1
    assert "/nowhere/at/all (no such folder)" in said
    named = ["--set", "tts.engine=orpheus", "--set", f"tts.model={tmp_path}"]
    device = ["--set", "tts.source=transformers", "--set", "tts.device=cpu"]
    status, said = voice_doctor(*SCRIPTED, *named, *device, width=200)
    assert status == 0
    assert "nor whether a hub or a server has hubertsiuzdak/snac_24khz." in said.splitlines()[1]


def test_json_holds_all_of_it(nvml) -> None:
    nvml.pretend(gpus=[nvml.h200("1g.18gb")])
    status, said = voice_doctor(
        *SCRIPTED, *placed(asr="1g.18gb", tts="1g.18gb"), "--json", width=40
    )
    assert status == 1
    report = json.loads(said)
    assert report["starts"] is False
    assert report["inventory"]["gpus"][0]["slices"][0]["uuid"] == "MIG-00000000"
    first, second = report["plan"]["seats"]
    assert first["place"]["environment"]["CUDA_VISIBLE_DEVICES"] == "MIG-00000000"
    assert second["place"] is None
    assert report["problems"][0]["commands"][-1] == "sudo nvidia-smi mig -i 0 -cgi 1g.18gb -C"
    assert {engine["kind"] for engine in report["engines"]} == {"vad", "asr", "llm", "tts"}


def test_the_environment_counts_as_it_does_for_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VOICE_SERVER_HOST", "0.0.0.0")
    status, said = voice_doctor(*SCRIPTED, width=200)
    assert status == 1
    assert "server.host: 0.0.0.0 is not a loopback address" in said


def test_engines_and_settings_that_are_wrong_are_told_together() -> None:
    wrong = ["--set", "llm.engine=opanai", "--set", "asr.enginee=x", "--set", "server.port=x"]
    status, said = voice_doctor(*SCRIPTED, *wrong, width=400)
    assert status == 1
    assert "server.port: must be a whole number" in said
    assert "llm.engine: there is no opanai." in said
    assert "asr.enginee: there is no such setting. Did you mean asr.engine?" in said


@pytest.mark.parametrize("width", [80, 140])
def test_carriers_are_told_where_to_go(width: int) -> None:
    phones = ["--set", "phone.twilio_token=short", "--set", "phone.audiosocket_port=0"]
    status, said = voice_doctor(*SCRIPTED, *phones, width=width)
    assert status == 0
    lines = [line.rstrip() for line in said[said.index("Phones") :].splitlines()]
    assert lines[:3] == [
        "Phones",
        "  twilio: µ-law 8 kHz; who may call: whoever proves to be twilio",
        '     <Connect><Stream url="wss://HOST/phone/twilio"/></Connect>',
    ]
    assert "     AudioSocket(UUID,127.0.0.1:0)" in lines
    assert "Twilio's auth tokens are 32 digits" in " ".join(said.split())
    assert "short" not in said


def test_where_nothing_is_set_for_phones_nothing_is_said_of_them() -> None:
    assert "Phones" not in voice_doctor(*SCRIPTED)[1]
