"""Pages in a real browser, in one session: they open without an error, follow the reader, and agree with `check`."""

from __future__ import annotations

import argparse
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cugen.cli.commands import report
from cugen.cli.main import main
from cugen.report.html import index_html, page_html
from cugen.report.page import Page
from cugen.report.server import Server

ROOT = Path(__file__).parents[2]
GALLERY = sorted(path.name for path in (ROOT / "specs").glob("*.yaml"))
SELECT_ALL = """
() => [...document.querySelectorAll("a[data-select]")].map((link) => {
  link.click();
  if (document.getElementById("map-body").hidden) return document.getElementById("map-reason").textContent;
  const parts = [...document.querySelectorAll("#map-figures, #map-picture, #map-footprint, #map-lanes")];
  const isBad = document.querySelector("#map-figures .bad") !== null;
  return parts.map((part) => part.textContent).join(" ") + (isBad ? " BAD" : "");
})
"""


@pytest.mark.sampled(186)
@pytest.mark.parametrize("file", GALLERY)
def test_the_page_of_a_gallery_spec_opens_and_shows_each_access(
    file: str, tab: Any, gallery_pages: Callable[[str], tuple[Page, ...]]
) -> None:
    for made in gallery_pages(file):
        page = tab.open(page_html(made))
        texts = page.evaluate(SELECT_ALL)
        assert len(texts) == len(made.entries)
        for entry, text in zip(made.entries, texts, strict=True):
            assert (entry.lanes in text) if isinstance(entry.lanes, str) else (entry.report.unit[:-1] in text)
            assert not any(word in text for word in ("NaN", "undefined", "null", "Infinity"))
            if "the worst request" in text:
                assert f"{entry.report.per_request.worst} {entry.report.unit}"[:-1] in text
            if entry.report.space == "shared" and entry.report.verdict == "costly":
                assert text.endswith(" BAD")


def test_a_map_opens_at_a_block_that_copies_a_box(tab: Any, gallery_pages: Any) -> None:
    """Blocks whose part of stream-K ends before that of its tile store partial sums alone."""
    (made,) = gallery_pages("gemm_wgmma_stream_k.yaml")
    texts = tab.open(page_html(made)).evaluate(SELECT_ALL)
    shown = {entry.report.text: text for entry, text in zip(made.entries, texts, strict=True)}
    assert "for a box of 64 × 16 elements" in shown["C_map(n0 + 16 * chunk, m0)"]


@pytest.mark.slow
def test_both_themes_have_their_colours_and_neither_is_too_wide(tab: Any, gallery_pages: Any) -> None:
    (made,) = gallery_pages("gemm_f32.yaml")
    page = tab.open(page_html(made))
    papers = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        papers[scheme] = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert papers == {"light": "rgb(255, 255, 255)", "dark": "rgb(21, 24, 28)"}
    for width in (1400, 800, 400, 360):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.slow
def test_a_printed_page_has_every_access_and_no_controls(tab: Any, gallery_pages: Any) -> None:
    (made,) = gallery_pages("matmul_padded.yaml")
    page = tab.open(page_html(made))
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("article.access:visible").count() == len(made.entries)
    assert page.locator("form:visible").count() == 0
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.slow
def test_the_keyboard_walks_over_the_marks_of_lines(tab: Any, gallery_pages: Any) -> None:
    (made,) = gallery_pages("matmul_padded.yaml")
    page = tab.open(page_html(made))
    page.locator("table.code button").first.focus()
    lines = sorted({entry.line for entry in made.entries})
    for line in lines[1:]:
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.closest('tr').id") == f"L{line}"
        assert page.locator(f"tr#L{line}.chosen").count() == 1
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.closest('tr').id") == f"L{lines[-2]}"


def checked(text: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> dict[str, tuple[int, int]]:
    """(cost, ideal) of the accesses in shared memory, as `cugen check` prints them."""
    spec = folder / "spec.yaml"
    spec.write_text(text)
    capfd.readouterr()
    main(["check", str(spec), "--format", "json"])
    (kernel,) = json.loads(capfd.readouterr().out)["kernels"]
    accesses = [access for launch in kernel["launches"] for access in launch["accesses"]]
    return {f"{a['kind']} {a['text']}": (a["cost"], a["ideal"]) for a in accesses if a["space"] == "shared"}


def conflicting(name: str) -> str:
    """The text of a gallery spec without its padding."""
    text, count = re.subn(r"pad: \d+", "pad: 0", (ROOT / "specs" / f"{name}.yaml").read_text())
    assert count == 1
    return text


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "layout", "wavefronts"),
    [
        ("matmul_padded", "pad: 8", 1),
        ("matmul_padded", "swizzle: xor", 4),
        ("transpose_padded", "pad: 1", 1),
        ("transpose_padded", "swizzle: xor", 1),
    ],
)
def test_a_layout_chosen_on_the_page_has_the_conflicts_and_figures_of_check(
    name: str,
    layout: str,
    wavefronts: int,
    tab: Any,
    tmp_path: Path,
    page_of: Any,
    capfd: pytest.CaptureFixture[str],
) -> None:
    text = conflicting(name)
    made = page_of(text)
    reports = {f"{e.report.access.kind} {e.report.text}": e for e in made.entries if e.report.space == "shared"}
    costly = max(reports.values(), key=lambda entry: entry.report.ratio)
    page = tab.open(page_html(made))
    page.locator(f"a[data-select='{costly.number}']").click()

    def shown() -> dict[str, tuple[int, int]]:
        cells = page.locator("#map-tile td[data-cost]").all()
        return {
            cell.get_attribute("data-cost"): (
                int(cell.inner_text().replace(",", "")),
                int(cell.locator("xpath=following-sibling::td[1]").inner_text().replace(",", "")),
            )
            for cell in cells
        }

    def expected(figures: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        tile = costly.report.access.array.symbol
        at_position = zip(reports.values(), figures.values(), strict=True)
        return {str(entry.number): f for entry, f in at_position if entry.report.access.array.symbol == tile}

    worst = costly.report.per_request
    assert page.locator("#map-figures strong").inner_text() == f"{worst.worst} wavefronts"
    assert page.locator("#map-picture .excess").count() > 0
    assert shown() == expected(checked(text, tmp_path, capfd))
    page.locator("#map-layout").select_option(label=layout)
    assert page.locator("#map-figures strong").inner_text() == f"{wavefronts} wavefront{'s' * (wavefronts > 1)}"
    assert (page.locator("#map-picture .excess").count() > 0) == (wavefronts > 1)
    assert shown() == expected(checked(text.replace("pad: 0", layout), tmp_path, capfd))


@pytest.mark.slow
def test_an_address_with_an_access_opens_at_it(tab: Any, gallery_pages: Any) -> None:
    (made,) = gallery_pages("matmul_padded.yaml")
    page = tab.open(page_html(made))
    last = made.entries[-1]
    page.locator(f"a[data-select='{last.number}']").click()
    assert page.url.endswith(f"#access-{last.number}")
    page.reload()
    assert page.locator("article.chosen h3").inner_text() == last.report.text


@pytest.mark.slow
def test_a_slider_walks_over_the_warps(tab: Any, page_of: Any) -> None:
    made = page_of(conflicting("transpose_padded"))
    page = tab.open(page_html(made))
    page.locator("a[data-select='2']").click()
    first = page.locator("#map-lanes").text_content()
    page.locator("#map-warp").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#map-lanes").text_content() != first


@pytest.mark.slow
def test_a_heading_of_the_index_sorts_its_rows(tab: Any, gallery_pages: Any) -> None:
    pages = [page for file in ("softmax.yaml", "matmul_padded.yaml", "gather.yaml") for page in gallery_pages(file)]
    page = tab.open(index_html(pages))
    names = "[...document.querySelectorAll('tbody th code')].map((name) => name.textContent)"
    page.get_by_role("button", name="kernel").click()
    assert page.evaluate(names) == ["gather", "matmul_padded", "softmax"]
    page.get_by_role("button", name="kernel").click()
    assert page.evaluate(names) == ["softmax", "matmul_padded", "gather"]
    assert page.locator("th[aria-sort]").count() == 1


def test_a_served_page_reloads_with_the_spec_and_keeps_the_access(tab: Any, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(conflicting("transpose_padded"))
    parser = argparse.ArgumentParser()
    report.add_arguments(parser)
    args = parser.parse_args([str(spec), "--serve", "0"], argparse.Namespace(quiet=True, gnu=False))
    server = Server(lambda: report._site(args), 0)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        tab.server = server.url
        page = tab.page
        page.goto(server.url)
        page.locator("a[data-select='3']").click()
        assert "32 wavefronts" in page.locator("#map-figures").inner_text()
        spec.write_text(conflicting("transpose_padded").replace("pad: 0", "pad: 1"))
        page.locator("#map-figures", has_text="1 wavefront, ideal 1").wait_for(timeout=60_000)
        assert page.locator("tr.chosen[data-access='3']").count() == 1
        spec.write_text("cugen: 1")
        page.get_by_role("heading", name="No page").wait_for(timeout=60_000)
    finally:
        tab.page.close()  # it asks the server for news
        server.stop()
        thread.join(timeout=60)


UNNAMED = """
() => {
  const text = (ids) => ids.split(" ").map((id) => document.getElementById(id)?.textContent || "").join("");
  const named = (node) =>
    (node.getAttribute("aria-label") || text(node.getAttribute("aria-labelledby") || "") || node.textContent).trim();
  const pictures = [...document.querySelectorAll("svg:not([aria-hidden])")]
    .filter((svg) => svg.getAttribute("role") !== "img" || !named(svg));
  const controls = [...document.querySelectorAll("input, select")].filter((control) => !control.closest("label"));
  const buttons = [...document.querySelectorAll("button")].filter((button) => !named(button));
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].map((heading) => Number(heading.tagName[1]));
  const skipped = levels.filter((level, n) => level - (levels[n - 1] || 0) > 1);
  return [...pictures, ...controls, ...buttons].map((node) => node.outerHTML.slice(0, 200)).concat(skipped);
}
"""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("file", ["gemm_f32.yaml", "transpose_padded.yaml", "gemm_wgmma_f16.yaml"])
def test_a_screen_reader_has_a_name_for_each_picture_and_control(file: str, tab: Any, gallery_pages: Any) -> None:
    (made,) = gallery_pages(file)
    page = tab.open(page_html(made))
    for entry in made.entries:
        page.locator(f"a[data-select='{entry.number}']").click()
        assert page.evaluate(UNNAMED) == []
    assert page.locator("[role=status]").count() == 2


@pytest.mark.slow
def test_the_footprint_of_a_block_follows_the_sliders(tab: Any, gallery_pages: Any) -> None:
    (made,) = gallery_pages("transpose_padded.yaml")
    page = tab.open(page_html(made))
    page.locator("a[data-select='1']").click()
    text = page.locator("#map-footprint-text")
    assert "1,024 elements of A (300 × 200), with blockIdx.x = 0, blockIdx.y = 0: rows 0 to 31" in text.inner_text()
    page.locator("#map-blockIdx-x").focus()
    page.keyboard.press("End")
    assert "rows 288 to 299" in text.inner_text()
    assert "640 elements beyond the edge aren't accessed" in text.inner_text()
    assert page.locator("#map-footprint-picture .beyond").count() > 0
    page.locator("a[data-select='2']").click()
    assert page.locator("#map-footprint").is_hidden()


def test_captions_of_wide_tables_are_whole_on_a_narrow_screen(tab, gallery_pages):
    (made,) = gallery_pages("matmul_padded.yaml")
    tab.page.set_viewport_size({"width": 420, "height": 900})
    opened = tab.open(page_html(made))
    right = "captions => captions.map((caption) => caption.getBoundingClientRect().right)"
    edges = opened.locator("table.list caption").evaluate_all(right)
    assert len(edges) > 3
    assert max(edges) <= 420
    assert opened.evaluate("document.documentElement.scrollWidth") == 420
