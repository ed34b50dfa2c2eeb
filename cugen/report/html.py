"""The pages as HTML: one file each, without anything from elsewhere, and the same bytes for the same content."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from cugen.analysis.launches.comparison import Comparison
from cugen.html.environment import asset, environment
from cugen.html.highlight import highlighted
from cugen.machine import Target, device
from cugen.report.attachments.counters import Counters
from cugen.report.charts import occupancy, output, pipeline, roofline, stream_k
from cugen.report.index import row
from cugen.report.page import Entry, Launch, Page
from cugen.report.script_data import script_data


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
    text = (
        environment()
        .get_template("page.html")
        .render(
            page=page,
            kernel=page.kernel,
            device=next(iter(sorted(devices)), ""),
            lines=highlighted(page.kernel.source),
            by_line=by_line,
            charts=[_charts(launch, page.target) for launch in page.launches],
            data=Markup(script_data(page)),
            comparison=comparison,
            counters=counters,
            sass=sass or {},
            plot=roofline,
            step_size=occupancy,
        )
    )
    return _with_policy(text)


@dataclass(frozen=True, slots=True)
class _Charts:
    """The charts of a launch; None where it has none of a kind."""

    occupancy: tuple[occupancy.StepChart, ...]
    roofline: roofline.RooflineChart | None
    tiles: tuple[output.TilesChart, ...]
    threads: tuple[output.ThreadsChart | None, ...]
    pipeline: pipeline.PipelineChart | None
    stream_k: stream_k.StreamKChart | None


def _charts(launch: Launch, target: Target) -> _Charts:
    facts = launch.report.facts
    return _Charts(
        occupancy.occupancy_charts(facts.occupancy, target, launch.registers),
        roofline.roofline_chart(facts, device(facts.device)) if facts.device else None,
        tuple(map(output.tiles_chart, launch.outputs)),
        tuple(map(output.threads_chart, launch.outputs)),
        pipeline.pipeline_chart(launch.timeline) if launch.timeline is not None else None,
        stream_k.stream_k_chart(launch.parts, launch.planned.work_units) if launch.planned.work_units else None,
    )


def index_html(pages: Sequence[Page]) -> str:
    """The HTML of the index of some pages, which links `KERNEL.html` beside it."""
    return _with_policy(environment().get_template("index.html").render(rows=[row(page) for page in pages]))


def failure_html(text: str) -> str:
    """The HTML that is served in place of pages that can't be made."""
    return _with_policy(environment().get_template("failure.html").render(text=text))


def live_html(text: str, version: str) -> str:
    """A page that reloads when the server has another version."""
    script = f"\n{asset('scripts/live.js')}"
    text = text.replace("script-src", f"connect-src 'self'; script-src '{_hash(script)}'", 1)
    text = text.replace("<body>", f'<body data-version="{version}">', 1)
    return text.replace("</body>", f"<script>{script}</script>\n</body>", 1)


def _with_policy(text: str) -> str:
    """The page with a policy that forbids every connection, and every script but its own."""
    scripts = [part.partition("</script>")[0] for part in text.split("<script>")[1:]]
    hashes = " ".join(f"'{_hash(script)}'" for script in scripts)
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}"
    return text.replace("@POLICY@", policy, 1)


def _hash(script: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
