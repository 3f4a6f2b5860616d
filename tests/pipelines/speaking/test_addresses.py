"""Addresses and telephone numbers in words."""

import pytest

from pipelines.speaking.normalise import speakable

ADDRESSES = [
    ("Take +1 23 45.", "Take plus one twenty-three forty-five."),
    ("My PIN is 0042, code: 4821", "My PIN is zero zero four two, code: four eight two one"),
    ("Say `https://x.io/a_b` now.", "Say x dot io slash a b now."),
    (
        "Call +1 555 123 4567.",
        "Call plus one, five five five, one two three, four five six seven.",
    ),
    ("Call (555) 123-4567.", "Call five five five, one two three, four five six seven."),
    (
        "Call 555-123-4567 ext. 12.",
        "Call five five five, one two three, four five six seven, extension one two.",
    ),
    (
        "Call 555.123.4567 or 1-800-555-1234.",
        (
            "Call five five five, one two three, four five six seven "
            "or one, eight zero zero, five five five, one two three four."
        ),
    ),
    (
        "Call +44 20 7946 0958 or +49 (30) 901820.",
        (
            "Call plus four four, two zero, seven nine four six, zero nine five "
            "eight or plus four nine, three zero, nine zero one eight two zero."
        ),
    ),
    ("Call 555-1234.", "Call five five five, one two three four."),
    ("Call 911 or 1-800-FLOWERS.", "Call nine one one or one, eight zero zero, Flowers."),
    (
        "My card is 4111 1111 1111 1111.",
        "My card is four one one one, one one one one, one one one one, one one one one.",
    ),
    ("Mail john.doe@example.com now.", "Mail john dot doe at example dot com now."),
    (
        "Mail sales_team+uk@my-shop.co.uk.",
        "Mail sales team plus uk at my dash shop dot co dot U.K.",
    ),
    ("See https://www.example.com.", "See example dot com."),
    (
        "See http://example.com/docs/intro?utm=x#top, then call.",
        "See example dot com slash docs slash intro, then call.",
    ),
    ("Go to example.org/a_b or www.test.io.", "Go to example dot org slash a b or test dot I.O."),
    (
        "Search (see https://en.wikipedia.org/wiki/Cat_(animal)).",
        "Search (see en dot wikipedia dot org slash wiki slash Cat animal).",
    ),
    (
        "Ping 192.168.0.1:8080.",
        (
            "Ping one hundred ninety-two dot one hundred sixty-eight "
            "dot zero dot one port eight zero eight zero."
        ),
    ),
    ("Open main.py and index.html.", "Open main dot py and index dot html."),
    ("Ask @bob about #travel.", "Ask at bob about travel."),
]


@pytest.mark.parametrize(("text", "spoken"), ADDRESSES)
def test_addresses_are_said_so_that_they_can_be_written_down(text: str, spoken: str) -> None:
    assert speakable(text) == spoken
    assert speakable(spoken) == spoken
