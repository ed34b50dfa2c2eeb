"""A page as a file: self-contained, small, well-formed, the same bytes each time, with the figures of the analysis."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from cugen.emit.environment import template_folder
from cugen.report.html import index_html, page_html
from cugen.report.index import row

ROOT = Path(__file__).parents[2]
MAX_BYTES = 400_000
FILES = ("matmul_padded.yaml", "gemm_f32.yaml", "softmax_long_rows.yaml", "gather.yaml", "rms_norm_dynamic.yaml")
VOID = {"meta", "br", "input", "link", "hr"}
HOSTILE = """
cugen: 1
kernel: copy
doc: '</script><b>{{ 7 * 7 }} &amp;'
params: {N: 64}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = x[i]
"""


class Page(HTMLParser):
    """Elements of a page: unbalanced ones, ids, references to ids, and rows of tables as texts."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.unbalanced: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.rows: dict[str, list[str]] = {}
        self.sources: list[str] = []
        self._row: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [known["id"] or ""] if "id" in known else []
        self.references += (known.get("aria-labelledby") or "").split()
        self.references += [known["href"][1:]] if (known.get("href") or "").startswith("#") else []
        self.sources += [known[name] or "" for name in ("src", "srcset", "data") if name in known]
        if tag == "tr" and "data-access" in known:
            self._row = self.rows.setdefault(known["data-access"] or "", [])
        if tag == "td" and self._row is not None:
            self._row.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.unbalanced.append(tag)
        if tag == "tr":
            self._row = None

    def handle_data(self, data: str) -> None:
        if self._row:
            self._row[-1] += data


@pytest.mark.sampled(4)
@pytest.mark.parametrize("file", FILES)
def test_a_page_needs_nothing_else_and_is_small_and_well_formed(file, gallery_pages):
    for page in gallery_pages(file):
        text = page_html(page)
        parsed = Page(text)
        assert len(text.encode()) < MAX_BYTES
        assert (parsed.unbalanced, parsed.open, parsed.sources) == ([], [], [])
        assert sorted(set(parsed.ids)) == sorted(parsed.ids)
        assert set(parsed.references) <= set(parsed.ids)
        assert re.findall(r"url\((?!#)|@import|https?://(?!www\.w3\.org)", text) == []
        assert "default-src 'none'" in text


@pytest.mark.parametrize("file", FILES)
def test_the_table_has_the_figures_of_the_analysis(file, gallery_pages):
    for page in gallery_pages(file):
        rows = Page(page_html(page)).rows
        assert len(rows) == len(page.entries)
        for entry in page.entries:
            line, text, _, _, cost, ideal, unit, ratio, verdict = rows[str(entry.number)]
            report = entry.report
            assert (line, text, unit) == (str(entry.line), report.text, report.unit)
            assert verdict.split()[-1] == report.verdict
            assert ratio == ("" if report.ratio is None else f"{report.ratio:.2f}")
            if report.totals is not None:
                assert (cost, ideal) == (f"{report.cost:,}", f"{report.ideal:,}")


@pytest.mark.slow
def test_each_process_writes_the_same_bytes(tmp_path):
    texts = []
    for seed in ("1", "2"):
        output = tmp_path / f"{seed}.html"
        command = [
            sys.executable,
            "-m",
            "cugen",
            "report",
            str(ROOT / "specs" / "transpose_shared.yaml"),
            "-o",
            str(output),
        ]
        subprocess.run(command, check=True, timeout=60, env={**os.environ, "PYTHONHASHSEED": seed}, cwd=ROOT)
        texts.append(output.read_bytes())
    assert texts[0] == texts[1]


def test_text_of_a_spec_is_never_markup(page_of):
    text = page_html(page_of(HOSTILE))
    assert "<b>" not in text
    assert "49 &amp;" not in text
    assert "&lt;/script&gt;&lt;b&gt;{{ 7 * 7 }} &amp;amp;" in text
    assert text.count("</script>") == (template_folder() / "report" / "page.html").read_text().count("</script>")


def test_the_index_has_a_row_for_each_kernel_with_a_link(gallery_pages):
    pages = [page for file in FILES for page in gallery_pages(file)]
    text = index_html(pages)
    for page in pages:
        summary = row(page)
        assert f'<a href="{page.kernel.name}.html">' in text
        assert summary.costly == sum(entry.report.verdict == "costly" for entry in page.entries)
        assert (summary.moved is None) == any(
            launch.report.facts.traffic is None or launch.report.facts.traffic.moved is None for launch in page.launches
        )


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb` (WCAG 2.1)."""
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_texts_stand_out_from_the_paper_in_both_themes(theme):
    css = (ROOT / "templates" / "report" / "style.css").read_text()
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    colours = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", blocks[0] + (blocks[1] if theme else "")))

    def contrast(first: str, second: str) -> float:
        values = sorted((luminance(colours[first]), luminance(colours[second])))
        return (values[1] + 0.05) / (values[0] + 0.05)

    for paper in ("paper", "panel", "chosen"):
        for text in ("ink", "soft", "link"):
            assert contrast(text, paper) >= 4.5, (text, paper)
    for text in ("comment", "keyword", "text"):
        assert contrast(text, "panel") >= 4.5, text
    for mark in ("ideal", "costly", "assumed", "unknown", "fill", "limit"):
        assert contrast(mark, "paper") >= 3, mark
    for quarter in range(4):
        assert contrast("cell-ink", f"quarter-{quarter}") >= 4.5
