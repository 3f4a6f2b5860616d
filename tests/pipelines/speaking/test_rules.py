"""Rules are asked only where they may apply."""

import re

from pipelines.speaking.rules import applied, rule


def test_rules_apply_in_turn() -> None:
    rules = (rule("a", re.compile("a+"), "b"), rule("b", re.compile("b"), lambda b: b[0] * 2))
    assert applied(rules, "aab") == "bbbb"


def test_a_rule_whose_need_is_not_met_is_not_asked() -> None:
    assert applied([rule("x", re.compile("a"), "b")], "aaa") == "aaa"
