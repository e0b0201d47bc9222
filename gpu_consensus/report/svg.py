"""A figure of matplotlib as SVG that stands within a page."""

from __future__ import annotations

import io
import re
import warnings
import xml.etree.ElementTree as ElementTree
from typing import Any

_SVG = "http://www.w3.org/2000/svg"
_LINK = "{http://www.w3.org/1999/xlink}href"
_SIZE = (4.0, 3.5)  # inches: on a telephone, letters are about as large as drawn
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "svg.fonttype": "none",
    "axes.linewidth": 0.7,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}
_DOTS_PER_INCH = 150
_FAMILY = "'DejaVu Sans', Verdana, Arial, sans-serif"
_LONG_NUMBER = re.compile(r"(\d+\.\d{2})\d+")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")


def new_axes() -> Any:
    """Return the axes of a new figure of its own, apart from those of pyplot."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        return Figure(figsize=_SIZE, layout="constrained").subplots()


def inline_svg(figure: Any, ident: str, title: str, text: str) -> str:
    """Return a figure as SVG, with a title and a description for screen readers.

    Parameters
    ----------
    figure : Figure
    ident : str
        Stands before every id, so that none is there twice in a page.
    title, text : str
        The name and the text alternative of the picture.
    """
    import matplotlib

    buffer = io.BytesIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    style = matplotlib.rc_context({**_STYLE, "svg.hashsalt": ident})
    with style, warnings.catch_warnings():
        # the browser has the glyphs that matplotlib's font lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(buffer, format="svg", dpi=_DOTS_PER_INCH, metadata=nothing)
    root = ElementTree.fromstring(buffer.getvalue())
    _shorten(root, ident)
    for name, words in (("desc", text), ("title", title)):
        element = ElementTree.Element(f"{{{_SVG}}}{name}", {"id": f"{ident}-{name}"})
        element.text = words
        root.insert(0, element)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{ident}-title {ident}-desc")
    ElementTree.register_namespace("", _SVG)
    return ElementTree.tostring(root, encoding="unicode")


def _shorten(root: Any, ident: str) -> None:
    """Drop what nothing refers to, and digits that nobody sees."""
    used = set()
    for element in root.iter():
        link = element.attrib.pop(_LINK, None)
        if link is not None:
            element.set("href", link)
            used.add(link.removeprefix("#"))
        for value in element.attrib.values():
            used.update(_REFERENCE.findall(value))
    for parent in root.iter():
        for child in list(parent):
            if child.tag == f"{{{_SVG}}}metadata":
                parent.remove(child)
    for element in root.iter():
        own = element.attrib.pop("id", None)
        if own in used:
            element.set("id", f"{ident}-{own}")
        for name, value in element.attrib.items():
            if value.startswith("#") and name == "href":
                value = f"#{ident}-{value[1:]}"
            elif name != "href":
                value = _REFERENCE.sub(rf"url(#{ident}-\1)", value)
                value = _LONG_NUMBER.sub(r"\1", value)
                value = value.replace("'DejaVu Sans'", _FAMILY)
            element.set(name, value)
