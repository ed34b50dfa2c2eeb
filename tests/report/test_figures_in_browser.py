"""Every figure that a browser shows of a gallery spec is that of `cugen.analyze`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cugen.analysis.launches.sentences import time_text
from cugen.html.environment import bytes_text, count_text, rate_text
from cugen.report.html import page_html

ROOT = Path(__file__).parents[2]
GALLERY = sorted(path.name for path in (ROOT / "specs").glob("*.yaml"))
# The cells of tables and the pairs of lists by the names of cards, for each launch; and the details of each access.
SHOWN = """
() => {
  const text = (node) => node.textContent.replace(/\\s+/g, " ").trim();
  const rows = (part) => [...part.querySelectorAll("tbody tr, tfoot tr")].map((row) => [...row.cells].map(text));
  const pairs = (part) => [...part.querySelectorAll("dl.totals dt, dl.sentences dt")]
    .map((term) => [text(term), text(term.nextElementSibling)]);
  const texts = (part) => [...part.querySelectorAll("p")].map(text);
  const parts = (part) => ({ rows: rows(part), pairs: pairs(part), paragraphs: texts(part) });
  const cards = (launch) => Object.fromEntries([...launch.querySelectorAll(".card")]
    .map((card) => [text(card.querySelector("h3")), parts(card)]));
  return {
    launches: [...document.querySelectorAll("section.launch")].map(cards),
    accesses: [...document.querySelectorAll("article.access")].map(parts),
    rows: [...document.querySelectorAll("#accesses tr[data-access]")].map((row) => [...row.cells].map(text)),
    verdicts: [...document.querySelectorAll(".verdicts li")].map(text),
  };
}
"""
MAX_BYTES = 400_000
LEVELS = {"asked": "requested"}  # words for the names of ceilings


@pytest.mark.sampled(108)
@pytest.mark.parametrize("file", GALLERY)
def test_the_figures_of_a_page_are_those_of_the_analysis(file: str, tab: Any, gallery_pages: Any) -> None:
    for made in gallery_pages(file):
        text = page_html(made)
        assert len(text.encode()) < MAX_BYTES
        shown = tab.open(text).evaluate(SHOWN)
        launches = [launch.report.to_dict() for launch in made.launches]
        accesses = [access for launch in launches for access in launch["accesses"]]
        assert [row[1:] for row in shown["rows"]] == [
            row_of(access, row[3]) for access, row in both(accesses, shown["rows"])
        ]
        for access, details in both(accesses, shown["accesses"]):
            assert details["pairs"] == totals_of(access)
            assert access["reason"] in details["paragraphs"] or not access["reason"]
            assert f"{count_text(access['bytes_per_lane'], 'byte')} per lane" in details["paragraphs"][0]
        for launch, cards in both(launches, shown["launches"]):
            check_occupancy(launch["facts"], cards["Occupancy"], made.target.warps_per_sm)
            check_waves(launch["facts"]["waves"], cards.get("Waves"))
            check_traffic(launch["facts"]["traffic"], cards["Traffic by array"])
            check_roofline(launch["facts"], cards["Roofline"])
            assert cards["All facts"]["pairs"] == [
                [s["topic"], " ".join(s["text"].split())] for s in launch["sentences"]
            ]


def both(first: list[Any], second: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip(first, second, strict=True))


def row_of(access: dict[str, Any], memory: str) -> list[str]:
    """The row of an access in the table; `memory` is the array's space in place of the kind of its requests."""
    cost, ideal = access["cost"], access["ideal"]
    if cost is not None:
        costs = [f"{cost:,}", f"{ideal:,}"]
    elif access["per_request"] is not None:
        costs = [f"{access['per_request'][name]:,} each" for name in ("worst", "worst_ideal")]
    else:
        costs = ["unknown", ""]
    ratio = "" if access["ratio"] is None else f"{access['ratio']:.2f}"
    marks = {"ideal": "●", "costly": "▲", "assumed": "◆", "unknown": "?"}
    verdict = f"{marks[access['verdict']]} {access['verdict']}"
    return [access["text"], access["kind"].replace("_", " "), memory, *costs, access["unit"], ratio, verdict]


def totals_of(access: dict[str, Any]) -> list[list[str]]:
    totals = access["totals"]
    if totals is None:
        return []
    listed = [["warps", totals["warps"]]]
    listed += [["with inactive lanes", totals["mixed_warps"]]] if totals["mixed_warps"] else []
    listed += [["lanes", totals["lanes"]], [access["unit"], access["cost"]], ["ideal", access["ideal"]]]
    return [[name, f"{value:,}"] for name, value in listed]


def check_occupancy(facts: dict[str, Any], card: dict[str, Any], warps_per_sm: int) -> None:
    known = facts["occupancy"]
    resident = known["occupancy"]
    assert card["paragraphs"][0].startswith(f"{resident['fraction']:.1%}")
    blocks, warps = count_text(resident["blocks_per_sm"], "block"), count_text(resident["warps_per_sm"], "warp")
    assert card["paragraphs"][1] == f"{blocks} and {warps} of {warps_per_sm} per SM"
    limits = {row[0]: (row[2], row[3]) for row in card["rows"]}
    assert limits == {
        name: (str(limit), "◀ limits" if name in resident["limited_by"] else "")
        for name, limit in resident["limits"].items()
    }
    pairs = dict(card["pairs"])
    assert pairs["threads per block"] == f"{known['threads']:,}"
    assert pairs["shared bytes per block"] == f"{known['shared_bytes']:,}"
    step = known["next_step"]
    assert ("next step" in pairs) == (step is not None)
    if step is not None:
        assert pairs["next step"].startswith(f"{step['occupancy']['fraction']:.1%}")
        assert (f"{step['shared_bytes']:,} shared" in pairs["next step"]) == (
            step["shared_bytes"] < known["shared_bytes"]
        )


def check_waves(waves: dict[str, Any] | None, card: dict[str, Any] | None) -> None:
    assert (waves is None) == (card is None)
    if waves is None or card is None:
        return
    assert card["paragraphs"] == [
        f"{waves['waves']:.2f} waves of {waves['at_once']:,} resident blocks; "
        f"{waves['utilisation']:.1%} of the block slots are used"
    ]
    rows = {row[0]: row[-1] for row in card["rows"]}
    assert rows.get("tail") == (f"{waves['tail_blocks']:,}" if waves["tail_blocks"] else None)
    full = count_text(waves["full_waves"], "full wave")
    assert (full in rows) == bool(waves["full_waves"])


def check_traffic(traffic: dict[str, Any] | None, card: dict[str, Any]) -> None:
    if traffic is None or not card["rows"]:
        assert card["paragraphs"][0].startswith("Unknown")
        return
    arrays = [row for row in card["rows"] if row[0] != "all"]
    if traffic["moved"] is not None:
        (total,) = (row for row in card["rows"] if row[0] == "all")
        assert total[3:5] == [f"{traffic['moved']:,}", f"{traffic['asked']:,}"]
        for column, name in ((3, "moved"), (4, "asked")):
            assert sum(int(row[column].replace(",", "")) for row in arrays) == traffic[name]
    assert card["paragraphs"][0].startswith(f"{traffic['compulsory']:,} bytes are compulsory")
    assert f"{traffic['reuse']:.2f} times" in card["paragraphs"][0]


def check_roofline(facts: dict[str, Any], card: dict[str, Any]) -> None:
    roofline, work = facts["roofline"], facts["work"]
    if roofline is None or work is None or not sum(work["flop"].values()):
        assert card["rows"] == []
        return
    rows = [("", ceiling) for ceiling in roofline["ceilings"]]
    rows += [("" if level["is_complete"] else "at least ", level["ceiling"]) for level in roofline["levels"]]
    assert card["rows"] == [
        [
            LEVELS.get(ceiling["name"], ceiling["name"]),
            f"{prefix}{ceiling['memory_bytes']:,}",
            "inf" if ceiling["intensity"] is None else f"{ceiling['intensity']:.4g}",
            rate_text(ceiling["flop_per_s"]),
            f"{ceiling['share']:.1%}",
            "memory" if ceiling["is_memory_bound"] else "compute",
            time_text(ceiling["seconds"]),
        ]
        for prefix, ceiling in rows
    ]


def test_the_head_has_the_verdicts_and_the_units_their_prefix(tab: Any, gallery_pages: Any) -> None:
    (made,) = gallery_pages("gemm_f32.yaml")
    shown = tab.open(page_html(made)).evaluate(SHOWN)
    assert [verdict.split()[0] for verdict in shown["verdicts"]] == [str(number) for _, number in made.verdicts]
    (launch,) = made.launches
    bandwidth = launch.report.facts.roofline.bandwidth
    assert (
        f"{bytes_text(bandwidth)}/s of device memory" in tab.page.locator("section[aria-label='Roofline']").inner_text()
    )
