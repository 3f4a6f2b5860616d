"""Money, measures, and every other number, as an American says it."""

import pytest

from pipelines.speaking.normalise import speakable

MONEY = [
    ("That will be $5.20, please.", "That will be five dollars and twenty cents, please."),
    ("It costs €3bn a year.", "It costs three billion euros a year."),
    ("I owe you £1.", "I owe you one pound."),
    (
        "It's $1,299 or £999.99.",
        (
            "It's one thousand two hundred ninety-nine dollars "
            "or nine hundred ninety-nine pounds and ninety-nine pence."
        ),
    ),
    ("Pay 50¢ or $0.05.", "Pay fifty cents or five cents."),
    (
        "A raise of $2.5M, then $10k.",
        "A raise of two point five million dollars, then ten thousand dollars.",
    ),
    ("From $5–$10 per item", "From five to ten dollars per item"),
    ("About ¥500 or ₹2,000.", "About five hundred yen or two thousand rupees."),
    ("5 USD is CHF 4.50.", "five U.S dollars is four Swiss francs and fifty centimes."),
    ("The fee is 5,20 €.", "The fee is five euros and twenty cents."),
    ("Lost -$40 today.", "Lost minus forty dollars today."),
    ("A $20 bill and a £5 note", "A twenty dollar bill and a five pound note"),
    ("US$3 million and C$7", "three million U.S dollars and seven Canadian dollars"),
    ("$1 and $2", "one dollar and two dollars"),
    ("It is $12/month.", "It is twelve dollars per month."),
]


@pytest.mark.parametrize(("text", "spoken"), MONEY)
def test_money_is_said_in_its_units(text: str, spoken: str) -> None:
    assert speakable(text) == spoken
    assert speakable(spoken) == spoken


AMOUNTS = [
    ("It is 1/5 or 3/5 of it.", "It is one fifth or three fifths of it."),
    ("Take 1 5/3 or 7/0.", "Take one five over three or seven over zero."),
    (
        "From 1990-1995 and 2019-20, 1200-15000.",
        (
            "From nineteen ninety to nineteen ninety-five and twenty nineteen to twenty, "
            "one thousand two hundred to fifteen thousand."
        ),
    ),
    (
        "At 3.5‰, 1080p, 50 mg/kg",
        "At three point five per mille, ten eighty p, fifty milligrams per kilogram",
    ),
    ("Wi-Fi 6E at 5GHz, B12, A4", "Wi-Fi six E at five gigahertz, B twelve, A four"),
    ("It is 5 km away.", "It is five kilometers away."),
    ("It is 20°C, or 68 °F.", "It is twenty degrees Celsius, or sixty-eight degrees Fahrenheit."),
    ("It is -5°C outside.", "It is minus five degrees Celsius outside."),
    ("A 10 kg bag, 1 kg of salt", "A ten kilograms bag, one kilogram of salt"),
    (
        "I drove 60 mph, not 100 km/h.",
        "I drove sixty miles per hour, not one hundred kilometers per hour.",
    ),
    (
        "3 GB of 16GB RAM at 3.2 GHz",
        "three gigabytes of sixteen gigabytes RAM at three point two gigahertz",
    ),
    (
        "25 m² of floor, 3 m³ of air, 400 sq ft",
        ("twenty-five square meters of floor, three cubic meters of air, four hundred square feet"),
    ),
    ("6'2\" and 5 ft 11 in", "six feet two inches and five feet eleven inches"),
    (
        "12 oz, 2 lbs, 3 tbsp, 250 mL",
        "twelve ounces, two pounds, three tablespoons, two hundred fifty milliliters",
    ),
    (
        "100 Mbps, 5 MB/s, 60 fps",
        "one hundred megabits per second, five megabytes per second, sixty frames per second",
    ),
    ("A 5-km run and a 10-minute rest", "A five kilometer run and a ten-minute rest"),
    ("72° and 90 degrees", "seventy-two degrees and ninety degrees"),
    ("5% of 1.5%, 10–20%", "five percent of one point five percent, ten to twenty percent"),
    (
        "4 kWh, 230 V, 60 W, 50 Hz",
        "four kilowatt hours, two hundred thirty volts, sixty watts, fifty hertz",
    ),
    ("5 min. later, 30 sec", "five minutes later, thirty seconds"),
    (
        "I have 1,234,567 of them.",
        "I have one million two hundred thirty-four thousand five hundred sixty-seven of them.",
    ),
    ("It is 3.14159.", "It is three point one four one five nine."),
    (
        "Only 0.5, or .5, or -0.5.",
        "Only zero point five, or zero point five, or minus zero point five.",
    ),
    ("Room 101, page 42, 7 of 9", "Room one hundred one, page forty-two, seven of nine"),
    (
        "1st, 2nd, 3rd, 11th, 21st, 100th",
        "first, second, third, eleventh, twenty-first, one hundredth",
    ),
    (
        "1/2, 3/4, 2/3, 1/8 and 5/16",
        "one half, three quarters, two thirds, one eighth and five sixteenths",
    ),
    ("2 1/2 cups, 1½ cups, ¼ cup", "two and a half cups, one and a half cups, one quarter cup"),
    ("10-15 people, pages 3–7", "ten to fifteen people, pages three to seven"),
    ("We won 3-1, at odds of 5:2.", "We won three to one, at odds of five to two."),
    ("It is 10x better, 2.5x faster.", "It is ten times better, two point five times faster."),
    ("A 1920x1080 screen in 16:9", "A nineteen twenty by ten eighty screen in sixteen to nine"),
    ("24/7 support, 50/50", "twenty-four seven support, fifty fifty"),
    ("Rated 4.5/5, or 9/10.", "Rated four point five out of five, or nine out of ten."),
    (
        "10k steps, 5M users, 2bn people",
        "ten thousand steps, five million users, two billion people",
    ),
    ("#1 and No. 5, Nos. 3 and 4", "number one and Number five, Numbers three and four"),
    (
        "~50 people, ±5, <10, ≥18",
        "about fifty people, plus or minus five, less than ten, at least eighteen",
    ),
    ("2 + 2 = 4", "two plus two equals four"),
    (
        "10 - 3 = 7, 6 × 7 = 42, 8 / 2 = 4",
        (
            "ten minus three equals seven, six times seven "
            "equals forty-two, eight divided by two equals four"
        ),
    ),
    ("x² + y³ = z^4", "x squared plus y cubed equals z to the power of four"),
    ("7 ÷ 2 ≠ 3", "seven divided by two is not equal to three"),
    (
        "Version 2.1.3, v2.1, v3, Python 3.11",
        (
            "Version two point one point three, version two "
            "point one, version three, Python three point eleven"
        ),
    ),
    (
        "Agent 007, code 4821, ZIP 94105",
        "Agent zero zero seven, code four eight two one, ZIP nine four one, zero five",
    ),
    ("Your confirmation code is X7K2P.", "Your confirmation code is X seven K two P."),
    (
        "Order 123456789 has shipped.",
        "Order one two three, four five six, seven eight nine has shipped.",
    ),
]


@pytest.mark.parametrize(("text", "spoken"), AMOUNTS)
def test_numbers_are_said_as_what_they_count(text: str, spoken: str) -> None:
    assert speakable(text) == spoken
    assert speakable(spoken) == spoken
