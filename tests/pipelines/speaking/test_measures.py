"""The tables of units and currencies."""

import re

import pytest

from pipelines.speaking.measures import CURRENCIES, SYMBOLS, UNITS
from pipelines.speaking.normalise import speakable


@pytest.mark.parametrize("unit", UNITS)
def test_each_unit_is_known_behind_a_number(unit: str) -> None:
    one, several = UNITS[unit]
    assert speakable(f"It has 7 {unit} now") == f"It has seven {several} now"
    assert speakable(f"It has 1 {unit} now") == f"It has one {one} now"
    assert re.fullmatch(r"[A-Za-z -]+", one + several)


@pytest.mark.parametrize("symbol", [*SYMBOLS, *CURRENCIES])
def test_each_currency_is_known_before_and_behind_a_number(symbol: str) -> None:
    several = (SYMBOLS.get(symbol) or CURRENCIES[symbol]).several
    assert speakable(f"It costs {symbol} 7 now") == f"It costs seven {several} now"
    assert speakable(f"It costs 7 {symbol} now") == f"It costs seven {several} now"
