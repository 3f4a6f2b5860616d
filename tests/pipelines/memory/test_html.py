"""Of a page what people read, and no more."""

import pytest

from pipelines.memory.html import html_parts as parts
from pipelines.memory.parts import Part


def test_paragraphs_stand_under_their_headings() -> None:
    page = """<html><head><title>The  house</title><style>p {color: red}</style></head>
<body><p>Welcome &amp; enjoy.<h2>Meals <em>today</em></h2>
<p>At
seven.<br>Or later.</p><div>At <b>night</b>, too.</div>"""
    assert parts(page) == [
        Part("Welcome & enjoy.", "line 2", "The house"),
        Part("At seven. Or later.", "line 3", "Meals today"),
        Part("At night, too.", "line 4", "Meals today"),
    ]


def test_scripts_styles_and_menus_are_not_read() -> None:
    page = (
        "<nav><a>Home</a><ul><li>About</li></ul></nav><script>let a = '<p>no</p>';</script>"
        "<svg><text>logo</text></svg><p>Yes.</p></nav><p>Still.</p><noscript>off</noscript>"
    )
    assert [part.text for part in parts(page)] == ["Yes.", "Still."]


def test_a_row_of_a_table_is_one_part() -> None:
    page = "<table><tr><th>Room<th>Price<tr><td>12</td><td>80</td></tr></table>"
    assert [part.text for part in parts(page)] == ["Room | Price", "12 | 80"]


def test_an_empty_heading_changes_nothing_and_nothing_is_nothing() -> None:
    assert parts("<h1>A</h1><h2></h2><p>x</p>") == [Part("x", "line 1", "A")]
    assert parts("") == []
    assert [part.text for part in parts("no tags at all")] == ["no tags at all"]


@pytest.mark.parametrize(
    "odd",
    ["<![if !supportLists]>", "<![endif]>", "<![foo[bar]]>", "<![\n>", "<![CDATA[x]]>", "<!x>"],
)
def test_sections_of_other_programs_are_comments(odd: str) -> None:
    assert [part.text for part in parts(f"<p>Before.</p>{odd}<p>After.")] == ["Before.", "After."]


@pytest.mark.parametrize("mark", ["<a ", "<!--", "</", "<?", "<![CDATA[", "<a b='"])
def test_what_is_never_closed_is_no_text_and_is_looked_at_once(mark: str) -> None:
    assert [part.text for part in parts("<p>Q &amp; A &" + mark * 20_000)] == ["Q & A &"]
