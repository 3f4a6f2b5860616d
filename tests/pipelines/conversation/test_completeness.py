import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.conversation.completeness import completeness, expects_digits
from pipelines.conversation.leaning_words import LEANING

UNFINISHED = [
    ("en", "I want to book a table for"),
    ("en", "I want to book a table for."),
    ("en", "My number is"),
    ("en", "My number is."),
    ("en", "It was cold and"),
    ("en", "I can't come because."),
    ("en", "Could you tell me the?"),
    ("en", "So, I was, um"),
    ("en", "Uh."),
    ("en", "and then"),
    ("en", "We went home and then."),
    ("en", "I'd like to."),
    ("en", "It's very"),
    ("en", "There is"),
    ("en", "Seven of."),
    ("en", "He might have been made so that."),
    ("en", "I need eggs, milk, bread."),
    ("en", "If I call tomorrow."),
    ("en", "At that high level,"),
    ("en", "Drop the two when you add"),
    ("en", "What is?"),
    ("en", "Do I have to bring my passport when I?"),
    ("en", "Well..."),
    ("en", "I was thinking about…"),
    ("en", "Hold on."),
    ("en", "Let me check."),
    ("en", "Yes,"),
    ("en", "That's fine. But"),
    ("en-GB", "The problem is"),
    ("EN", "because"),
    ("de", "Ich möchte einen Tisch für"),
    ("de", "Ich rufe an, weil."),
    ("de", "Meine Nummer ist."),
    ("de", "Also, ähm."),
    ("de", "Moment."),
    ("de", "Und dann"),
    ("de", "Wenn ich morgen anrufe."),
    ("fr", "Je voudrais"),
    ("fr", "J'appelle parce que."),
    ("fr", "Mon numéro, c'est."),
    ("fr", "C'est la maison de l'"),
    ("fr", "Euh."),
    ("fr", "Attendez."),
    ("es", "Quiero una mesa para"),
    ("es", "Llamo porque."),
    ("es", "Mi número es."),
    ("es", "Un momento."),
    ("es", "Eh"),
    ("it", "Vorrei un tavolo per"),
    ("it", "Chiamo perché."),
    ("it", "Il mio numero è."),
    ("it", "Un attimo."),
    ("pt", "Eu queria uma mesa para"),
    ("pt-BR", "Estou ligando porque."),
    ("pt", "Meu número é."),
    ("pt", "Um momento."),
    ("nl", "Ik wil graag een tafel voor"),
    ("nl", "Ik bel omdat."),
    ("nl", "Mijn nummer is."),
    ("nl", "Even wachten."),
]

FINISHED = [
    ("en", "Yes."),
    ("en", "No, thank you."),
    ("en", "okay"),
    ("en", "That's all."),
    ("en", "I'd like a refund."),
    ("en", "What time do you open?"),
    ("en", "Could you repeat that?"),
    ("en", "I think so."),
    ("en", "Who is it for?"),
    ("en", "Yes, I can."),
    ("en", "Please turn it on."),
    ("en", "I need eggs, milk and bread."),
    ("en", "If I call tomorrow, will you be there?"),
    ("en", "If it rains, we stay at home."),
    ("en", "I don’t know."),
    ("en", "Because I was late. That's it."),
    ("en", "I wanted to know where it is."),
    ("en", "I would like to see a doctor."),
    ("de", "Ja, bitte."),
    ("de", "Wann machen Sie auf?"),
    ("de", "Ich möchte einen Tisch reservieren."),
    ("de", "Das weiß ich nicht."),
    ("fr", "Oui, merci."),
    ("fr", "À quelle heure ouvrez-vous?"),
    ("fr", "Je ne sais pas."),
    ("fr", "Je ne crois pas, monsieur."),
    ("es", "Sí, por favor."),
    ("es", "¿A qué hora abren?"),
    ("es", "Quiero cambiar mi reserva."),
    ("it", "Va bene."),
    ("it", "A che ora aprite?"),
    ("pt", "Não, obrigado."),
    ("pt", "A que horas abrem?"),
    ("nl", "Ja, graag."),
    ("nl", "Hoe laat gaat u open?"),
]

UNKNOWN = [
    ("en", ""),
    ("en", "..."),
    ("en", "go forward"),
    ("en", "Go forward."),
    ("ja", "わかりました。"),
    ("pl", "Chciałbym"),
    (None, "My number is"),
]


@pytest.mark.parametrize(("language", "text"), UNFINISHED)
def test_what_leans_on_more_to_come_sounds_unfinished(language, text):
    assert -1 <= completeness(text, language, "normal") <= -0.3


@pytest.mark.parametrize(("language", "text"), FINISHED)
def test_what_is_whole_sounds_finished(language, text):
    assert 0.3 <= completeness(text, language, "normal") <= 1


@pytest.mark.parametrize(("language", "text"), UNKNOWN)
def test_where_nothing_is_known_nothing_is_said(language, text):
    assert completeness(text, language, "normal") == 0


@pytest.mark.parametrize("profile", ["normal", "patient"])
def test_the_mark_alone_proves_less_than_the_last_word(profile):
    whole = completeness("He was a good man.", "en", profile)
    assert 0 < whole < -completeness("He was a good man and.", "en", profile)


def test_a_strong_word_outweighs_a_weak_one():
    assert completeness("I looked at the", "en", "normal") < completeness("It was", "en", "normal")


def test_a_question_may_end_with_what_a_statement_cannot():
    statement = completeness("I wonder who they are.", "en", "normal")
    assert statement < 0 < completeness("Do you know who they are?", "en", "normal")


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("four two seven", -1, -1),
        ("My number is", -1, -1),
        ("555 123 4567", 0.5, 1),
        ("I don't have it with me.", 0.3, 1),
        ("One moment.", -1, -0.5),
        ("That's all.", 0.5, 1),
    ],
)
def test_dictation_goes_by_the_number_and_else_by_the_words(text, least, most):
    assert least <= completeness(text, "en", "digits") <= most


def test_digits_count_in_languages_whose_words_are_not_known():
    assert completeness("123", "ja", "digits") == -1
    assert completeness("123", "ja", "normal") == 0


def test_what_was_asked_for_tells_how_long_a_number_is():
    asked = "Please tell me your four-digit PIN."
    assert completeness("4 2 7 9", "en", "digits", asked) > 0.5
    assert completeness("4 2 7 9", "en", "digits") < 0
    assert expects_digits(asked, "en")


@given(text=st.text(), language=st.sampled_from([None, "xx", *LEANING]))
@pytest.mark.parametrize("profile", ["normal", "digits"])
def test_any_text_has_a_score_within_bounds(profile, text, language):
    assert -1 <= completeness(text, language, profile) <= 1


@pytest.mark.parametrize("language", LEANING)
def test_the_table_holds_words_as_they_are_looked_up(language):
    leaning = LEANING[language]
    phrases = [*leaning.begun, *leaning.closed, *leaning.holds, *leaning.answers]
    words = [*leaning.open, *leaning.lean, *leaning.fillers, *leaning.asks, *leaning.clauses]
    assert all(each and each == each.lower().strip() for each in phrases + words)
    assert not {*leaning.begun} & {*leaning.closed}
    assert not leaning.open & leaning.lean
    assert leaning.strands <= leaning.open
