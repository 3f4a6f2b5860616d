"""Text deltas to phrases: the first one soon, the others whole sentences, nothing lost."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.speaking.phrases import PhraseSettings, PhraseSplitter


def phrases(*deltas: str, settings: PhraseSettings | None = None) -> list[str]:
    splitter = PhraseSplitter(settings)
    return [phrase for delta in deltas for phrase in splitter.feed(delta)] + splitter.finish()


def later(text: str) -> list[str]:
    """The phrases of a text that is not the first of its reply."""
    return phrases("Yes. ", text)[1:]


# --- the first phrase -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "first"),
    [
        ("Hello! How can I help you today?", "Hello!"),
        ("Of course! Here are three ideas.", "Of course!"),
        ("Yes. The shop opens at nine.", "Yes."),
        ("No. It closes at five.", "No."),
        ("Hmm... let me think about that.", "Hmm..."),
        ('"Hello!" she said. Then she left.', '"Hello!"'),
        ("**Sure!** Here is a list:", "**Sure!**"),
        ("I'm sorry, but I don't have access to that.", "I'm sorry,"),
        ("As an AI language model, I have no feelings.", "As an AI language model,"),
        ("The capital of France is Paris, on the Seine.", "The capital of France is Paris,"),
        ("Here is a quick answer: it is fine.", "Here is a quick answer:"),
        ("Absolutely — I'd be happy to help.", "Absolutely —"),
        ("Gladly then—here it is.", "Gladly then—"),
        ("Well, that is a good question. So", "Well, that is a good question."),
        ("Okay, so, here is the thing.", "Okay, so,"),
        ("Sure, I can help you with that. What", "Sure, I can help you"),
        ("Dr. Smith will see you at 9 a.m. on Monday.", "Dr. Smith will see you"),
        ("It depends on what you mean by that.", "It depends on what you mean"),
        ("The thin stripe ran across the middle.", "The thin stripe ran"),
        ("Long before the very last of them.", "Long before the very last"),
        ("All of these are in the box", "All of these are in the"),
        ("The answer is 3.14, more or less.", "The answer is 3.14,"),
        ("It costs $5.20, e.g. at the store.", "It costs $5.20,"),
        ("Visit https://example.com/a,b?c=d. Then sign in.", "Visit https://example.com/a,b?c=d."),
        ("1. Apples are red. 2. Pears are green.", "1. Apples are red."),
        ("好的。请问有什么问题？", "好的。"),
        ("好的，我来帮您看一下订单。", "好的，"),
        ("嗯，好的。", "嗯，好的。"),
        ("---\nWell then, here it is: a list.", "---\n"),
        ("Run `a, b` and then see. So", "Run `a, b`"),
        ("That sounds great", "That sounds great"),
    ],
)
def test_the_first_phrase_of_a_typical_reply_comes_soon(reply: str, first: str) -> None:
    assert phrases(*reply)[0] == first


def test_the_first_phrase_goes_out_as_soon_as_its_end_is_certain() -> None:
    splitter = PhraseSplitter()
    assert splitter.feed("I'm sorry,") == [], "the comma might be one of 3,000"
    assert splitter.feed(" but") == ["I'm sorry,"]


def test_a_word_that_still_grows_joins_nothing() -> None:
    splitter = PhraseSplitter()
    assert splitter.feed("we can all go to") == [], "it may become 'tomorrow'"
    assert splitter.feed("night.") == []
    assert splitter.finish() == ["we can all go tonight."]


def test_the_sizes_of_the_first_phrase_can_be_set() -> None:
    brisk = PhraseSettings(first_clause=1, first_joint=2, first_most=3)
    assert phrases("Well, I never.", settings=brisk)[0] == "Well,"
    assert phrases("Come here and sit.", settings=brisk)[0] == "Come here"
    assert phrases("One two three four.", settings=brisk)[0] == "One two three"


# --- the phrases after it -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Well, one, two. And three? Four!", ["Well, one, two.", " And three?", " Four!"]),
        ("Ask Mrs. Jones, e.g. by phone. Do.", ["Ask Mrs. Jones, e.g. by phone.", " Do."]),
        ("In the U.S. it is 3.5 percent. Here", ["In the U.S. it is 3.5 percent.", " Here"]),
        ("See www.example.com. Then call.", ["See www.example.com.", " Then call."]),
        ("“Stop!” he said. (Really.) Yes.", ["“Stop!” he said.", " (Really.)", " Yes."]),
        ("“Stop!” He did. “Now”, I said.", ["“Stop!”", " He did.", " “Now”, I said."]),
        ("Wait… what?! No...", ["Wait… what?!", " No..."]),
        ("I wonder... Well. Maybe", ["I wonder...", " Well.", " Maybe"]),
        ("Come at 3 p.m. on Monday. Or", ["Come at 3 p.m. on Monday.", " Or"]),
        ("Come at 3 p.m. Monday. Or", ["Come at 3 p.m. Monday.", " Or"]),
        ("Come at 3 p.m. Then we eat. Or", ["Come at 3 p.m.", " Then we eat.", " Or"]),
        ("Come at 3 p.m.\nThen we eat.", ["Come at 3 p.m.\n", "Then we eat."]),
        ("J. R. R. Tolkien wrote it. So", ["J. R. R. Tolkien wrote it.", " So"]),
        ("Take vitamin C. It helps. So", ["Take vitamin C.", " It helps.", " So"]),
        ("So do I. You know. Well", ["So do I.", " You know.", " Well"]),
        ("On 123 Main St. in Troy. So", ["On 123 Main St. in Troy.", " So"]),
        ("Acme Inc. Chairman Ed. So it", ["Acme Inc. Chairman Ed.", " So it"]),
        ("See No. 5 first. No. It is", ["See No. 5 first.", " No.", " It is"]),
        ("Get v2.1. Or 3.11.2. So", ["Get v2.1.", " Or 3.11.2.", " So"]),
        ("It is 10 ft. tall. It", ["It is 10 ft. tall.", " It"]),
        ("Wait 5 min. Then go.", ["Wait 5 min.", " Then go."]),
        ("Since Nov. 30 it is. So", ["Since Nov. 30 it is.", " So"]),
        ("Mail a.b@c.org. Or d@e.fr. So", ["Mail a.b@c.org.", " Or d@e.fr.", " So"]),
        ("He sat. Rain fell. So", ["He sat.", " Rain fell.", " So"]),
        ("Set `a. B` first. Then", ["Set `a. B` first.", " Then"]),
        ("See [Dr. No. A film](x.y/z). Then", ["See [Dr. No. A film](x.y/z).", " Then"]),
        ("Do:\n- **1. Go.** Now\n- b\n", ["Do:\n", "- **1. Go.**", " Now\n", "- b\n"]),
        ("Do:\na. Go.\nii. Sit.\n", ["Do:\n", "a. Go.", "\nii. Sit.", "\n"]),
        ("## 2. On\n| a. B | c |\n", ["## 2. On\n", "| a. B | c |\n"]),
        ("\n```py\na = 1\n```\n", ["\n```py\n", "a = 1\n", "```\n"]),
        ("You need:\n1. Salt.\n2. Oil. Mix", ["You need:\n", "1. Salt.", "\n2. Oil.", " Mix"]),
        ("A title\n\nA text", ["A title\n", "\nA text"]),
        ("你好！？「好。」他说。再见", ["你好！？", "「好。」", "他说。", "再见"]),
    ],
)
def test_a_later_phrase_is_a_sentence(text: str, expected: list[str]) -> None:
    joined = later(text)
    assert [joined[0].removeprefix(" "), *joined[1:]] == expected


def test_an_overlong_sentence_is_cut_at_its_last_clause() -> None:
    settings = PhraseSettings(most=6)
    text = "Yes. One two, three four, five six seven, eight nine."
    assert phrases(text, settings=settings) == [
        "Yes.",
        " One two, three four,",
        " five six seven, eight nine.",
    ]


def test_what_has_no_words_is_not_the_first_phrase() -> None:
    assert phrases("---\n# Well then, here it is.")[:2] == ["---\n", "# Well then,"]


def test_ideographs_count_in_pairs() -> None:
    cut = phrases("Yes. " + "好" * 50 + "。", settings=PhraseSettings(most=10))
    assert [len(phrase.strip()) for phrase in cut[1:]] == [20, 20, 11]


def test_an_overlong_sentence_without_clauses_is_cut_hard() -> None:
    settings = PhraseSettings(most=3)
    assert phrases("Yes. a b c d e f", settings=settings) == ["Yes.", " a b c", " d e f"]


def test_a_finished_splitter_is_as_new() -> None:
    splitter = PhraseSplitter()
    splitter.feed("Yes. And so")
    assert splitter.finish() == [" And so"]
    assert splitter.feed("Yes, of course, it") == ["Yes, of course,"]


def test_blanks_come_last_and_once() -> None:
    assert phrases("") == []
    assert phrases("", " \n ", "\n\n") == [" \n \n\n"]
    assert phrases("Yes. \n ") == ["Yes.", " \n "]


MARKS = ["...", "!", "。", "。」", "，", "`", "[", "p.m. ", "... ", "No. ", '."', ", ", "\n", "a. "]


@pytest.mark.parametrize("mark", [*MARKS, "aaaa", "ส", "\t"])
def test_a_model_that_is_stuck_does_not_stall_the_loop(mark: str) -> None:
    started = time.thread_time()
    phrases(*[mark] * 3_000)
    phrases(mark * 3_000)
    assert time.thread_time() - started < 2.0, "a search has become quadratic"


# --- whatever the model writes --------------------------------------------------------------

WORDS = (
    "p.m. Then No. 5 J. `x [link ](u) A I. “so” “so.” it ```\n ... then St. 嗯， 的…… | - * "
    "the and to a Dr. e.g. 3.14 1. U.S. well, so: — - x—y end. really?! wait... no… (ok.) **b** "
    "你好， 好。」 吗？！ http://a.b/c,d tea milk"
)
words = st.sampled_from([*WORDS.split(), '"Hi!"', "", " ", "\n", "\n\n"])
texts = st.lists(words, max_size=60).map(" ".join) | st.text('a.!?,…—"』。， \n1', max_size=80)


@st.composite
def chopped(draw: st.DrawFn) -> tuple[str, list[str]]:
    text = draw(texts)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=20)))
    return text, [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@given(chopped())
def test_nothing_is_lost(case: tuple[str, list[str]]) -> None:
    text, deltas = case
    assert "".join(phrases(*deltas)) == text


@given(chopped())
def test_phrases_do_not_depend_on_how_the_text_is_chopped(case: tuple[str, list[str]]) -> None:
    text, deltas = case
    assert phrases(*deltas) == phrases(text) == phrases(*text)
    short = PhraseSettings(most_characters=12)
    assert phrases(*deltas, settings=short) == phrases(text, settings=short)


@pytest.mark.parametrize("word", ["ab", "ab ", "\n ab", "你好", "e.g. "])
def test_a_phrase_has_no_more_characters_than_allowed(word: str) -> None:
    settings = PhraseSettings(most=1_000, first_most=1_000, most_characters=50)
    cut = phrases(*[word] * 200, settings=settings)
    assert max(len(phrase.strip()) for phrase in cut) <= 50
    assert "".join(cut).rstrip() == (word * 200).rstrip()


@given(texts, st.integers(3, 10))
def test_no_phrase_is_blank_or_longer_than_allowed(text: str, most: int) -> None:
    first, *others = phrases(text, settings=PhraseSettings(most=most)) or ["-"]
    assert len(first.split()) <= 7
    assert all(phrase.strip() for phrase in others[:-1])
    assert all(len(phrase.split()) <= most for phrase in others)


@pytest.mark.parametrize("blank", ["\n", "\t", " "])
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_blanks_without_end_are_cut_like_anything_else(blank: str, step: int) -> None:
    splitter, text = PhraseSplitter(), "Well." + blank * 1_000 + "So?"
    fed = [
        phrase for at in range(0, len(text), step) for phrase in splitter.feed(text[at : at + step])
    ]
    phrases = [*fed, *splitter.finish()]
    assert "".join(phrases) == text
    assert max(map(len, phrases)) <= 800
