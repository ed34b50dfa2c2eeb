"""The templates of pages and notebooks, with the formats of their figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import jinja2
from markupsafe import Markup

from cugen.analysis.launches.sentences import growth_text, time_text
from cugen.emit.environment import template_folder
from cugen.version import __version__

MARKS = {"ideal": "●", "costly": "▲", "assumed": "◆", "unknown": "?"}  # told apart without colours
VERDICTS = tuple(MARKS)
WORST_FIRST = ("costly", "unknown", "assumed", "ideal")


def asset(name: str) -> Markup:
    """A script or style sheet beside the templates."""
    return Markup((template_folder() / "report" / name).read_text())


def bytes_text(count: int) -> str:
    """A size with three digits: `1.25 MB`."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"


def rate_text(flop_per_s: float) -> str:
    """`66.9 TFLOP/s`."""
    for prefix, scale in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if flop_per_s >= scale:
            return f"{flop_per_s / scale:.4g} {prefix}FLOP/s"
    return f"{flop_per_s:.4g} FLOP/s"


def count_text(number: int, noun: str) -> str:
    """`1 block`, `2 blocks`; `1 access`, `2 accesses`."""
    plural = "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{'' if number == 1 else plural}"


def worst(verdicts: Sequence[str]) -> str:
    """The verdict that stands for several."""
    return next(verdict for verdict in WORST_FIRST if verdict in verdicts)


def _product_text(values: Sequence[object]) -> str:
    return " × ".join(f"{value:,}" for value in values)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


@cache
def environment() -> jinja2.Environment:
    """The environment of the templates; what they print is escaped, and undefined names are errors."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder() / "report"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=True,
    )
    made.filters |= {
        "thousands": lambda value: f"{value:,}",
        "percent": lambda value: f"{value:.1%}",
        "ratio": lambda value: f"{value:.2f}",
        "intensity": lambda value: f"{value:.4g}",
        "bytes": bytes_text,
        "rate": rate_text,
        "time": time_text,
        "growth": growth_text,
        "count": count_text,
        "times": _product_text,
        "sentence": _sentence,
        "worst": worst,
    }
    made.globals |= {"marks": MARKS, "asset": asset, "version": __version__}
    return made
