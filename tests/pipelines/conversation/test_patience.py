import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.conversation.patience import PROFILES, Waits, wait_ms

OPINIONS = st.lists(st.floats(-1, 1), max_size=4)


@pytest.mark.parametrize(
    ("evidence", "wait"),
    [
        ([], 500),
        ([0.0], 500),
        ([1.0], 320),
        ([-1.0], 1400),
        ([0.5], 410),
        ([-0.5], 950),
        ([0.5, -0.5], 500),
        ([1.0, 0.0], 320),
        ([-1.0, 0.2], 860),
        ([7.0], 320),
    ],
)
def test_evidence_moves_the_wait_from_its_base_to_a_bound(evidence, wait):
    assert Waits(320, 500, 1400).given(evidence) == wait


@pytest.mark.parametrize("profile", PROFILES)
@given(evidence=OPINIONS)
def test_no_evidence_leaves_the_bounds_of_its_profile(profile, evidence):
    waits = PROFILES[profile]
    assert waits.floor_ms <= wait_ms(profile, evidence) <= waits.ceiling_ms


@given(evidence=OPINIONS)
def test_the_patient_profiles_wait_longer_whatever_is_known(evidence):
    normal = wait_ms("normal", evidence)
    assert wait_ms("patient", evidence) > normal
    assert wait_ms("digits", evidence) > normal


@given(evidence=st.floats(-1, 1), more=st.floats(0, 1))
def test_who_sounds_more_finished_never_waits_longer(evidence, more):
    assert wait_ms("normal", [min(1.0, evidence + more)]) <= wait_ms("normal", [evidence])
