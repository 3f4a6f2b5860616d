import pytest

from loadtest.wer import Wer, spoken_words, wer


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("Go forward 10 meters.", "go forward ten meters"),
        ("Mr. Dashwood's cold-hearted wife", "mister dashwood's cold hearted wife"),
        ("It’s 1,234,567 &c.", "it's one million two hundred thirty four thousand "
         "five hundred sixty seven and c"),
        ("100% of 90, or 21.05", "one hundred percent of ninety or twenty one point zero five"),
        ("Dial 29340 or 0.", "dial two nine three four zero or zero"),
        ("Dr. No, at 7", "doctor no at seven"),
        ("ten metres", "ten meters"),
    ],
)  # fmt: skip
def test_writing_becomes_speech(written, spoken):
    assert spoken_words(written) == spoken.split()


@pytest.mark.parametrize(
    ("reference", "hypothesis", "errors"),
    [
        ("a b c", "a b c", 0),
        ("a b c", "a x c", 1),
        ("a b c", "a c", 1),
        ("a b c", "a b x c", 1),
        ("a b c", "", 3),
        ("a b c", "b c a", 2),
        ("go 10", "Go ten!", 0),
    ],
)
def test_substitutions_insertions_and_deletions_count_one_each(reference, hypothesis, errors):
    assert wer([(reference, hypothesis)]).errors == errors


def test_long_references_weigh_more():
    total = wer([("a", "b"), ("a b c", "a b c")])
    assert total == Wer(1, 4)
    assert total.rate == 0.25


def test_words_where_none_were_said_are_all_wrong():
    assert wer([("", "you")]).rate == 1
    assert wer([("", "")]).rate == 0


@pytest.mark.parametrize(
    ("reference", "hypothesis", "lost"),
    [
        ("a b c", "a b c", 0),
        ("a b c", "a c", 1),
        ("a b c", "", 3),
        ("a b c", "a x c", 0),
        ("a b c", "a b x c", 0),
        ("a b c d", "x d", 2),
    ],
)
def test_words_that_were_not_heard_at_all_are_lost(reference, hypothesis, lost):
    assert wer([(reference, hypothesis)]).lost == lost
