"""A phone calls through a real Asterisk, by each way that audio can go."""

import pytest

from engines.models import ModelMissing, ModelStore
from tests.phonecall.calls import WAYS
from tests.phonecall.debian import PhoneCallError, cache, check_machine, debian
from tests.phonecall.run import place_calls

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.engine]


@pytest.fixture(scope="module", autouse=True)
def _placeable() -> None:
    """What is missing on this machine, or in it, is a reason to leave the calls out."""
    try:
        check_machine()
        debian(cache())
        for name in ("speech", "silero-vad", "moonshine-tiny-en"):
            ModelStore().path(name)
    except (PhoneCallError, ModelMissing) as missing:
        pytest.skip(str(missing))


def test_calls_through_asterisk_are_as_they_should_be() -> None:
    made = place_calls()
    assert {finding.call for finding in made} == {*(way.name for way in WAYS), "sipp"}
    assert [finding for finding in made if finding.passed is False] == []
    if any(finding.passed is None for finding in made):
        pytest.skip("the machine was too busy to judge all calls by their sound")
