"""How hard the house is pressed: what calls leave off so that nobody hears it."""

from __future__ import annotations

from enum import IntEnum


class Strain(IntEnum):
    """A step of the ladder; each holds all those below it. The order is that of what callers miss
    least: a caption before a faster answer, that before a longer one, and a call that is refused
    before one that stutters."""

    NONE = 0
    SLOW_PARTIALS = 1
    """Words are shown less often while a caller speaks."""
    NO_PARTIALS = 2
    """None are shown before the turn is over."""
    NO_SPECULATION = 3
    """No reply is worked out before its turn is over, and nothing read ahead of it."""
    SHORT_REPLIES = 4
    """New replies are shorter."""
    NO_FILES = 5
    """Files wait; calls alone are served."""
    NO_CALLS = 6
    """New calls are refused."""
