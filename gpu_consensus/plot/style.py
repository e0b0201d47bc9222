"""Colours, signs and words that the pictures share."""

from __future__ import annotations

import unicodedata
from typing import Any

COLOURS = (
    "#0072B2",  # blue
    "#D55E00",  # vermilion
    "#009E73",  # green
    "#CC79A7",  # purple
    "#E69F00",  # orange
    "#56B4E9",  # sky
    "#000000",  # black
    "#F0E442",  # yellow
)
"""Of Okabe and Ito, who chose them for all kinds of colour vision; darkest first."""

MARKERS = "os^DvPX*"
INK = "#222222"
FAINT = "#767676"
PALE = "#D9D9D9"
MAP = "cividis"
_LONGEST = 40
_KEPT_FORMATS = "\u200c\u200d"  # joiners, of scripts and of emoji


def colour_of(cluster: int) -> str:
    """Return the colour of a cluster; from the ninth on they come again."""
    return COLOURS[cluster % len(COLOURS)]


def marker_of(cluster: int) -> str:
    """Return the sign of a cluster; with its colour it is unique up to 64 clusters."""
    return MARKERS[(cluster + cluster // len(COLOURS)) % len(MARKERS)]


def ink_on(colour: Any) -> str:
    """Return black or white, whichever is read more easily on a colour.

    Parameters
    ----------
    colour : tuple of float or str
        Red, green and blue in 0..1, or a hex like "#0072B2".
    """
    if isinstance(colour, str):
        colour = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour
    ]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "white" if light < 0.179 else "black"


def clean(name: Any, longest: int = _LONGEST, *, lines: bool = False) -> str:
    r"""Return a name that others gave, fit to be shown: one line, not too long.

    Control characters, and those that turn the direction of the text around them,
    become U+FFFD; of more than ``longest`` characters the middle is left out. With
    ``lines`` text may have several.

    Examples
    --------
    >>> clean("a" * 50 + "z", 9)
    'aaaaaa…az'
    >>> clean("two\nlines")
    'two lines'
    """
    text = str(name)
    if len(text) > 4 * longest:  # what is far too long is not looked at whole
        text = f"{text[: 2 * longest]}\0{text[-longest:]}"
    kept = []
    stacked = 0
    for character in text.strip():
        if character.isspace():
            kept.append("\n" if lines and character == "\n" else " ")
            continue
        kind = unicodedata.category(character)
        stacked = stacked + 1 if kind in ("Mn", "Me") else 0
        if stacked > 2:
            continue  # marks upon marks would leave their line
        bad = kind[0] == "C" and character not in _KEPT_FORMATS
        kept.append("\N{REPLACEMENT CHARACTER}" if bad else character)
    if len(kept) > longest:
        tail = max(1, longest // 4)
        kept = [*kept[: longest - tail - 1], "…", *kept[-tail:]]
    return "".join(kept) or "(empty)"


def drawn(name: Any, longest: int = 16) -> str:
    """Return a name for matplotlib, to which ``$`` would mean mathematics."""
    return clean(name, longest).replace("$", r"\$")


def count(number: int, noun: str) -> str:
    """Return a number and its noun.

    Examples
    --------
    >>> count(1, "object"), count(2000, "object")
    ('1 object', '2,000 objects')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
