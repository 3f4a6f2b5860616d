import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.conversation.patience import PROFILES, Waits, opinion_of_sound, wait_ms

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
        ([-1.0, 0.4], 1040),
        ([-0.5, -0.5], 1400),
        ([0.5, 0.5], 320),
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
def test_a_patient_ear_waits_longer_whatever_is_known(evidence):
    assert wait_ms("patient", evidence) > wait_ms("normal", evidence)
    assert wait_ms("digits", evidence[:1]) > wait_ms("normal", evidence[:1])


@given(evidence=st.floats(-1, 1), more=st.floats(0, 1))
def test_who_sounds_more_finished_never_waits_longer(evidence, more):
    assert wait_ms("normal", [min(1.0, evidence + more)]) <= wait_ms("normal", [evidence])


def test_an_end_of_turn_model_is_believed_more_when_it_says_no():
    yes, no = opinion_of_sound(1.0), opinion_of_sound(0.0)
    assert (yes, no) == (pytest.approx(0.5), pytest.approx(-0.9))
    assert opinion_of_sound(0.5) < 0


def test_in_a_dictated_number_the_sound_counts_only_where_words_say_nothing():
    assert wait_ms("digits", [-0.4, 0.5]) == wait_ms("digits", [-0.4])
    assert wait_ms("digits", [0.0, 0.5]) == wait_ms("digits", [0.5]) < wait_ms("digits", [])
    assert wait_ms("patient", [-0.4, 0.5]) < wait_ms("patient", [-0.4])
