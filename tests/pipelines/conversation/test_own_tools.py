"""What a model may do to its own call, and what it is told where it asks for nonsense."""

import pytest

from pipelines.conversation.events import HangUpRequested, ProfileChosen
from pipelines.conversation.own_tools import OWN_TOOLS, DigitsChosen, perform, without_phone


def test_a_tool_goes_by_the_name_it_is_offered_under() -> None:
    assert {name: own.tool.name for name, own in OWN_TOOLS.items()} == {
        "expect_answer": "expect_answer",
        "hang_up": "hang_up",
        "send_digits": "send_digits",
    }


def test_keys_are_of_use_on_a_telephone_only() -> None:
    assert without_phone(OWN_TOOLS) == ("expect_answer", "hang_up")
    assert OWN_TOOLS["send_digits"].by_phone


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


@pytest.mark.parametrize(
    ("arguments", "pressed"),
    [
        ('{"digits": "1"}', "1"),
        ('{"digits": 42}', "42"),
        ('{"digits": "4 9 a#*"}', "49A#*"),
        ('{"digits": ""}', None),
        ('{"digits": "1w2"}', None),
        ('{"digits": ["1"]}', None),
        (f'{{"digits": "{"1" * 33}"}}', None),
        ("{}", None),
    ],
)
def test_a_model_presses_keys_that_there_are(arguments: str, pressed: str | None) -> None:
    deed, told = perform("send_digits", arguments)
    assert deed == (DigitsChosen(pressed) if pressed else None)
    assert told == "done" or told.startswith("send_digits was not done: digits must be")


@pytest.mark.parametrize("arguments", ['{"kind": "loud"}', "{}", "[]", "no json", '{"kind": []}'])
def test_what_cannot_be_done_is_told_to_the_model(arguments: str) -> None:
    event, outcome = perform("expect_answer", arguments)
    assert event is None
    assert outcome.startswith("expect_answer was not done: ")


def test_arguments_without_end_are_nonsense_too() -> None:
    event, told = perform("expect_answer", '{"kind":' + "[" * 50_000)
    assert event is None
    assert "expect_answer was not done" in told
