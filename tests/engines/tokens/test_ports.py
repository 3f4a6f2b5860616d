"""The grammar that keeps a speech model to whole rounds of tokens."""

from engines.tokens.ports import SlotGrammar

GRAMMAR = SlotGrammar(first=100, slots=3, width=10, stop=7)


def test_each_place_of_a_round_has_ids_of_its_own():
    spans = [GRAMMAR.allowed(generated)[0] for generated in range(7)]
    assert spans[:3] == [range(100, 110), range(110, 120), range(120, 130)]
    assert spans[3:6] == spans[:3]


def test_it_stops_between_two_rounds_alone():
    assert [GRAMMAR.allowed(generated)[1] for generated in range(7)] == [
        *(True, False, False),
        *(True, False, False),
        True,
    ]
