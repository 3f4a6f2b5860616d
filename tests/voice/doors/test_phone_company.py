"""Everyone who is told of a phone call: the telephone first, then each who has joined it."""

import inspect
from typing import Any

import pytest

from pipelines.conversation.ports import Door
from voice.doors.phone_company import Company

ALL = [name for name in vars(Door) if not name.startswith("_")]


class Told:
    def __init__(self, name: str, story: list[Any]) -> None:
        self._name, self._story = name, story

    def __getattr__(self, what: str) -> Any:
        return lambda *told: self._story.append((self._name, what, told))


def company() -> tuple[Company, list[Any]]:
    story: list[Any] = []
    both: list[Any] = [Told("telephone", story), Told("guest", story)]
    told = Company(both[0])
    told.guests.append(both[1])
    return told, story


@pytest.mark.parametrize("what", ALL)
def test_all_that_a_door_is_told_both_are(what: str) -> None:
    told, story = company()
    wants = len(inspect.signature(getattr(Door, what)).parameters) - 1
    given = tuple(object() for _ in range(wants))
    getattr(told, what)(*given)
    assert story == [("telephone", what, given), ("guest", what, given)]


@pytest.mark.parametrize(("what", "given"), [("key_pressed", ("5",)), ("item_added", ("x", None))])
def test_what_the_telephone_itself_tells_is_told_to_guests(what: str, given: Any) -> None:
    told, story = company()
    getattr(told, what)(*given)
    assert story == [("guest", what, given)]


def test_a_guest_may_leave_while_it_is_told() -> None:
    told, story = company()
    leaving: Any = Told("leaving", story)
    leaving.hung_up = lambda: told.guests.remove(leaving)
    told.guests.insert(0, leaving)
    told.hung_up()
    assert story == [("telephone", "hung_up", ()), ("guest", "hung_up", ())]
