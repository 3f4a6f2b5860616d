"""What words that were heard over a reply amount to: a wish to speak, or none.

Only ``words`` are worth stopping for. Judged is the text alone, whatever the recogniser wrote;
whether the sound was echo is told by pipelines.conversation.echo.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["words", "backchannel", "echo", "nothing"]
Words: TypeAlias = tuple[str, ...]

_NOT_SAID: Final = re.compile(
    r"\[[^\]]*\]|\([^)\d]*\)|（[^）\d]*）|【[^】]*】|<[^>]*>|\*[^*]+\*|♪[^♪]*♪|[♪♫🎵🎶]"
)
"""What recognisers write for sounds: [cough], (laughs), *clears throat*, ♪ la la ♪."""

_SINGLE: Final = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u1100-\u11ff"
"""Scripts that are looked at character by character: kana, Han, Hangul."""

_WORD: Final = re.compile(
    rf"[{_SINGLE}]|\d+|(?:(?![{_SINGLE}\d_])[\w\u0900-\u0963\u0966-\u097f'’])+"
)
_ACCENTS: Final = re.compile(r"[\u0300-\u036f\u064b-\u0652]")
_LENGTHENED: Final = re.compile(r"[ーｰ〜～っッ…]")
_QUESTION: Final = re.compile(r"[?？؟]")

_HUM: Final = re.compile(
    "m+|[ok]|m+h+m*|h+m+|h+m+h+m+|u+h+|u+h+m+|u+h+u+h+|a+h+a*|o+h+|o+o+h+|e+h+m*|hu+h|"
    "(?:h[aeiou]){2,}h?|(?:j[ae]){2,}|k{3,}|w{3,}|(?:х[аеи]){2,}х?|(?:а*ха)+|м+|г?м+|угу|ага|"
    r"[\u110f\u1112\u1172]+|ه{2,}|ม+"
)
"""Hums and laughs, which are alike in many languages."""

_RHETORICAL: Final = frozenset({("right",), ("really",), ("oh", "really")})

_OF_ALL: Final = "ok|okay|okey|oké|ha ha|ha ha ha|he he|he he he|a ha"


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


_BACKCHANNELS: Final[Mapping[str, str]] = {
    "en": "yeah|yea|yep|yup|yes|ya|right|sure|alright|all right|i see|i know|got it|gotcha"
    "|of course|exactly|true|that's true|that's right|that's good|cool|great|good|nice|fine"
    "|wow|really|oh really|makes sense|that makes sense|sounds good|understood|absolutely"
    "|definitely|indeed|fair enough|very good|very well|perfect|interesting|um|oh wow"
    "|oh i see|totally|correct|lovely|amazing|awesome|sure thing|oh my|oh my god|no problem"
    "|i guess|yo yo",
    "de": "ja|jaja|jo|joa|jawohl|genau|stimmt|richtig|klar|na klar|alles klar|ach so|achso"
    "|ach|so|gut|sehr gut|schön|verstehe|ich verstehe|verstanden|sicher|natürlich|äh|ähm"
    "|na ja|naja|aha|eben|super|prima|toll|interessant|in ordnung|passt|echt|ach ja|ja gut"
    "|ganz genau|freilich|kein problem",
    "fr": "oui|ouais|ouaip|d'accord|daccord|je vois|je comprends|compris|bien|très bien"
    "|bien sûr|exactement|exact|c'est ça|c'est vrai|ah bon|ah oui|super|parfait|voilà"
    "|tout à fait|euh|hein|bon|ça marche|entendu|en effet|effectivement|vrai|ben oui|mais oui"
    "|pas de problème|génial",
    "es": "sí|ajá|aja|vale|claro|claro que sí|ya|ya veo|entiendo|entendido|de acuerdo|bien"
    "|muy bien|exacto|exactamente|cierto|es cierto|eso|eso es|perfecto|por supuesto|bueno"
    "|correcto|genial|ah ya|ya ya|qué bien|así es|desde luego|estupendo|este|dale|órale"
    "|sin problema",
    "it": "sì|si|già|certo|certamente|esatto|esattamente|giusto|vero|è vero|capito|ho capito"
    "|capisco|va bene|bene|benissimo|molto bene|d'accordo|perfetto|ecco|infatti|ah sì|ottimo"
    "|beh|bello|chiaro|appunto|come no|nessun problema|figurati",
    "pt": "sim|pois|pois é|pois sim|claro|claro que sim|certo|está bem|tá|tá bom|tá bem"
    "|está bom|bem|muito bem|entendi|percebo|percebi|entendo|exato|exatamente|isso|isso mesmo"
    "|é|é verdade|uhum|aham|beleza|legal|bom|perfeito|com certeza|correto|ótimo|verdade"
    "|sem problema|ah tá",
    "nl": "ja|jawel|jaja|precies|klopt|dat klopt|juist|goed|heel goed|prima|oké|snap ik"
    "|ik snap het|ik begrijp het|begrepen|natuurlijk|zeker|tuurlijk|inderdaad|mooi|leuk|ach"
    "|ach ja|ach zo|oja|oh ja|duidelijk|eh|eens|helemaal goed|top|is goed|geen probleem",
    "pl": "tak|no|no tak|dobrze|dobra|jasne|rozumiem|aha|oczywiście|dokładnie|właśnie|racja"
    "|zgadza się|pewnie|super|świetnie|okej|w porządku|spoko|fajnie|mhm|yhm|zgoda|prawda"
    "|to prawda|no właśnie|no dobrze|no dobra|nie ma problemu",
    "ru": "да|ага|угу|так|хорошо|ладно|понятно|ясно|понял|поняла|конечно|точно|верно"
    "|правильно|ну да|да да|именно|отлично|окей|ок|понимаю|здорово|хм|интересно|ого|ну"
    "|ну хорошо|это правда|согласен|согласна|разумеется|без проблем",
    "tr": "evet|tamam|tabii|tabi|tabii ki|anladım|anlıyorum|doğru|peki|olur|güzel|aynen"
    "|aynen öyle|hı hı|hıhı|hı|elbette|iyi|çok iyi|haklısın|haklısınız|öyle|kesinlikle|harika"
    "|süper|ya|he|ha|oldu|sorun değil",
    "ja": "はい|ええ|うん|うんうん|そう|そうですか|そうですね|そうなんですか|そうなんだ"
    "|そっか|そうか|そうそう|なるほど|なるほどね|へ|へえ|ふうん|ふん|ほう|ああ|あ|わかりました"
    "|分かりました|わかった|分かった|確かに|たしかに|もちろん|了解|了解です|オケ|ね"
    "|いいですね|すごい|本当|ほんと|ほんとう|まじ|はあ|笑|んん|ん|うむ|ですね|ですよね"
    "|承知しました|かしこまりました",
    "zh": "嗯|恩|唔|哦|噢|喔|啊|呃|好|好的|好吧|好啊|好呀|行|行吧|对|對|对啊|对的|對的|是"
    "|是的|是啊|没错|沒錯|明白|明白了|知道了|我知道|我知道了|懂了|了解|当然|當然|可以"
    "|原来如此|原來如此|这样啊|這樣啊|真的|哈|呵|嘿|哇|有道理|没问题|沒問題",
    "ko": "네|예|응|어|음|아|그래|그래요|그렇죠|그렇군요|그렇구나|그쵸|그럼|그럼요|맞아"
    "|맞아요|맞습니다|알겠어요|알겠습니다|알았어|알았어요|좋아|좋아요|좋습니다|오|오케이|정말"
    "|정말요|진짜|진짜요|하|헐|와|물론|물론이죠|당연하죠|네네|이해했어요|흠",
    "hi": "हाँ|हां|जी|जी हाँ|जी हां|हाँ जी|हां जी|अच्छा|ठीक|ठीक है|ठीक है जी|सही|सही है"
    "|बिल्कुल|बिलकुल|ओके|समझ गया|समझ गई|समझा|हम्म|हूँ|हूं|वाह|ज़रूर|जरूर|बहुत अच्छा|बढ़िया"
    "|सच में|haan|han|ji|accha|acha|theek hai|thik hai",
    "ar": "نعم|اه|آه|ايوه|أيوة|ايوا|أيوا|اي|طيب|تمام|حسنا|صح|صحيح|بالضبط|اكيد|أكيد|طبعا|فهمت"
    "|مفهوم|ماشي|اوكي|أوكي|أجل|اجل|جيد|ممتاز|حاضر|إن شاء الله|ان شاء الله|والله|جميل|هم|امم"
    "|الحمد لله",
}

_WANTS_TO_SPEAK: Final = _listed(
    "stop wait no hello hold excuse nope stopp halt nein warte warten moment hallo arrête"
    " arrêtez non attends attendez allô para pare espera espere hola oye aspetta aspetti"
    " basta fermo pronto não espera nee wacht stój czekaj nie halo стой стоп подожди"
    " подождите нет алло dur bekle hayır alo रुको रुकिए नहीं हेलो توقف انتظر لا قف"
)
"""After a run of echo, one of these is the caller."""

_NUMBER: Final = "#"
_NUMBERS: Final = _listed(
    "zero oh one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    " fifteen sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy"
    " eighty ninety hundred thousand million first second third fourth fifth null eins zwei"
    " drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig dreißig vierzig fünfzig"
    " sechzig siebzig achtzig neunzig hundert tausend deux trois quatre cinq sept huit neuf"
    " dix onze douze treize quatorze quinze seize vingt trente quarante cinquante soixante"
    " cent mille uno dos tres cuatro cinco seis siete ocho nueve diez once doce veinte"
    " treinta cuarenta cincuenta sesenta setenta ochenta noventa cien mil due tre quattro"
    " cinque sei sette otto nove dieci venti cento dois três quatro sete oito dez vinte"
    " trinta twee drie vijf zes zeven negen tien"
)

_LEAST_UNITS: Final = 3.0
_SURE_UNITS: Final = 4.0
_LEAST_SIGNS: Final = 3
_MOST_ERRORS: Final = 0.34
_CALLERS_QUESTION: Final = 7.0
_ALIKE: Final = 0.5
_LEAST_LETTERS: Final = 5
_MOST_GARBLED: Final = 6
"""Words that a recogniser makes of an echo which it gets only pieces of."""
_MOST_MISHEARD: Final = 0.35


def kind_of(
    text: str, language: str | None, spoken: str, *, echoes: bool = False, echoed: bool = False
) -> Kind:
    """What was heard over a reply, ``spoken`` being the reply's text of the last ten seconds.

    ``language`` is a code like "de" or "pt-BR"; where it is none of the fifteen that there are
    words for, the English ones are taken. A question is no backchannel, but for a "right?" or a
    "really?": they want no answer, and recognisers put their question mark behind any "right".

    One or two words are never taken for echo, whatever is being spoken: a caller who asks
    "Tuesday?" of what he has just heard looks the same, he would be lost for good, and such a
    piece of echo is left to the sound to tell. Three words must be a literal part of what is
    spoken. From four on a third may be misheard, unless the end is somebody else's. Where the
    sound has told that the agent ``echoes``, a scrap of what is spoken is that, of however few
    words, and however misheard: its letters tell, but for words that want to interrupt. Where most
    of this very sound was ``echoed``, any few words are.
    """
    said = _NOT_SAID.sub(" ", text)
    words = _words(said)
    if not words:
        return "nothing"
    asks = _QUESTION.search(said) is not None
    acknowledges = not asks or words in _RHETORICAL
    if acknowledges and _is_made_of(words, _phrases(_code(language))):
        return "backchannel"
    echo = (
        _is_echo(words, spoken, asks=asks)
        or (echoes and _is_scrap(words, spoken))
        or (echoed and len(words) <= _MOST_GARBLED and _URGENT.isdisjoint(words))
    )
    return "echo" if echo else "words"


# --- backchannels ---------------------------------------------------------------------------


def _is_made_of(words: Words, phrases: frozenset[Words]) -> bool:
    """Nothing but these phrases and hums, one after the other."""
    longest = max(map(len, phrases))
    ends = [True] + [False] * len(words)
    for end in range(1, len(words) + 1):
        hums = ends[end - 1] and _HUM.fullmatch(words[end - 1]) is not None
        ends[end] = hums or any(
            ends[end - n] and words[end - n : end] in phrases
            for n in range(1, min(longest, end) + 1)
        )
    return ends[-1]


@lru_cache(maxsize=32)
def _phrases(code: str) -> frozenset[Words]:
    phrases = f"{_OF_ALL}|{_BACKCHANNELS[code]}".split("|")
    return frozenset(map(_words, phrases))


def _code(language: str | None) -> str:
    code = re.split("[-_]", (language or "").lower())[0]
    return code if code in _BACKCHANNELS else "en"


def _words(text: str) -> Words:
    """In small letters, without accents, punctuation or lengthening."""
    plain = unicodedata.normalize("NFKD", text.casefold().replace("’", "'"))
    plain = unicodedata.normalize("NFKC", _ACCENTS.sub("", plain))
    found = (word.strip("'") for word in _WORD.findall(_LENGTHENED.sub("", plain)))
    return tuple(word for word in found if word)


# --- echo -----------------------------------------------------------------------------------


def _is_echo(heard: Words, spoken: str, *, asks: bool) -> bool:
    said = _words(spoken)
    units = _units(heard)
    if units < _LEAST_UNITS or (
        asks and units < _CALLERS_QUESTION and not _QUESTION.search(spoken)
    ):
        return False
    if units < _SURE_UNITS:
        return any(said[i : i + len(heard)] == heard for i in range(len(said)))
    heard, said = _numbers_alike(heard), _numbers_alike(said)
    if len(heard) < _LEAST_SIGNS:  # any number looks like any other
        return False
    errors, foreign = _fit(heard, said)
    if errors > _MOST_ERRORS * len(heard):
        return False
    ends_foreign = {len(heard) - 1, len(heard) - 2} <= foreign
    return not ends_foreign and not any(heard[i] in _URGENT for i in foreign)


def _is_scrap(heard: Words, spoken: str) -> bool:
    """The letters of ``heard`` are nearly some of ``spoken``: edit distance to any part of it."""
    letters, said = "".join(heard), "".join(_words(spoken))
    if len(letters) < _LEAST_LETTERS or not _URGENT.isdisjoint(heard):
        return False
    row = [0] * (len(said) + 1)
    for i, letter in enumerate(letters, 1):
        before, row = row, [i]
        for j, other in enumerate(said, 1):
            row.append(min(before[j - 1] + (letter != other), before[j] + 1, row[-1] + 1))
    return min(row) <= _MOST_MISHEARD * len(letters)


def _units(words: Sequence[str]) -> float:
    """Length in words; two characters of those scripts make about one."""
    single = re.compile(f"[{_SINGLE}]")
    return sum(0.5 if single.fullmatch(word) else 1.0 for word in words)


def _numbers_alike(words: Words) -> Words:
    """Numbers, in digits or in words, as one sign for a run of them."""
    signs = [_NUMBER if word.isdigit() or word in _NUMBER_WORDS else word for word in words]
    return tuple(
        word for i, word in enumerate(signs) if word != _NUMBER or i == 0 or signs[i - 1] != _NUMBER
    )


def _fit(heard: Words, said: Words) -> tuple[int, set[int]]:
    """Where in ``said`` the words fit best: errors, and the places of words that are not there.

    Edit distance between ``heard`` and any part of ``said``.
    """
    rows = [[0] * (len(said) + 1)]
    alike = [[_alike(word, other) for other in said] for word in heard]
    for i in range(len(heard)):
        row = [i + 1]
        for j in range(len(said)):
            replaced = rows[i][j] + (not alike[i][j])
            row.append(min(replaced, rows[i][j + 1] + 1, row[j] + 1))
        rows.append(row)
    errors = min(rows[-1])
    i, j, foreign = len(heard), rows[-1].index(errors), set()
    while i > 0:
        if j and rows[i][j] == rows[i - 1][j - 1] + (not alike[i - 1][j - 1]):
            i, j = i - 1, j - 1
            if not alike[i][j]:
                foreign.add(i)
        elif j and rows[i][j] == rows[i][j - 1] + 1:
            j -= 1
        else:
            i -= 1
            foreign.add(i)
    return errors, foreign


@lru_cache(maxsize=4096)
def _alike(heard: str, said: str) -> bool:
    """The same word, or one that a recogniser might have made of it or cut off."""
    if heard == said:
        return True
    if min(len(heard), len(said)) < 3:
        return False
    if said.startswith(heard) or heard.startswith(said):
        return True
    pairs, others = _pairs(heard), _pairs(said)
    return 2 * len(pairs & others) >= _ALIKE * (len(pairs) + len(others))


def _pairs(word: str) -> frozenset[str]:
    return frozenset(f" {word} "[i : i + 2] for i in range(len(word) + 1))


_URGENT: Final = frozenset(word for entry in _WANTS_TO_SPEAK for word in _words(entry))
_NUMBER_WORDS: Final = frozenset(word for entry in _NUMBERS for word in _words(entry))
