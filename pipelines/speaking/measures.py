"""How English names currencies and units. A table, for ``amounts``."""

from __future__ import annotations

from typing import Final, NamedTuple


class Currency(NamedTuple):
    """``part``: a hundredth of it, empty where there is none."""

    one: str
    several: str
    part: str = ""
    parts: str = ""


def _of(name: str, several: str, part: str = "cent", parts: str = "cents") -> Currency:
    return Currency(name, several, part, parts)


def _dollar(whose: str = "") -> Currency:
    return _of(f"{whose} dollar".strip(), f"{whose} dollars".strip())


CURRENCIES: Final[dict[str, Currency]] = {
    "USD": _dollar("U.S"),
    "CAD": _dollar("Canadian"),
    "AUD": _dollar("Australian"),
    "NZD": _dollar("New Zealand"),
    "HKD": _dollar("Hong Kong"),
    "SGD": _dollar("Singapore"),
    "EUR": _of("euro", "euros"),
    "GBP": _of("pound", "pounds", "penny", "pence"),
    "JPY": Currency("yen", "yen"),
    "CNY": Currency("yuan", "yuan"),
    "KRW": Currency("won", "won"),
    "INR": _of("rupee", "rupees", "paisa", "paise"),
    "CHF": _of("Swiss franc", "Swiss francs", "centime", "centimes"),
    "SEK": Currency("Swedish krona", "Swedish kronor"),
    "NOK": Currency("Norwegian krone", "Norwegian kroner"),
    "DKK": Currency("Danish krone", "Danish kroner"),
    "PLN": Currency("zloty", "zlotys"),
    "CZK": Currency("Czech koruna", "Czech korunas"),
    "MXN": _of("Mexican peso", "Mexican pesos", "centavo", "centavos"),
    "BRL": _of("real", "reais", "centavo", "centavos"),
    "ZAR": _of("rand", "rand"),
    "TRY": Currency("lira", "lira"),
    "BTC": Currency("bitcoin", "bitcoins"),
}
SYMBOLS: Final[dict[str, Currency]] = {
    "$": _dollar(),
    "US$": _dollar("U.S"),
    "C$": _dollar("Canadian"),
    "CA$": _dollar("Canadian"),
    "A$": _dollar("Australian"),
    "AU$": _dollar("Australian"),
    "NZ$": _dollar("New Zealand"),
    "HK$": _dollar("Hong Kong"),
    "S$": _dollar("Singapore"),
    "R$": CURRENCIES["BRL"],
    "€": CURRENCIES["EUR"],
    "£": CURRENCIES["GBP"],
    "¥": CURRENCIES["JPY"],
    "₹": CURRENCIES["INR"],
    "₩": CURRENCIES["KRW"],
    "₽": Currency("ruble", "rubles"),
    "₺": CURRENCIES["TRY"],
    "₿": CURRENCIES["BTC"],
    "₪": Currency("shekel", "shekels"),
    "₫": Currency("dong", "dong"),
    "฿": Currency("baht", "baht"),
    "₱": Currency("peso", "pesos"),
    "₴": Currency("hryvnia", "hryvnias"),
    "¢": Currency("cent", "cents"),
}

_BASES: Final = {
    "m": "meter",
    "g": "gram",
    "l": "liter",
    "L": "liter",
    "Hz": "hertz",
    "B": "byte",
    "W": "watt",
    "Wh": "watt hour",
    "V": "volt",
    "A": "amp",
    "J": "joule",
    "N": "newton",
    "Pa": "pascal",
    "s": "second",
    "Ω": "ohm",
    "cal": "calorie",
    "b": "bit",
    "Ah": "amp hour",
}
_AMBIGUOUS: Final = frozenset("bBAJN")
"""As letters behind a number they seldom are units."""

_PREFIXES: Final = {
    "k": "kilo",
    "c": "centi",
    "m": "milli",
    "µ": "micro",
    "μ": "micro",
    "n": "nano",
    "d": "deci",
    "h": "hecto",
    "M": "mega",
    "G": "giga",
    "T": "tera",
    "P": "peta",
    "K": "kilo",
}
_SCALED: Final = """
km cm mm µm μm nm dm kg mg µg μg ml mL cl dl dL µl hl kHz MHz GHz KB kB MB GB TB PB kW MW GW TW kWh
MWh GWh TWh kV mV MV mA kJ MJ kPa hPa MPa ms µs μs ns kcal mAh kΩ MΩ Kb kb Mb Gb kN mW
"""


def _pair(one: str, several: str = "") -> tuple[str, str]:
    return one, several or (one if one.endswith("hertz") else f"{one}s")


def _scaled(symbol: str) -> tuple[str, str]:
    base = _BASES.get(symbol)
    return _pair(base or f"{_PREFIXES[symbol[0]]}{_BASES[symbol[1:]]}")


def _powers(symbol: str, one: str, several: str = "") -> dict[str, tuple[str, str]]:
    several = several or f"{one}s"
    square = (f"square {one}", f"square {several}")
    cube = (f"cubic {one}", f"cubic {several}")
    powers = {f"{symbol}²": square, f"{symbol}2": square, f"sq {symbol}": square}
    return {**powers, f"{symbol}³": cube, f"{symbol}3": cube}


def _rates(symbol: str) -> dict[str, tuple[str, str]]:
    one, several = _scaled(symbol)
    return {
        f"{symbol}{per}": (f"{one} per second", f"{several} per second") for per in ("ps", "/s")
    }


UNITS: Final[dict[str, tuple[str, str]]] = {
    **{symbol: _scaled(symbol) for symbol in _SCALED.split()},
    **{symbol: _pair(name) for symbol, name in _BASES.items() if symbol not in _AMBIGUOUS},
    **_powers("m", "meter"),
    **_powers("km", "kilometer"),
    **_powers("cm", "centimeter"),
    **_powers("mm", "millimeter"),
    **_powers("ft", "foot", "feet"),
    **_powers("in", "inch", "inches"),
    **_powers("mi", "mile"),
    **{
        unit: rate
        for symbol in ("KB", "MB", "GB", "TB", "kB")
        for unit, rate in _rates(symbol).items()
    },
    **{unit: rate for symbol in ("Kb", "kb", "Mb", "Gb") for unit, rate in _rates(symbol).items()},
    "Tbps": ("terabit per second", "terabits per second"),
    "KiB": _pair("kibibyte"),
    "MiB": _pair("mebibyte"),
    "GiB": _pair("gibibyte"),
    "mi": _pair("mile"),
    "ft": ("foot", "feet"),
    "yd": _pair("yard"),
    "yds": _pair("yard"),
    "in.": ("inch", "inches"),
    "oz": _pair("ounce"),
    "lb": _pair("pound"),
    "lbs": _pair("pound"),
    "gal": _pair("gallon"),
    "qt": _pair("quart"),
    "pt": _pair("pint"),
    "tsp": _pair("teaspoon"),
    "tbsp": _pair("tablespoon"),
    "fl oz": _pair("fluid ounce"),
    "ac": _pair("acre"),
    "ha": _pair("hectare"),
    "acres": _pair("acre"),
    "cc": _pair("cubic centimeter"),
    "h": _pair("hour"),
    "hr": _pair("hour"),
    "hrs": _pair("hour"),
    "min": _pair("minute"),
    "mins": _pair("minute"),
    "sec": _pair("second"),
    "secs": _pair("second"),
    "yr": _pair("year"),
    "yrs": _pair("year"),
    "wk": _pair("week"),
    "wks": _pair("week"),
    "mo": _pair("month"),
    "mos": _pair("month"),
    **dict.fromkeys(("km/h", "kmh", "kph"), ("kilometer per hour", "kilometers per hour")),
    **dict.fromkeys(("mph", "mi/h"), ("mile per hour", "miles per hour")),
    "m/s": ("meter per second", "meters per second"),
    "m/s²": ("meter per second squared", "meters per second squared"),
    "mpg": ("mile per gallon", "miles per gallon"),
    "kn": _pair("knot"),
    "kt": _pair("knot"),
    **dict.fromkeys(("°C", "° C", "℃", "ºC"), ("degree Celsius", "degrees Celsius")),
    **dict.fromkeys(("°F", "° F", "℉", "ºF"), ("degree Fahrenheit", "degrees Fahrenheit")),
    "°": _pair("degree"),
    "bar": _pair("bar"),
    "psi": ("pound per square inch", "pounds per square inch"),
    "dB": _pair("decibel"),
    "px": _pair("pixel"),
    "dpi": ("dot per inch", "dots per inch"),
    "MP": _pair("megapixel"),
    "fps": ("frame per second", "frames per second"),
    "hp": ("horsepower", "horsepower"),
    "rpm": ("revolution per minute", "revolutions per minute"),
    "bpm": ("beat per minute", "beats per minute"),
    "lm": _pair("lumen"),
    "lx": ("lux", "lux"),
    "ppm": ("part per million", "parts per million"),
    "eV": _pair("electron volt"),
    "mol": _pair("mole"),
    "au": _pair("astronomical unit"),
    "ly": _pair("light year"),
}
