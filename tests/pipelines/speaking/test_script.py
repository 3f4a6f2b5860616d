"""A reply, line by line: as written and as spoken."""

from hypothesis import given
from hypothesis import strategies as st

from pipelines.speaking.phrases import PhraseSettings
from pipelines.speaking.script import Line, Script

REPLY = """Sure! Here is **how**:

1. Pay $5.20.
2. Run this:

```python
print("a. B")
```

| Day | Hours |
|-----|-------|
| Mon | 9–5   |

See [the docs](https://x.io/a). 😀
"""
SPOKEN = [
    "Sure!",
    "Here is how:",
    "one, Pay five dollars and twenty cents.",
    "two, Run this:",
    "A block of code.",
    "",
    "",
    "Day, Hours.",
    "",
    "Monday, nine to five.",
    "See the docs.",
    "",
]


def lines(text: str, *, pieces: int = 1) -> list[Line]:
    script = Script()
    deltas = [text[at : at + pieces] for at in range(0, len(text), pieces)]
    return [line for delta in deltas for line in script.feed(delta)] + script.finish()


def test_a_reply_is_read_out_without_what_is_not_for_the_ear() -> None:
    assert [line.spoken for line in lines(REPLY)] == SPOKEN
    assert "".join(line.text for line in lines(REPLY)) == REPLY


@given(st.integers(1, 200))
def test_lines_do_not_depend_on_how_the_text_arrives(pieces: int) -> None:
    assert lines(REPLY, pieces=pieces) == lines(REPLY)


@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(["```\n", "a. ", "\n", "<!--", "-->", "**b** ", "| c |\n", "5 ", "🎉"]),
        max_size=20,
    ).map("".join)
)
def test_the_written_text_is_whole(text: str) -> None:
    assert "".join(line.text for line in lines(text)) == text


def test_marks_of_a_line_are_so_only_at_its_start() -> None:
    script = Script(settings=PhraseSettings(first_most=2))
    said = [*script.feed("It was - 5 of them"), *script.finish()]
    assert [line.spoken for line in said] == ["It was", "five of them"]
    said = [*script.feed("x is > 5 now"), *script.finish()]
    assert [line.spoken for line in said] == ["x is", "more than five now"]


def test_a_finished_script_is_as_new() -> None:
    script = Script("de")
    script.feed("```\nx\n")
    script.finish()
    assert script.feed("Ja, gut. Ok") == [Line("Ja, gut.", "Ja, gut.")]


def test_blanks_at_the_end_are_written_and_not_spoken() -> None:
    assert lines("Yes. \n") == [Line("Yes.", "Yes."), Line(" \n", "")]
