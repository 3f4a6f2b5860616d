"""Capitals: words, or letters."""

import pytest

from pipelines.speaking.normalise import speakable

CAPITALS = [
    ("UCLA, FAQs and ISO", "U.C.L.A, F.A.Q's and I.S.O"),
    ("WHO says; WHO IS IT", "W.H.O says; WHO IS IT"),
    ("NASA and NATO met the FBI.", "NASA and NATO met the F.B.I."),
    ("The U.S. Army; the U.K.; the EU", "The U.S Army; the U.K; the E.U"),
    ("In the U.S.", "In the U.S."),
    ("An API, two APIs, the API's limit", "An A.P.I, two A.P.I's, the A.P.I's limit"),
    ("HTML, JSON, SQL and YAML", "H.T.M.L, JSON, S.Q.L and YAML"),
    ("PDFs from the CEO, CFO & CTO", "P.D.F's from the C.E.O, C.F.O and C.T.O"),
    ("DO NOT PRESS THAT", "DO NOT PRESS THAT"),
    ("This is VERY important, OK?", "This is VERY important, okay?"),
    ("US GDP, IT staff; GIVE IT TO US", "U.S G.D.P, I.T staff; GIVE IT TO US"),
    (
        "GPT-4, COVID-19, MP3, H2O, B2B, F-16",
        "G.P.T four, COVID nineteen, M.P three, H two O, B two B, F sixteen",
    ),
    ("A PhD in AI from MIT", "A P.H.D in A.I from M.I.T"),
    ("TCP/IP, I/O, and/or, he/she", "T.C.P I.P, I O, and or, he or she"),
]


@pytest.mark.parametrize(("text", "spoken"), CAPITALS)
def test_capitals_are_said_as_words_or_spelled(text: str, spoken: str) -> None:
    assert speakable(text) == spoken
    assert speakable(spoken) == spoken
