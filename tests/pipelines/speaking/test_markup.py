"""Markup goes, and what it marks stays."""

import pytest

from pipelines.speaking.normalise import speakable

MARKDOWN = [
    ("**Bold**, *italic*, __both__ and ~~gone~~.", "Bold, italic, both and gone."),
    ("***Very*** im*port*ant", "Very important"),
    ("# Heading", "Heading"),
    ("### Step 2: *Go* ###", "Step two: Go"),
    ('[the docs](https://x.y/z "Title") help', "the docs help"),
    ("![A cat](cat.png) sat.", "A cat sat."),
    ("[![badge](a.svg)](b) ok", "badge ok"),
    ("[text][1] and <https://x.com> and <a@b.com>", "text and x dot com and a at b dot com"),
    ("- one item", "one item"),
    ("* [x] done", "done"),
    ("1. Preheat the oven.", "one, Preheat the oven."),
    ("2) Mix.", "two, Mix."),
    ("> Quoted words.", "Quoted words."),
    ("---", ""),
    ("| Name | Age |", "Name, Age"),
    ("Fact[1], other [2, 3] and[^4].", "Fact, other and."),
]


@pytest.mark.parametrize(("text", "spoken"), MARKDOWN)
def test_what_markdown_marks_is_said_without_its_marks(text: str, spoken: str) -> None:
    assert speakable(text) == spoken
    assert speakable(spoken) == spoken


HTML = [
    ("<p>Hello <b>there</b></p><br/>", "Hello there"),
    ("Fish &amp; chips &lt;3", "Fish and chips less than three"),
    ("Tom & Jerry, R&D, AT&T", "Tom and Jerry, R and D, A.T and T"),
    ("It is 5 &gt; 3, and a < b.", "It is five more than three, and a less than b."),
    ("Ha <laugh> that is funny <sigh>", "Ha <laugh> that is funny <sigh>"),
    ('<giggle> no <function name="x"> tags', "no tags"),
    ("Great! 🎉🎉 👍🏽", "Great!"),
    ("Family 👨\u200d👩\u200d👧\u200d👦 and flag 🇩🇪!", "Family and flag!"),
    ("I ❤\ufe0f it ✔\ufe0f :-)", "I it"),
    ("1\ufe0f\u20e3 First", "one First"),
]


@pytest.mark.parametrize(("text", "spoken"), HTML)
def test_tags_and_pictures_are_not_said(text: str, spoken: str) -> None:
    assert speakable(text) == spoken
    assert speakable(spoken) == spoken
