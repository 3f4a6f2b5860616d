"""What a model may do to its own call, and what it is told where it asks for nonsense."""

import pytest

from pipelines.conversation.events import HangUpRequested, ProfileChosen
from pipelines.conversation.own_tools import OWN_TOOLS, perform


def test_a_tool_goes_by_the_name_it_is_offered_under() -> None:
    assert {name: own.tool.name for name, own in OWN_TOOLS.items()} == {
        "expect_answer": "expect_answer",
        "hang_up": "hang_up",
    }


def test_a_model_expects_an_answer_of_a_kind() -> None:
    assert perform("expect_answer", '{"kind": "digits"}') == (
        ProfileChosen("digits", once=True),
        "done",
    )
    assert perform("expect_answer", '{"kind": "patient", "once": false}')[0] == ProfileChosen(
        "patient"
    )


def test_a_model_hangs_up() -> None:
    assert perform("hang_up", "") == (HangUpRequested(), "done")


@pytest.mark.parametrize("arguments", ['{"kind": "loud"}', "{}", "[]", "no json", '{"kind": []}'])
def test_what_cannot_be_done_is_told_to_the_model(arguments: str) -> None:
    event, outcome = perform("expect_answer", arguments)
    assert event is None
    assert outcome.startswith("expect_answer was not done: ")


def test_arguments_without_end_are_nonsense_too() -> None:
    event, told = perform("expect_answer", '{"kind":' + "[" * 50_000)
    assert event is None
    assert "expect_answer was not done" in told
