"""How numbers are said digit by digit, and how one asks for them. Tables for ``dictation``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["phone", "card", "pin", "date", "postcode", "email", "spelling", "code"]


@dataclass(frozen=True, slots=True)
class NumberWords:
    """A word that is one of ``ones`` stands for one digit, one that matches ``twos`` for two; one
    of ``tens`` for two, with those of the word after it among them ("forty two"). ``repeats``
    repeat the next digit, ``zeros`` append so many. ``between`` may stand inside a number."""

    ones: frozenset[str]
    twos: re.Pattern[str]
    tens: re.Pattern[str]
    repeats: Mapping[str, int]
    zeros: Mapping[str, int]
    between: frozenset[str]
    months: frozenset[str]


def _numbers(
    ones: str, twos: str, tens: str, repeats: str, zeros: str, between: str, months: str
) -> NumberWords:
    return NumberWords(
        frozenset(ones.split()),
        re.compile(twos),
        re.compile(tens),
        _counts(repeats),
        _counts(zeros),
        frozenset(between.split()),
        frozenset(months.split()),
    )


def _counts(pairs: str) -> Mapping[str, int]:
    return {word: int(count) for word, count in (pair.split("=") for pair in pairs.split())}


NUMBER_WORDS: Final[Mapping[str, NumberWords]] = {
    "en": _numbers(
        "zero oh o nought one two three four five six seven eight nine first second third fourth "
        "fifth sixth seventh eighth ninth",
        r"ten|eleven|twelve|\w+teen|tenth|eleventh|twelfth|\w+teenth",
        r"(?:twen|thir|for|four|fif|six|seven|eigh|nine)(?:ty|tieth)",
        "double=2 triple=3",
        "hundred=2 thousand=3",
        "and then dash hyphen space the of um uh er so plus",
        "january february march april may june july august september october november december",
    ),
    "de": _numbers(
        "null eins ein eine zwei zwo drei vier fünf sechs sieben acht neun",
        r"zehn|elf|zwölf|\w+zehn|\w*(?:zig|ßig|ssig)",
        r"(?!)",
        "doppel=2 doppelte=2 zweimal=2 dreimal=3",
        "hundert=2 tausend=3",
        "und dann strich bindestrich leerzeichen der das ist äh ähm also plus",
        "januar jänner februar märz april mai juni juli august september oktober november dezember",
    ),
    "fr": _numbers(
        "zéro un une deux trois quatre cinq six sept huit neuf",
        r"onze|douze|treize|quatorze|quinze|seize",
        r"dix|vingts?|trente|quarante|cinquante|soixante|septante|huitante|octante|nonante"
        r"|quatrevingts?",
        "double=2 triple=3",
        "cent=2 mille=3",
        "et puis tiret espace le la c'est est euh alors plus",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    ),
    "es": _numbers(
        "cero uno un una dos tres cuatro cinco seis siete ocho nueve",
        r"diez|once|doce|trece|catorce|quince|diecis[eé]is|dieci\w+|veinti\w+",
        r"veinte|treinta|cuarenta|cincuenta|sesenta|setenta|ochenta|noventa",
        "doble=2 triple=3",
        "cien=2 ciento=2 mil=3",
        "y luego guion guión espacio el de es eh este pues más",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    ),
    "it": _numbers(
        "zero uno un una due tre quattro cinque sei sette otto nove",
        r"dieci|undici|dodici|tredici|quattordici|quindici|sedici|dicia\w+|diciotto"
        r"|(?:vent|trent|quarant|cinquant|sessant|settant|ottant|novant)\w+",
        r"(?!)",
        "doppio=2 doppia=2 triplo=3",
        "cento=2 mila=3 mille=3",
        "e poi trattino spazio il di è ehm allora più",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre "
        "dicembre",
    ),
    "pt": _numbers(
        "zero um uma dois duas três quatro cinco seis meia sete oito nove",
        r"dez|onze|doze|treze|quatorze|catorze|quinze|dezesseis|dezasseis|deze\w+|deza\w+|dezoito",
        r"vinte|trinta|quarenta|cinquenta|sessenta|setenta|oitenta|noventa",
        "duplo=2 dupla=2 triplo=3",
        "cem=2 cento=2 mil=3",
        "e depois traço hífen espaço o de é hum então mais",
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    ),
    "nl": _numbers(
        "nul een één eén twee drie vier vijf zes zeven acht negen",
        r"tien|elf|twaalf|\w+tien|\w*tig",
        r"(?!)",
        "dubbel=2 dubbele=2 driemaal=3",
        "honderd=2 duizend=3",
        "en dan streepje spatie de het is eh ehm dus plus",
        "januari februari maart april mei juni juli augustus september oktober november december",
    ),
}

SEVENTIES: Final = frozenset({"soixante", "quatrevingt"})
"""French tens that are counted on to nineteen: 78 is sixty-eighteen."""

_KINDS: Final[Mapping[str, Mapping[Kind, str]]] = {
    "en": {
        "pin": r"\bpins?\b|passcode|(?:verification|security|access|one-time) (?:code|password)"
        r"|\bcv[vc]\b|last (?:four|4)|(?:three|four|six|3|4|6)[- ]digit",
        "card": r"\b(?:credit|debit|bank|gift)? ?card number|number on (?:the|your) card"
        r"|\b(?:credit|debit|bank) card\b",
        "date": r"date of birth|birth ?da(?:te|y)|when were you born"
        r"|(?:expiry|expiration) date",
        "postcode": r"post(?:al)? ?code|\bzip\b",
        "email": r"e-?mail",
        "phone": r"(?:phone|telephone|mobile|cell|contact|callback|call-back|fax) number"
        r"|number (?:can|could|should|may|where|to|we|i)\b|\bbest number\b|what number",
        "spelling": r"\bspell",
        "code": r"\b(?:account|order|reference|confirmation|booking|reservation|customer|policy"
        r"|member(?:ship)?|invoice|case|ticket|tracking|serial|licen[cs]e|registration|passport"
        r"|security|insurance|flight|routing|sort|id|vat|tax|meter|patient|contract|iban)"
        r"(?: \w+)? (?:numbers?|code|id)\b|\biban\b|\bdigits?\b|\byour number\b"
        r"|\bthe (?:number|code)\b",
    },
    "de": {
        "pin": r"\bpin\b|\btan\b|geheimzahl|sicherheitscode|(?:drei|vier|sechs)stellig"
        r"|letzten vier|prüfziffer",
        "card": r"kartennummer|kreditkarte",
        "date": r"geburtsdatum|geburtstag|wann (?:sind sie|bist du) geboren|ablaufdatum",
        "postcode": r"postleitzahl|\bplz\b",
        "email": r"e-?mail",
        "phone": r"(?:telefon|handy|mobil|rückruf|fax|ruf)-?nummer|unter welcher nummer",
        "spelling": r"buchstabier",
        "code": r"\b\w+nummer\b|\biban\b|\bziffern?\b|\bnummer\b|\bcode\b",
    },
    "fr": {
        "pin": r"\bpin\b|code secret|code de (?:sécurité|vérification)|quatre derniers"
        r"|à (?:trois|quatre|six) chiffres|cryptogramme",
        "card": r"numéro de (?:la |votre )?carte|carte (?:bancaire|de crédit|bleue)",
        "date": r"date de naissance|né(?:e|\(e\))? quand|date d'expiration",
        "postcode": r"code postal",
        "email": r"e-?mail|courriel|adresse électronique",
        "phone": r"numéro de (?:téléphone|portable|mobile|fax)|à quel numéro",
        "spelling": r"épele",
        "code": r"\bnuméro\b|\biban\b|\bchiffres\b|\bcode\b|\bréférence\b",
    },
    "es": {
        "pin": r"\bpin\b|código de (?:seguridad|verificación)|últimos cuatro"
        r"|de (?:tres|cuatro|seis) dígitos|clave",
        "card": r"número de (?:la |su )?tarjeta|tarjeta de (?:crédito|débito)",
        "date": r"fecha de (?:nacimiento|caducidad|vencimiento)|cuándo nació",
        "postcode": r"código postal",
        "email": r"e-?mail|correo electrónico",
        "phone": r"número de (?:teléfono|móvil|celular|contacto|fax)|a qué número|su teléfono",
        "spelling": r"deletre",
        "code": r"\bnúmero\b|\biban\b|\bdígitos\b|\bcódigo\b|\breferencia\b|\bdni\b",
    },
    "it": {
        "pin": r"\bpin\b|codice di (?:sicurezza|verifica)|ultime quattro"
        r"|a (?:tre|quattro|sei) cifre",
        "card": r"numero (?:di|della) (?:sua )?carta|carta di (?:credito|debito)",
        "date": r"data di (?:nascita|scadenza)|quando è nat[oa]",
        "postcode": r"codice (?:di avviamento )?postale|\bcap\b",
        "email": r"e-?mail|posta elettronica",
        "phone": r"numero di (?:telefono|cellulare|fax)|a (?:che|quale) numero|recapito telefonico",
        "spelling": r"spelling|lettera per lettera|compit",
        "code": r"\bnumero\b|\biban\b|\bcifre\b|\bcodice\b",
    },
    "pt": {
        "pin": r"\bpin\b|código de (?:segurança|verificação)|últimos quatro|senha"
        r"|de (?:três|quatro|seis) dígitos",
        "card": r"número do (?:seu )?cartão|cartão de (?:crédito|débito)",
        "date": r"data de (?:nascimento|validade)|quando nasceu",
        "postcode": r"código postal|\bcep\b",
        "email": r"e-?mail|correio eletrónico",
        "phone": r"(?:número (?:de|do seu) )(?:telefone|telemóvel|celular|contato|fax)"
        r"|para que número|seu telefone",
        "spelling": r"soletr",
        "code": r"\bnúmero\b|\biban\b|\bdígitos\b|\bcódigo\b|\bcpf\b|\bnif\b",
    },
    "nl": {
        "pin": r"\bpin(?:code)?\b|beveiligingscode|verificatiecode|laatste vier"
        r"|(?:drie|vier|zes)cijferig",
        "card": r"kaartnummer|creditcard",
        "date": r"geboortedatum|wanneer bent u geboren|vervaldatum",
        "postcode": r"postcode",
        "email": r"e-?mail",
        "phone": r"(?:telefoon|mobiele|mobiel|fax)[- ]?nummer|op welk nummer",
        "spelling": r"\bspel(?:len|t|)\b",
        "code": r"\b\w+nummer\b|\biban\b|\bcijfers\b|\bnummer\b|\bcode\b",
    },
}

KINDS: Final[Mapping[str, Mapping[Kind, re.Pattern[str]]]] = {
    language: {kind: re.compile(pattern) for kind, pattern in kinds.items()}
    for language, kinds in _KINDS.items()
}
"""How each kind is named, the particular before the general."""

REQUEST: Final[Mapping[str, re.Pattern[str]]] = {
    language: re.compile(pattern)
    for language, pattern in {
        "en": r"\b(?:please|tell me|give me|i(?:'ll| will|'d)?(?: also| just)? need|enter"
        r"|read (?:me|out)|provide|say|spell|type|let me have|dictate|share|confirm your)\b",
        "de": r"\b(?:bitte|nennen|sagen|geben|brauche|benötige|buchstabieren|diktieren|teilen)\b",
        "fr": r"\b(?:veuillez|s'il vous plaît|donnez|dites|épelez|indiquez|besoin|dictez)\b",
        "es": r"\b(?:por favor|dígame|dime|deme|dame|indique|necesito|deletree|facilite|diga)\b",
        "it": r"\b(?:per favore|mi dica|dica|mi dia|indichi|serve|bisogno|dettare|inserisca)\b",
        "pt": r"\b(?:por favor|diga|dê|informe|indique|preciso|soletre|digite|forneça)\b",
        "nl": r"\b(?:alstublieft|graag|geef|zeg|noem|spel|nodig|dicteer|vertel)\b",
    }.items()
}
"""A sentence that is no question and yet asks."""

CHECKS: Final[Mapping[str, re.Pattern[str]]] = {
    language: re.compile(pattern)
    for language, pattern in {
        "en": r"^(?:(?:and|so|okay|ok|great|now)\W+)?(?:is|are|was|were|did|does|has|shall|should"
        r"|have you|would you (?:like|prefer)|do you (?:want|mean|need|remember|recogni[sz]e)"
        r"|can i|may i (?:send|call|use))\b(?! have)|\b(?:correct|right)\?$",
        "de": r"^(?:ist|sind|war|stimmt|haben sie .*(?:erhalten|bekommen)|möchten|soll|wollen"
        r"|brauchen)\b|\b(?:richtig|korrekt)\?$",
        "fr": r"^(?:est-ce (?:que c'est|bien)|avez-vous (?:reçu|bien)|voulez-vous|souhaitez-vous"
        r"|dois-je)|\b(?:correct|exact)\?$|c'est bien",
        "es": r"^¿?(?:es|está|ha recibido|recibió|quiere|desea|necesita)\b|\bcorrecto\?$",
        "it": r"^(?:è|ha ricevuto|vuole|desidera|le serve)\b|\b(?:corretto|giusto)\?$",
        "pt": r"^(?:é|está|recebeu|quer|deseja|precisa)\b|\b(?:correto|certo)\?$",
        "nl": r"^(?:is|zijn|klopt|heeft u .*(?:ontvangen|gekregen)|wilt|moet)\b|\bklopt dat\?$",
    }.items()
}
"""A question that names a number and wants a yes or a no."""
