"""How far two models are apart, against sums done by hand."""

import math

import pytest
import torch

from engines.build.calibration import Spoken
from engines.build.fidelity import compare, predictions, require_faithful
from engines.build.manifest import Fidelity
from engines.build.steps import BuildError
from engines.tts.orpheus_tokens import GRAMMAR, ids_of

pytestmark = pytest.mark.torch


def logs(*rows):
    return torch.tensor(rows).log()


def test_a_model_is_no_distance_from_itself():
    own = [[logs([0.5, 0.5]), logs([0.1, 0.9])]]
    assert compare(own, own) == Fidelity(1, 2, 0.0, 0.0, 1.0)


def test_the_distance_is_the_divergence_of_the_source_from_what_was_built():
    source = [[logs([0.75, 0.25], [0.5, 0.5])], [logs([0.9, 0.1])]]
    built = [[logs([0.25, 0.75], [0.5, 0.5])], [logs([0.9, 0.1])]]
    found = compare(source, built)
    expected = 0.75 * math.log(3) + 0.25 * math.log(1 / 3)
    assert found.worst_kl == pytest.approx(expected, abs=1e-6)
    assert found.mean_kl == pytest.approx(expected / 3, abs=1e-6)
    assert (found.sequences, found.positions) == (2, 3)
    assert found.agreement == pytest.approx(2 / 3, abs=1e-6)


def test_what_is_impossible_in_both_counts_for_nothing():
    assert compare([[logs([1.0, 0.0])]], [[logs([1.0, 0.0])]]).mean_kl == 0


@pytest.mark.parametrize(
    ("kl", "agreement"), [(0.11, 1.0), (0.0, 0.4), (math.nan, 1.0), (math.inf, 1.0)]
)
def test_too_far_is_refused(kl, agreement):
    require_faithful(Fidelity(1, 1, 0.1, 0.1, 0.5), max_kl=0.1, min_agreement=0.5)
    with pytest.raises(BuildError, match=r"too far from its source.*--max-kl"):
        require_faithful(Fidelity(1, 1, kl, kl, agreement), max_kl=0.1, min_agreement=0.5)


def test_each_token_is_predicted_among_those_that_may_have_its_place(orpheus, told):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(orpheus, dtype=torch.float32).eval()
    one = Spoken((128_259, 5, 6, 7), ids_of(range(7)) + ids_of(range(7)))
    [places] = predictions(model, [one], "predict", told)
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([one.ids])).logits[0]
    assert len(places) == 7
    for place, found in enumerate(places):
        allowed, may_stop = GRAMMAR.allowed(place)
        ids = [*allowed, GRAMMAR.stop] if may_stop else list(allowed)
        for nth in range(2):
            expected = logits[len(one.prompt) - 1 + 7 * nth + place, ids].log_softmax(-1)
            torch.testing.assert_close(found[nth], expected)
    assert told.done["predict"] == [18, 18, "tokens"]
