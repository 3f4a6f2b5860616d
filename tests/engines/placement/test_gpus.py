"""Names and shares of slices, against the tables of NVIDIA's MIG user guide."""

import pytest

from engines.placement.gpus import Gpu, Slice, is_profile, profile_name


@pytest.mark.parametrize(
    ("memory_mib", "names"),
    [
        (143771, "1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb"),  # H200
        (81559, "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),  # H100 80 GB
        (95830, "1g.12gb 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb"),  # H100 NVL
        (40960, "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),  # A100 40 GB
        (183359, "1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb"),  # B200
    ],
)
def test_a_gpu_offers_the_profiles_that_nvidia_lists(memory_mib: int, names: str) -> None:
    assert " ".join(Gpu(0, "GPU-a", "a", memory_mib, mig=False).profiles) == names


def test_profiles_of_a_gpu_with_other_shares_are_not_guessed() -> None:
    assert Gpu(0, "GPU-a", "NVIDIA A30", 24576, mig=True, most_slices=4).profiles == {}


def test_a_slices_name_counts_memory_in_eighths_rounded_up() -> None:
    assert profile_name(1, 16384, 143771) == "1g.18gb"
    assert profile_name(1, 33280, 143771) == "1g.35gb"
    assert profile_name(3, 71424, 143771) == "3g.71gb"


@pytest.mark.parametrize("name", ["1g.18gb", "1g.18gb+me", "1g.18gb-me", "1c.3g.71gb", "7g.141gb"])
def test_a_profile_reads_as_one(name: str) -> None:
    assert is_profile(name)


@pytest.mark.parametrize("name", ["cpu", "gpu0", "18gb", "1g", "1g18gb", "1g.18gb ", "MIG-1g.18gb"])
def test_what_is_no_profile_does_not(name: str) -> None:
    assert not is_profile(name)


def h200(*slices: tuple[int, int, int]) -> Gpu:
    """With slices of (memory in MiB, compute, instance)."""
    parts = tuple(
        Slice(0, index, f"MIG-{index}", "", memory, compute, instance)
        for index, (memory, compute, instance) in enumerate(slices)
    )
    return Gpu(0, "GPU-a", "NVIDIA H200", 143771, mig=True, slices=parts, most_slices=7)


def test_room_is_counted_in_compute_and_in_memory() -> None:
    assert h200().fits(["1g.18gb"] * 7)
    assert not h200().fits(["1g.18gb"] * 8)
    assert h200().fits(["1g.35gb"] * 4)
    assert not h200().fits(["1g.35gb"] * 5)  # 5 of 7 in compute, 10 of 8 in memory
    assert h200().fits(["3g.71gb", "4g.71gb"])
    assert not h200().fits(["3g.71gb", "3g.71gb", "1g.18gb"])


def test_slices_that_are_there_take_their_room_until_it_is_emptied() -> None:
    gpu = h200((71424, 3, 1))
    assert gpu.used == (3, 4)
    assert gpu.fits(["1g.18gb"] * 4)
    assert not gpu.fits(["4g.71gb", "1g.18gb"])
    assert gpu.fits(["4g.71gb", "1g.18gb+me"], emptied=True)


def test_two_slices_of_one_instance_take_its_room_once() -> None:
    assert h200((71424, 3, 1), (71424, 3, 1)).used == (3, 4)


def test_what_is_not_offered_never_fits() -> None:
    assert not h200().fits(["1g.10gb"])
    assert not Gpu(0, "GPU-a", "NVIDIA L4", 23034).fits(["1g.10gb"])
