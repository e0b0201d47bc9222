"""The page, from a story."""

from __future__ import annotations

from pathlib import Path

from gpu_consensus.plot.style import COLOURS, ink_on
from gpu_consensus.report.story import Story

_MOST_ROWS = 200


def render(story: Story) -> str:
    """Return the page as HTML; all text but our own pictures is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["picture"] = Markup  # escaped by the writer of the SVG
    swatches = [(colour, ink_on(colour)) for colour in COLOURS]
    page = environment.get_template("page.html.j2")
    return page.render(story=story, swatches=swatches, most_rows=_MOST_ROWS)
