"""What words over a reply amount to, by tables; and what holds for all texts."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.conversation.words import kind_of

REPLY = (
    "Your order left our warehouse yesterday morning, and it should be with you by Thursday. "
    "If nobody is at home, the driver will leave it with a neighbour at 3:30."
)
GERMAN = "Ihre Bestellung ist gestern früh aus unserem Lager abgegangen und kommt am Donnerstag an."
JAPANESE = "ご注文の商品は昨日の朝に倉庫から発送されました。木曜日までに届く予定です。"

BACKCHANNELS = [
    ("en", "Mm-hm."),
    ("en", "mhm"),
    ("en", "Yeah."),
    ("en", "Right."),
    ("en", "Right?"),
    ("en", "Really?"),
    ("en", "O."),
    ("en", "Yeah, yeah, right."),
    ("en", "Mm-hm, okay!"),
    ("en", "Uh-huh… I see."),
    ("en", "Haha, that's true."),
    ("en-GB", "All right, got it."),
    ("en", "Ha ha ha"),
    ("en", "OK"),
    ("en", "(laughs) Yeah."),
    ("en", "THAT’S RIGHT"),
    ("de", "Genau."),
    ("de", "Ach so, ja ja."),
    ("de", "Mhm, alles klar."),
    ("fr", "D’accord, oui."),
    ("fr", "Ouais, c'est ça."),
    ("es", "Sí, claro."),
    ("es", "Ajá. Vale."),
    ("es", "Jajaja"),
    ("it", "Sì sì, va bene."),
    ("it", "Certo."),
    ("pt-BR", "Tá bom, entendi."),
    ("pt", "Pois é."),
    ("nl", "Ja, dat klopt."),
    ("pl", "No tak, jasne."),
    ("ru", "Да-да, понятно."),
    ("ru", "Угу"),
    ("ru", "Хахаха"),
    ("tr", "Evet, anladım."),
    ("tr", "Hı hı"),
    ("ja", "はい。"),
    ("ja", "うんうん、なるほどね"),
    ("ja", "へー、そうなんだ！"),
    ("zh", "嗯嗯，好的。"),
    ("zh", "对对对"),
    ("ko", "네, 알겠습니다."),
    ("ko", "ㅋㅋㅋ"),
    ("hi", "हाँ जी, ठीक है।"),
    ("ar", "نعم، تمام"),
    (None, "Hmm, okay."),
    ("sv", "Mm, right."),
]

WORDS = [
    ("en", "Stop."),
    ("en", "Wait, wait."),
    ("en", "No."),
    ("en", "Hello?"),
    ("en", "Yes?"),
    ("en", "Okay?"),
    ("en", "Yeah, but not on Thursday."),
    ("en", "Right, stop."),
    ("en", "Okay, what about Friday"),
    ("en", "Call (555) 01 now"),
    ("en", "genau"),
    ("de", "Nein."),
    ("de", "Ja, aber"),
    ("de", "Moment mal, bitte"),
    ("fr", "Non, attendez."),
    ("es", "No, espere."),
    ("ru", "Стоп"),
    ("ja", "ちょっと待って"),
    ("ja", "はい、でも"),
    ("zh", "不对"),
    ("ko", "잠깐만요"),
    ("hi", "रुकिए"),
    ("ar", "توقف"),
    (None, "genau"),
]

NOTHING = ["", "   ", "...", "[cough]", "(laughs)", "*clears throat*", "♪", "♪ la la la ♪", "—!?"]
NOTHING += ["[BLANK_AUDIO] (music)", "（笑）", "<noise>"]

ECHOES = [
    ("literal", "en", "Your order left our warehouse yesterday morning", REPLY),
    ("three words of it", "en", "with you by", REPLY),
    ("the middle", "en", "it should be with you by Thursday.", REPLY),
    ("begun in the middle of a word", "en", "house yesterday morning and it should be", REPLY),
    ("cut off in a word", "en", "the driver will leave it with a neigh", REPLY),
    ("misheard", "en", "you order left are ware house yesterday mourning and it should", REPLY),
    ("digits for words", "en", "leave it with a neighbor at three thirty", REPLY),
    (
        "words for digits",
        "en",
        "that is 1 200 euros all",
        "That is twelve hundred euros, all.",
    ),
    (
        "a question of the agent's",
        "en",
        "shall I take that one?",
        "Doctor Miller. Shall I take that one?",
    ),
    ("a word not heard", "en", "it should be you by Thursday if nobody is at home", REPLY),
    ("a word too many", "en", "it should be with with you by Thursday", REPLY),
    ("German", "de", "ihre bestellung ist gestern früh aus unserm lager", GERMAN),
    ("Japanese", "ja", "昨日の朝に倉庫から発送されました", JAPANESE),
    ("as markup is read", "en", "the total is 42 euros", "The **total** is 42 euros."),
]

NO_ECHOES = [
    ("one word asked back", "Thursday?", REPLY),
    ("one word said again", "Thursday", REPLY),
    ("two words said again", "by Thursday", REPLY),
    ("three words asked back", "with a neighbour?", REPLY),
    ("three words in another order", "you with by", REPLY),
    ("the caller begins in the echo", "it should be with you by stop", REPLY),
    ("the caller goes on", "it should be with you by Thursday can I change", REPLY),
    ("what shares common words", "if it is with you I will be there", REPLY),
    ("another sentence", "can you tell me what it costs to send it back", REPLY),
    ("another number", "two nine three four zero", "There are five, five of them, not 6."),
    ("nothing is being spoken", "your order left our warehouse", ""),
    ("only marks are being spoken", "your order left our warehouse", "… — !"),
]


@pytest.mark.parametrize(("language", "text"), BACKCHANNELS)
def test_acknowledgements_hums_and_laughs_are_backchannels(language: str | None, text: str) -> None:
    assert kind_of(text, language, REPLY) == "backchannel"


@pytest.mark.parametrize(("language", "text"), WORDS)
def test_anything_with_another_word_is_words(language: str | None, text: str) -> None:
    assert kind_of(text, language, REPLY) == "words"


@pytest.mark.parametrize("text", NOTHING)
def test_sounds_written_down_and_bare_punctuation_are_nothing(text: str) -> None:
    assert kind_of(text, "en", REPLY) == "nothing"


@pytest.mark.parametrize(("what", "language", "text", "spoken"), ECHOES)
def test_what_is_being_spoken_is_echo(what: str, language: str, text: str, spoken: str) -> None:
    assert kind_of(text, language, spoken) == "echo"


@pytest.mark.parametrize(("what", "text", "spoken"), NO_ECHOES)
def test_what_a_caller_may_mean_is_words(what: str, text: str, spoken: str) -> None:
    assert kind_of(text, "en", spoken) == "words"


def test_an_acknowledgement_that_is_also_being_spoken_does_no_harm_either_way() -> None:
    assert kind_of("Of course.", "en", "Of course. I can book that for you.") == "backchannel"


ENGLISH = [text for language, text in BACKCHANNELS if language == "en" and "?" not in text]


@given(st.lists(st.sampled_from(ENGLISH), min_size=1, max_size=4))
def test_backchannels_on_end_are_one(texts: list[str]) -> None:
    assert kind_of(" ".join(texts), "en", "") == "backchannel"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ware house", "echo"),
        ("Should be with.", "echo"),
        ("Order lef are war.", "echo"),
        ("with a neighbour?", "echo"),
        ("no", "words"),
        ("stop", "words"),
        ("Thursday, wait", "words"),
        ("Can I change it", "words"),
        ("ten of clubs", "words"),
        ("", "nothing"),
        ("Yeah.", "backchannel"),
    ],
)
def test_a_scrap_of_the_reply_is_echo_where_the_sound_says_that_there_is_one(
    text: str, kind: str
) -> None:
    assert kind_of(text, "en", REPLY, echoes=True) == kind


@given(st.integers(0, 24), st.integers(4, 12))
def test_every_stretch_of_the_reply_is_echo_whatever_its_marks(start: int, length: int) -> None:
    stretch = REPLY.split()[start : start + length]
    text = " ".join(stretch).upper().replace(",", " ").replace("'", "’")
    if len(stretch) >= 4:
        assert kind_of(text, "en", REPLY) == "echo"
        assert kind_of(f"{text} stop wait", "en", REPLY) == "words"


@given(st.text(max_size=80), st.sampled_from(["en", "ja", None, "", "xx-YY"]), st.text(max_size=80))
def test_any_text_is_of_some_kind(text: str, language: str | None, spoken: str) -> None:
    kind = kind_of(text, language, spoken)
    assert kind in {"words", "backchannel", "echo", "nothing"}
    if not spoken:
        assert kind != "echo"
    if not any(map(str.isalnum, unicodedata.normalize("NFKD", text))):
        assert kind == "nothing"
