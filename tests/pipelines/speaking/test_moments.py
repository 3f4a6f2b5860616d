"""Dates and times in words."""

import pytest

from pipelines.speaking.normalise import speakable

MOMENTS = [
    (
        "On 2026-13-45 or 99/99/2026.",
        "On twenty twenty-six-thirteen-forty-five or ninety-nine ninety-nine twenty twenty-six.",
    ),
    ("On 13/32 or on 40/50.", "On thirteen thirty-seconds or on forty fiftieths."),
    ("On Nov 45 and 45 Nov.", "On Nov forty-five and forty-five November."),
    ("The '00s, the 10s, '20s.", "The two thousands, the tens, twenties."),
    ("It shuts at 24:00 and 0:00.", "It shuts at midnight and midnight."),
    ("It is on 12/25, or 3/17.", "It is on December twenty-fifth, or March seventeenth."),
    ("Due 2026-11-30.", "Due November thirtieth, twenty twenty-six."),
    ("Due 11/30/2026.", "Due November thirtieth, twenty twenty-six."),
    ("Due 25/12/2025.", "Due December twenty-fifth, twenty twenty-five."),
    ("Due 30.11.2026.", "Due November thirtieth, twenty twenty-six."),
    ("Due 1/5/26.", "Due January fifth, twenty twenty-six."),
    ("Due on 30 Nov.", "Due on the thirtieth of November."),
    ("Due on the 3rd of May, 2024.", "Due on the third of May, twenty twenty-four."),
    ("Due on November 30, 2026.", "Due on November thirtieth, twenty twenty-six."),
    ("Due Nov. 5.", "Due November fifth."),
    ("In November 2026 we move.", "In November twenty twenty-six we move."),
    ("Thursday, Nov. 27, 2025", "Thursday, November twenty-seventh, twenty twenty-five"),
    ("Open Mon–Fri and Sat., Dec 6.", "Open Monday to Friday and Saturday, December sixth."),
    ("Nov 3-5 and 3–5 November", "November third to fifth and the third to fifth of November"),
    ("Music of the 1980s and '90s", "Music of the nineteen eighties and nineties"),
    (
        "From 1914 to 1918, since 2007, in 1066.",
        (
            "From nineteen fourteen to nineteen eighteen, "
            "since two thousand seven, in ten sixty-six."
        ),
    ),
    ("She was born in 1900 or 2000.", "She was born in nineteen hundred or two thousand."),
    (
        "At 2026-11-30T15:30 it starts.",
        "At November thirtieth, twenty twenty-six at fifteen thirty it starts.",
    ),
    ("At 3pm.", "At three P.M."),
    ("At 3 PM or 3 p.m.", "At three P.M or three P.M."),
    ("Come at 3:05 p.m. today.", "Come at three oh five P.M today."),
    ("See you at 15:30.", "See you at fifteen thirty."),
    (
        "It opens at 9:00 and shuts at 17:00.",
        "It opens at nine o'clock and shuts at seventeen hundred.",
    ),
    (
        "Between 9–11am and 2:30–4:15 pm",
        "Between nine to eleven A.M and two thirty to four fifteen P.M",
    ),
    ("From 10:00-12:30", "From ten o'clock to twelve thirty"),
    ("At 00:15 or 12:00 a.m.", "At twelve fifteen A.M or twelve A.M."),
    ("It took 1:02:03.", "It took one oh two and three seconds."),
    ("It takes 1h30m.", "It takes one hour thirty minutes."),
]


@pytest.mark.parametrize(("text", "spoken"), MOMENTS)
def test_dates_and_times_are_said_as_such(text: str, spoken: str) -> None:
    assert speakable(text) == spoken
    assert speakable(spoken) == spoken
