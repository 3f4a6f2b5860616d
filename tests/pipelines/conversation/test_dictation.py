import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.conversation.dictation import dictated, expects_digits
from pipelines.conversation.number_words import CHECKS, KINDS, NUMBER_WORDS, REQUEST

SHORT = [
    ("en", "four two seven"),
    ("en", "Double three."),
    ("en", "427, and"),
    ("en", "It's four one five, five five five"),
    ("en", "It's 5182-4409-1273."),
    ("en", "zero two zero, um"),
    ("en", "415 555 0192 and then"),
    ("en", "415, double"),
    ("en", "March third."),
    ("en", "the 21st of"),
    ("en", "one eight hundred"),
    ("de", "null eins sieben"),
    ("de", "vierundzwanzig, dreißig"),
    ("de", "null eins und"),
    ("fr", "zéro six douze"),
    ("fr", "quatre-vingt-dix-huit"),
    ("es", "seis uno dos"),
    ("es", "treinta y dos"),
    ("it", "tre quattro sette"),
    ("it", "trentadue quaranta"),
    ("pt", "nove um meia"),
    ("nl", "nul zes vierentwintig"),
    ("ja", "090"),
]

WHOLE = [
    ("en", "415 555 0192"),
    ("en", "(415) 555-0192."),
    ("en", "four one five, five five five, zero one nine two"),
    ("en", "It's five one eight two, four four zero nine, one two seven three, six six zero one."),
    ("en", "oh two oh seven nine four six oh nine five eight"),
    ("en", "six five oh, two five three, four double oh seven"),
    ("en", "zero six twelve thirty-four fifty-six seventy-eight"),
    ("en", "March third, nineteen eighty-four."),
    ("en", "the 21st of June 1990"),
    ("en", "the third of May two thousand five"),
    ("en", "John at example dot com"),
    ("en", "john.doe@example.org"),
    ("de", "null eins sieben sechs, vierundzwanzig, dreißig, achtundzwanzig"),
    ("de", "3. Mai 1980"),
    ("fr", "zéro six douze trente-quatre cinquante-six soixante-dix-huit"),
    ("fr", "01 45 67 89 12"),
    ("es", "seis uno dos, treinta y dos, cuarenta y cinco, setenta y ocho, nueve"),
    ("it", "tre quattro sette, uno due tre, quattro cinque sei sette"),
    ("pt", "nove um meia, um dois três, quatro cinco seis sete"),
    ("nl", "nul zes vierentwintig dertig veertig vijftig"),
]

NO_NUMBER = [
    ("en", "I don't have it."),
    ("en", "One moment."),
    ("en", "My number is"),
    ("en", "427 is what it says here"),
    ("de", "Das weiß ich nicht."),
    ("en", ""),
]


@pytest.mark.parametrize(("code", "text"), SHORT)
def test_a_number_that_is_still_short_is_unfinished(code, text):
    assert dictated(text, code) <= -0.3


@pytest.mark.parametrize(("code", "text"), WHOLE)
def test_a_number_of_a_plausible_length_is_finished(code, text):
    assert dictated(text, code) >= 0.5


@pytest.mark.parametrize(("code", "text"), NO_NUMBER)
def test_what_does_not_end_with_a_number_is_not_judged(code, text):
    assert dictated(text, code) is None


@pytest.mark.parametrize(
    ("asked", "text", "whole"),
    [
        ("What's your card number?", "4111 1111 1111", False),
        ("What's your card number?", "4111 1111 1111 1111", True),
        ("What's your card number?", "415 555 0192", False),
        ("And your phone number, please?", "415 555", False),
        ("And your phone number, please?", "415 555 0192", True),
        ("Please enter your PIN.", "4279", True),
        ("Please enter your PIN.", "42", False),
        ("What are the last four digits?", "4279", True),
        ("What is your eight-digit account number?", "427 913", False),
        ("What is your eight-digit account number?", "4279 1355", True),
        ("What is the 6-digit code?", "427913", True),
        ("What are your last name and your 6-digit code?", "4279", False),
        ("What's your zip code?", "94103", True),
        ("What's your zip code?", "941", False),
        ("What is your date of birth?", "03 05 1980", True),
        ("What is your date of birth?", "third of May", False),
        ("What is your order number?", "1234567890123456789", True),
        ("What is your e-mail address?", "john 42", False),
    ],
)
def test_the_question_tells_how_long_it_has_to_be(asked, text, whole):
    score = dictated(text, "en", asked)
    assert score >= 0.5 if whole else score < 0


def test_letters_that_are_spelled_have_no_length():
    assert dictated("S M I T H", "en", "How do you spell that?") is None
    assert dictated("S M 1", "en", "Could you spell it, please?") is None


ASKS = [
    ("en", "Could you give me your phone number?"),
    ("en", "What's your account number? I'll look it up for you."),
    ("en", "How do you spell that?"),
    ("en", "Do you have your order number?"),
    ("en", "Please tell me the last four digits of your card."),
    ("en-US", "Great. And what is your date of birth?"),
    ("en", "I'll need your postcode."),
    ("en", "What’s the best number to reach you?"),
    ("en", "Can I have your e-mail address?"),
    ("en", "Please read me the confirmation code. Take your time."),
    ("de", "Wie lautet Ihre Telefonnummer?"),
    ("de", "Bitte nennen Sie mir Ihre Kundennummer."),
    ("de", "Könnten Sie das buchstabieren?"),
    ("fr", "Quel est votre numéro de téléphone?"),
    ("fr", "Pouvez-vous épeler votre nom?"),
    ("es", "¿Cuál es su número de tarjeta?"),
    ("es", "Por favor, dígame su fecha de nacimiento."),
    ("it", "Qual è il suo numero di telefono?"),
    ("it", "Mi dica il codice postale, per favore."),
    ("pt", "Qual é o seu CPF?"),
    ("pt", "Pode soletrar o seu nome?"),
    ("nl", "Wat is uw geboortedatum?"),
    ("nl", "Geef alstublieft uw postcode."),
]

ASKS_NOT = [
    ("en", "How can I help you?"),
    ("en", "Is your phone number 555 1234?"),
    ("en", "Your order number is 42. Anything else?"),
    ("en", "I have sent you a verification code."),
    ("en", "What is your phone number? Or would you like to talk to a person?"),
    ("en", "The number is 415 555 0192, is that correct?"),
    ("en", "Did you get the code?"),
    ("en", ""),
    ("de", "Ist Ihre Telefonnummer 0176 243028?"),
    ("de", "Wie kann ich Ihnen helfen?"),
    ("fr", "Avez-vous reçu le code?"),
    ("es", "¿Es correcto?"),
    ("ja", "電話番号は何番ですか?"),
    (None, "What is your phone number?"),
]


@pytest.mark.parametrize(("language", "reply"), ASKS)
def test_a_reply_that_asks_for_dictation_is_known(language, reply):
    assert expects_digits(reply, language)


@pytest.mark.parametrize(("language", "reply"), ASKS_NOT)
def test_a_reply_that_asks_for_none_is_left_alone(language, reply):
    assert not expects_digits(reply, language)


@given(text=st.text(), asked=st.text(), code=st.sampled_from(["", *NUMBER_WORDS]))
def test_any_text_has_a_score_within_bounds(text, asked, code):
    score = dictated(text, code, asked)
    assert score is None or -1 <= score <= 1


def test_each_language_has_all_of_the_tables():
    assert KINDS.keys() == NUMBER_WORDS.keys() == REQUEST.keys() == CHECKS.keys()
