"""Who gets which slice, and what is said to whom there is none for."""

import pytest

from engines.placement import Inventory, PlacementError, draft, plan
from engines.ports import EngineError


def names(planned, kind: str) -> list[str]:
    return [place.name for place in planned.places[kind]]


def test_each_process_gets_a_slice_of_its_own_by_its_uuid(see, nvml) -> None:
    there = see(nvml.h200("3g.71gb", "1g.18gb", "1g.18gb", "1g.18gb"))
    planned = plan({"asr": ["1g.18gb", "1G.18GB"], "tts": [" 3g.71gb"], "llm": ["cpu"]}, there)
    assert names(planned, "asr") == ["gpu0:1", "gpu0:2"]
    assert names(planned, "tts") == ["gpu0:0"]
    assert [dict(place.environment) for place in planned.places["asr"]] == [
        {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": f"MIG-000000{n}"}
        for n in ("01", "02")
    ]
    [cpu] = planned.places["llm"]
    assert (cpu.name, dict(cpu.environment)) == ("cpu", {"CUDA_VISIBLE_DEVICES": ""})
    assert planned.warnings == ()


def test_a_slice_that_is_named_is_not_given_to_a_profile(see, nvml) -> None:
    there = see(nvml.h200("1g.18gb", "1g.18gb", "1g.18gb"))
    planned = plan({"asr": ["1g.18gb"], "tts": ["MIG-00000000"], "llm": ["gpu0:1"]}, there)
    assert [names(planned, kind) for kind in ("asr", "tts", "llm")] == [
        ["gpu0:2"], ["gpu0:0"], ["gpu0:1"],
    ]  # fmt: skip


def test_whoever_names_a_device_twice_shares_it_and_is_warned(see, nvml) -> None:
    planned = plan({"asr": ["gpu0"], "tts": ["GPU-00000000", "0"]}, see(nvml.h200(mig=False)))
    assert names(planned, "asr") == ["gpu0"]
    assert names(planned, "tts") == ["gpu0", "gpu0#2"]
    assert {p.environment["CUDA_VISIBLE_DEVICES"] for p in planned.places["tts"]} == {
        "GPU-00000000"
    }
    [warning] = planned.warnings
    assert warning.startswith("asr and tts and tts share gpu0: they take turns")


def test_processes_on_the_cpu_are_told_apart_and_need_no_gpu(see) -> None:
    planned = plan({"asr": ["cpu", "cpu"], "tts": ["cpu"]}, Inventory(reason="no driver"))
    assert names(planned, "asr") == ["cpu", "cpu#2"]
    assert names(planned, "tts") == ["cpu"]
    assert planned.warnings == ()


def test_nothing_wanted_is_an_empty_plan() -> None:
    assert plan({}, Inventory()).places == {}


def test_a_half_made_plan_keeps_what_it_has(see, nvml) -> None:
    there = see(nvml.h200("1g.18gb"))
    with pytest.raises(PlacementError) as caught:
        plan({"asr": ["1g.18gb", "1g.18gb"], "tts": ["3g.71gb"]}, there)
    error = caught.value
    assert isinstance(error, EngineError)
    assert error.code == "unavailable"
    assert names(error.plan, "asr") == ["gpu0:0"]
    assert error.message.splitlines() == [
        "asr on 1g.18gb: all there are of it (1) are taken",
        "tts on 3g.71gb: there is none",
        "To make it on GPU 0 (NVIDIA H200):",
        "  sudo nvidia-smi mig -i 0 -cgi 3g.71gb,1g.18gb -C",
    ]


def test_without_a_gpu_the_reason_is_told_once() -> None:
    there = Inventory(reason="NVIDIA's driver is not installed here")
    with pytest.raises(PlacementError) as caught:
        plan({"asr": ["1g.18gb", "1g.18gb"], "tts": ["gpu0"]}, there)
    assert caught.value.message.splitlines() == [
        "asr on 1g.18gb: there is no GPU",
        "tts on gpu0: there is no such GPU; there is none",
        "No GPU: NVIDIA's driver is not installed here",
    ]


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("1g.10gb", "no GPU here is cut that way: NVIDIA H200 has 1g.18gb, 1g.35gb"),
        ("MIG-ffff", "there is no such slice: `nvidia-smi -L`"),
        ("gpu0:6", "there is no such slice"),
        ("gpu7", "there is no such GPU; there is gpu0"),
        ("gpu0", "`sudo nvidia-smi -i 0 -mig 0`"),
        ("cuda", "'cuda' is no place: write a slice profile"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(see, nvml, wanted: str, said: str) -> None:
    half = draft({"asr": [wanted]}, see(nvml.h200("1g.18gb")))
    [lack] = half.lacks
    assert said in lack.lack
    assert half.remedies == ()


@pytest.mark.parametrize("wanted", ["cuda:0", "CPU", "-1", "gpu", "tcp://127.0.0.1:1", ""])
def test_a_word_that_is_no_place_asks_for_no_gpu(wanted: str) -> None:
    half = draft({"asr": [wanted]}, Inventory(reason="no driver"))
    [lack] = half.lacks
    assert lack.lack.startswith(f"{wanted!r} is no place: write")
    assert half.remedies == ()


def test_a_gpu_that_is_wanted_whole_is_not_cut(see, nvml) -> None:
    there = see(nvml.h200(mig=False), nvml.h200(mig=False, index=1))
    [remedy] = draft({"tts": ["gpu0"], "asr": ["1g.18gb"]}, there).remedies
    assert remedy.commands[0] == "sudo nvidia-smi -i 1 -mig 1"
