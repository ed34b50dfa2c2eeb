"""The pages as HTML: one file each, without anything from elsewhere, and the same bytes for the same content."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import jinja2
from markupsafe import Markup

from cugen.analysis.launches.comparison import Comparison
from cugen.analysis.launches.sentences import time_text
from cugen.emit.environment import template_folder
from cugen.machine import device
from cugen.report import charts
from cugen.report.counters import Counters
from cugen.report.highlight import highlighted
from cugen.report.index import row
from cugen.report.page import Entry, Page
from cugen.report.script_data import script_data
from cugen.version import __version__

MARKS = {"ideal": "●", "costly": "▲", "assumed": "◆", "unknown": "?"}  # told apart without colours
_WORST_FIRST = ("costly", "unknown", "assumed", "ideal")


def page_html(
    page: Page,
    *,
    comparison: Comparison | None = None,
    counters: Counters | None = None,
    sass: Mapping[int, Sequence[str]] | None = None,
) -> str:
    """The HTML of a page, with a comparison, counters and the instructions of lines where they are given."""
    by_line: dict[int, list[Entry]] = {}
    for entry in page.entries:
        by_line.setdefault(entry.line, []).append(entry)
    devices = {launch.report.facts.device for launch in page.launches} - {""}
    rooflines = [
        charts.roofline_chart(launch.report.facts, device(launch.report.facts.device)) if devices else None
        for launch in page.launches
    ]
    text = (
        _environment()
        .get_template("page.html")
        .render(
            page=page,
            kernel=page.kernel,
            device=next(iter(sorted(devices)), ""),
            lines=highlighted(page.kernel.source),
            by_line=by_line,
            rooflines=rooflines,
            data=Markup(script_data(page)),
            comparison=comparison,
            counters=counters,
            sass=sass or {},
        )
    )
    return _with_policy(text)


def index_html(pages: Sequence[Page]) -> str:
    """The HTML of the index of some pages, which links `KERNEL.html` beside it."""
    return _with_policy(_environment().get_template("index.html").render(rows=[row(page) for page in pages]))


def failure_html(text: str) -> str:
    """The HTML that is served in place of pages that can't be made."""
    return _with_policy(_environment().get_template("failure.html").render(text=text))


def live_html(text: str, version: str) -> str:
    """A page that reloads when the server has another version."""
    script = f"\n{_asset('live.js')}"
    text = text.replace("script-src", f"connect-src 'self'; script-src '{_hash(script)}'", 1)
    text = text.replace("<body>", f'<body data-version="{version}">', 1)
    return text.replace("</body>", f"<script>{script}</script>\n</body>", 1)


def worst(entries: Iterable[Entry]) -> str:
    """The verdict that a line shows."""
    verdicts = {entry.report.verdict for entry in entries}
    return next(verdict for verdict in _WORST_FIRST if verdict in verdicts)


def bytes_text(count: int) -> str:
    """A size with three digits: `1.25 MB`."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count} B"


def _with_policy(text: str) -> str:
    """The page with a policy that forbids every connection, and every script but its own."""
    scripts = [part.partition("</script>")[0] for part in text.split("<script>")[1:]]
    hashes = " ".join(f"'{_hash(script)}'" for script in scripts)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}"
    return text.replace("@POLICY@", policy, 1)


def _hash(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _asset(name: str) -> Markup:
    return Markup((template_folder() / "report" / name).read_text())


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _listed(values: Sequence[object]) -> str:
    return " × ".join(f"{value:,}" for value in values)


@cache
def _environment() -> jinja2.Environment:
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
        "rate": charts.rate_text,
        "time": time_text,
        "count": _count,
        "times": _listed,
        "worst": worst,
    }
    made.globals |= {"marks": MARKS, "asset": _asset, "version": __version__, "charts": charts}
    return made
