"""The inventory of machines that are pretended, and the pretence held to the real module."""

import importlib.util
import inspect
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

import pytest

from engines.placement import draft, inventory


def test_seven_slices_of_an_h200_are_seen_as_nvidia_smi_lists_them(see, nvml) -> None:
    seen = see(nvml.h200(*["1g.18gb"] * 7))
    assert seen.driver == "580.95.05"
    assert seen.reason == ""
    [gpu] = seen.gpus
    assert (gpu.name, gpu.uuid, gpu.mig, gpu.memory_mib) == (
        "NVIDIA H200", "GPU-00000000", True, 143771,
    )  # fmt: skip
    assert [part.name for part in gpu.slices] == [f"gpu0:{index}" for index in range(7)]
    assert [part.uuid for part in gpu.slices] == [f"MIG-0000000{index}" for index in range(7)]
    assert {(part.profile, part.memory_mib, part.compute) for part in seen.slices} == {
        ("1g.18gb", 16384, 1)
    }
    assert nvml.machine.opened == 0


def test_a_hole_is_passed_over_and_indices_stay(see, nvml) -> None:
    seen = see(nvml.h200("3g.71gb", None, "1g.18gb"))
    assert [(part.name, part.profile) for part in seen.slices] == [
        ("gpu0:0", "3g.71gb"), ("gpu0:2", "1g.18gb"),
    ]  # fmt: skip


def test_a_slice_without_a_name_gets_the_one_nvidia_smi_would_give(see, nvml) -> None:
    profiles = ("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb")
    card = nvml.h200(*profiles)
    for part in card.parts:
        part.name = None
    small = nvml.h100("1g.10gb", "3g.40gb", index=1)
    for part in small.parts:
        part.name = None
    assert [part.profile for part in see(card, small).slices] == [*profiles, "1g.10gb", "3g.40gb"]


def test_a_gpu_with_mig_off_and_one_without_mig(see, nvml) -> None:
    plain = nvml.Card("NVIDIA L4", "GPU-l4", 23034)
    whole, small = see(nvml.h200(mig=False), plain).gpus
    assert (whole.mig, whole.slices, plain.mig) == (False, (), None)
    assert "1g.18gb" in whole.profiles
    assert (small.mig, small.profiles) == (None, {})


def test_an_old_driver_without_the_question_has_no_mig(see, nvml) -> None:
    card = nvml.h200(mig=False)
    card.faults["nvmlDeviceGetMigMode"] = nvml.NVML_ERROR_FUNCTION_NOT_FOUND
    assert see(card).gpus[0].mig is None


def test_a_container_that_may_see_only_a_slice_sees_it(see, nvml) -> None:
    card = nvml.h200("1g.18gb")
    card.faults["nvmlDeviceGetMemoryInfo"] = nvml.NVML_ERROR_NO_PERMISSION
    [gpu] = see(card).gpus
    assert gpu.memory_mib == 0
    assert gpu.profiles == {}
    assert gpu.slices[0].profile == "1g.18gb"


def test_a_lost_gpu_is_a_note_and_the_others_are_there(see, nvml) -> None:
    lost = nvml.h200()
    lost.faults["nvmlDeviceGetHandleByIndex"] = nvml.NVML_ERROR_GPU_IS_LOST
    seen = see(lost, nvml.h200("1g.18gb", index=1))
    assert seen.notes == ("GPU 0 cannot be used: GPU is lost",)
    assert [part.name for part in seen.slices] == ["gpu1:0"]


def test_a_slice_that_cannot_be_read_is_a_note(see, nvml) -> None:
    card = nvml.h200("1g.18gb", "1g.18gb")
    card.parts[0].faults["nvmlDeviceGetUUID"] = nvml.NVML_ERROR_UNKNOWN
    seen = see(card)
    assert seen.notes == ("slice gpu0:0 cannot be used: Unknown Error",)
    assert [part.name for part in seen.slices] == ["gpu0:1"]


def test_no_gpu_left_says_why(see, nvml) -> None:
    lost = nvml.h200()
    lost.faults["nvmlDeviceGetHandleByIndex"] = nvml.NVML_ERROR_GPU_IS_LOST
    assert "shows no GPU: GPU 0 cannot be used: GPU is lost" in see(lost).reason
    assert "`--gpus all`" in see().reason


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("NVML_ERROR_LIBRARY_NOT_FOUND", "driver is not installed here"),
        ("NVML_ERROR_DRIVER_NOT_LOADED", "`sudo modprobe nvidia`"),
        ("NVML_ERROR_LIB_RM_VERSION_MISMATCH", "reboot"),
        ("NVML_ERROR_NO_PERMISSION", "may not open the GPUs"),
        ("NVML_ERROR_UNKNOWN", "answers with an error (Unknown Error)"),
    ],
)
def test_a_library_that_does_not_open_is_a_reason(see, nvml, code: str, said: str) -> None:
    seen = see(faults={"nvmlInit": getattr(nvml, code)})
    assert seen.gpus == ()
    assert said in seen.reason


def test_an_error_after_opening_is_a_reason_and_closes(see, nvml) -> None:
    seen = see(nvml.h200(), faults={"nvmlDeviceGetCount": nvml.NVML_ERROR_UNKNOWN})
    assert "Unknown Error" in seen.reason
    assert nvml.machine.opened == 0


def test_a_library_that_does_not_close_is_no_trouble(see, nvml) -> None:
    seen = see(nvml.h200(), faults={"nvmlShutdown": nvml.NVML_ERROR_UNKNOWN})
    assert len(seen.gpus) == 1


def test_without_the_package_the_reason_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert "`pip install nvidia-ml-py`" in inventory().reason


def test_another_module_of_that_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", ModuleType("pynvml"))
    assert "pip install -U nvidia-ml-py" in inventory().reason


@pytest.mark.parametrize("code", [1, 2, 3, 4, 6, 9, 13, 15, 18, 999])
def test_whatever_fails_there_is_an_inventory_and_a_plan(see, nvml, code: int) -> None:
    names = [name for name in vars(nvml) if name.startswith("nvml")]
    assert len(names) > 8
    for name in names:
        card, part = nvml.h200("1g.18gb", "3g.71gb"), nvml.h200("1g.18gb", index=1)
        card.faults[name] = part.parts[0].faults[name] = code
        for there in (see(card, part), see(nvml.h200("1g.18gb"), faults={name: code})):
            drafted = draft({"asr": ["1g.18gb", "gpu0:1"], "tts": ["7g.141gb", "gpu1"]}, there)
            assert len(drafted.seats) == 4
            assert bool(there.gpus) != bool(there.reason)


def test_the_pretence_has_the_real_modules_signatures_and_errors(nvml, monkeypatch) -> None:
    path = Path(sysconfig.get_paths()["purelib"]) / "pynvml.py"
    if not path.is_file():
        pytest.skip("nvidia-ml-py is not installed")
    spec = importlib.util.spec_from_file_location("real_pynvml", path)
    real = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "real_pynvml", real)  # it looks itself up there
    spec.loader.exec_module(real)
    functions = [name for name in vars(nvml) if name.startswith("nvml")]
    assert len(functions) > 10
    for name in functions:
        assert inspect.signature(getattr(nvml, name)) == inspect.signature(getattr(real, name))
    for name, value in vars(nvml).items():
        if name.startswith("NVML_"):
            assert value == getattr(real, name)
        if name.startswith("NVMLError_"):
            assert issubclass(getattr(real, name), real.NVMLError)
            code = nvml.NVMLError(value.value)
            assert type(code).__name__ == type(real.NVMLError(value.value)).__name__ == name
    shape = nvml.c_nvmlDeviceAttributes(nvml.h200("1g.18gb").parts[0])
    fields = {name for name, _ in real.c_nvmlDeviceAttributes._fields_}
    assert set(vars(shape)) <= fields
    assert vars(nvml.c_nvmlMemory_t(1)).keys() == {n for n, _ in real.c_nvmlMemory_t._fields_}


def test_the_real_library_answers_on_this_machine_whatever_it_has() -> None:
    pytest.importorskip("pynvml")
    seen = inventory()
    assert bool(seen.gpus) != bool(seen.reason)
