"""The nvidia-smi commands that a plan asks for."""

from engines.placement.cutting import remedies
from engines.placement.gpus import Gpu, Slice

SHAPES = {"1g.18gb": (16384, 1), "2g.35gb": (33280, 2), "3g.71gb": (71424, 3)}


def h200(*profiles: str, index: int = 0, mig: bool = True, after_reset: bool = True) -> Gpu:
    parts = tuple(
        Slice(index, number, f"MIG-{index}{number}", profile, *SHAPES[profile], number)
        for number, profile in enumerate(profiles)
    )
    return Gpu(index, f"GPU-{index}", "NVIDIA H200", 143771, mig, after_reset, parts)


def commands(missing: list[str], *gpus: Gpu, **keeping: list[str]) -> list[str]:
    found = remedies(missing, gpus, {int(name[3:]): kept for name, kept in keeping.items()})
    return [command for remedy in found for command in remedy.commands]


def test_missing_slices_are_made_in_one_command_the_largest_first() -> None:
    assert commands(["1g.18gb", "3g.71gb", "1g.18gb"], h200()) == [
        "sudo nvidia-smi mig -i 0 -cgi 3g.71gb,1g.18gb,1g.18gb -C"
    ]


def test_a_gpu_with_mig_off_is_switched_first() -> None:
    assert commands(["1g.18gb+me"], h200(mig=False, after_reset=False)) == [
        "sudo nvidia-smi -i 0 -mig 1",
        "sudo nvidia-smi mig -i 0 -cgi 1g.18gb+me -C",
    ]


def test_a_switch_that_waits_for_a_reset_gets_one() -> None:
    assert commands(["1g.18gb"], h200(mig=False, after_reset=True)) == [
        "sudo nvidia-smi -i 0 --gpu-reset",
        "sudo nvidia-smi mig -i 0 -cgi 1g.18gb -C",
    ]


def test_a_whole_gpu_is_left_whole_while_another_has_room() -> None:
    gpus = (h200(mig=False), h200("3g.71gb", index=1))
    assert commands(["1g.18gb"], *gpus) == ["sudo nvidia-smi mig -i 1 -cgi 1g.18gb -C"]


def test_what_one_gpu_has_no_room_for_comes_from_the_next() -> None:
    assert commands(["3g.71gb"] * 3, h200(), h200(index=1)) == [
        "sudo nvidia-smi mig -i 0 -cgi 3g.71gb,3g.71gb -C",
        "sudo nvidia-smi mig -i 1 -cgi 3g.71gb -C",
    ]


def test_a_full_gpu_is_cut_anew_for_all_that_the_plan_has_on_it() -> None:
    gpu = h200(*["1g.18gb"] * 7)
    [remedy] = remedies(["3g.71gb"], [gpu], {0: ["1g.18gb", "1g.18gb"]})
    assert "ends whatever runs on its slices" in remedy.text
    assert remedy.commands == (
        "sudo nvidia-smi mig -i 0 -dci",
        "sudo nvidia-smi mig -i 0 -dgi",
        "sudo nvidia-smi mig -i 0 -cgi 3g.71gb,1g.18gb,1g.18gb -C",
    )


def test_cutting_anew_takes_in_what_would_have_been_made_beside() -> None:
    gpu = h200(*["1g.18gb"] * 4)  # 3 shares of compute and 4 of memory are left
    assert commands(["3g.71gb", "1g.18gb"], gpu) == [
        "sudo nvidia-smi mig -i 0 -dci",
        "sudo nvidia-smi mig -i 0 -dgi",
        "sudo nvidia-smi mig -i 0 -cgi 3g.71gb,1g.18gb -C",
    ]


def test_a_gpu_with_a_slice_named_by_uuid_is_not_cut_anew() -> None:
    full = h200(*["1g.18gb"] * 7)
    [remedy] = remedies(["3g.71gb"], [full], {0: ["mig-00"]})
    assert remedy.commands == ()
    assert remedy.text.startswith("No GPU has room for 3g.71gb:")


def test_more_than_a_gpu_can_hold_is_told_beside_what_can_be_made() -> None:
    made, left = remedies(["3g.71gb"] * 3, [h200()], {})
    assert made.commands == ("sudo nvidia-smi mig -i 0 -cgi 3g.71gb,3g.71gb -C",)
    assert left.commands == ()
    assert "Ask for fewer or smaller slices" in left.text


def test_profiles_that_no_gpu_offers_are_passed_over() -> None:
    assert commands(["1g.10gb"], h200()) == []
    assert commands(["1g.10gb", "1g.18gb"], h200()) == ["sudo nvidia-smi mig -i 0 -cgi 1g.18gb -C"]
