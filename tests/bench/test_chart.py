"""The chart is well-formed and says every number."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from cugen.bench.chart import Axis, Bars, chart

SVG = "{http://www.w3.org/2000/svg}"


def rects(text: str) -> list[ET.Element]:
    return [r for r in ET.fromstring(text).iter(f"{SVG}rect") if r.find(f"{SVG}title") is not None]


def test_every_contender_has_a_bar_as_long_as_its_share() -> None:
    rows = [Bars("copy", (("cugen", 1.0), ("torch", 0.5))), Bars("sum", (("cugen", 0.25),))]
    bars = rects(chart("Kernels", rows))
    assert [int(bar.get("width", "0")) for bar in bars] == [460, 230, 115]
    assert [bar.find(f"{SVG}title").text for bar in bars] == [  # type: ignore[union-attr]
        "copy, cugen: 1.000",
        "copy, torch: 0.500",
        "sum, cugen: 0.250",
    ]
    tops = [int(bar.get("y", "0")) for bar in bars]
    assert tops == sorted(tops)


def test_names_with_signs_of_xml_are_escaped() -> None:
    text = chart("a < b & c", [Bars("x<y> & z", (("cugen", 0.9),))])
    assert [e.text for e in ET.fromstring(text).iter(f"{SVG}text")].count("x<y> & z") == 1


def test_a_bar_beyond_the_axis_is_clipped_and_keeps_its_label() -> None:
    text = chart("t", [Bars("fast", (("cugen", 3.0),))])
    assert int(rects(text)[0].get("width", "0")) < 3 * 460
    assert ">3.00<" in text


def test_an_axis_may_reach_further_and_says_what_it_is() -> None:
    text = chart("t", [Bars("fast", (("cugen", 1.5),))], Axis("speed & more", unit=100, maximum=1.6))
    assert [int(bar.get("width", "0")) for bar in rects(text)] == [150]
    said = [e.text for e in ET.fromstring(text).iter(f"{SVG}text")]
    assert "speed & more" in said
    assert "1.5" in said


def test_no_kernels_are_no_bars() -> None:
    assert rects(chart("nothing", [])) == []
