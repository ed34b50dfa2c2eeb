"""The script of a page computes the addresses of warps and their cost as Python does."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy

from cugen.analysis.totals.affine import evaluator
from cugen.analysis.totals.sites import THREAD, Predicate, Site, sites
from cugen.analysis.verdicts import copy_sources
from cugen.analysis.verdicts.conflicts_by_pad import with_array, with_rows
from cugen.analysis.verdicts.report import SPACES
from cugen.machine import known_targets, target
from cugen.machine.requests.async_copies import L1_BYPASS_BYTES
from cugen.machine.requests.request import warp_request
from cugen.report.page import Page
from cugen.report.script_data import data, target_rules

ROOT = Path(__file__).parents[2]
FIGURES = ("requests", "wavefronts", "ideal_wavefronts", "sectors", "ideal_sectors")
EXPRESSION = """(c) => {
  if (!c.access) return script.warpRequest(c.space, c.kind, c.width, c.addresses, c.target, c.sources);
  const lanes = script.lanesOf(c.access, c.block, c.warp, c.uniform, c.layout);
  return { ...script.costOf(c.access, lanes, c.target), addresses: lanes.map((lane) => lane && lane.address) };
}"""
# Gallery files with every kind of access: copies of 4 to 16 bytes, with guards, matrix loads, swizzles, constants,
# choices of stream-K, rows of vectors, transposes.
FILES = (
    "gemm_f32.yaml",
    "gemm_split.yaml",
    "gemm_tensor_f64.yaml",
    "matmul_int8.yaml",
    "matmul_f16.yaml",
    "matmul_padded.yaml",
    "conv_channels.yaml",
    "blur_shared.yaml",
    "transpose_swizzled.yaml",
    "permute_heads.yaml",
    "attention_causal.yaml",
    "prefix_sum.yaml",
    "product_ladder.yaml",
)


def drawn_requests(random_: random.Random) -> Iterator[dict[str, Any]]:
    """Warp instructions of every kind on every target: strided, equal, scattered, swizzled, with inactive lanes."""
    widths = {"async_copy": (4, 8, 16), "matrix_load": (16,), "matrix_store": (16,), "atomic": (4, 8)}
    for name in known_targets():
        row = target(name)
        spaces = {"shared": row.shared_kinds, "global": row.global_kinds, "local": ("load",), "constant": ("load",)}
        for space, kinds in spaces.items():
            for kind in kinds:
                for _ in range(6):
                    width = random_.choice(widths.get(kind, (1, 2, 4, 8, 16)))
                    addresses = drawn_addresses(random_, width, partly=not kind.startswith("matrix_"))
                    sources = None
                    if (space, kind) == ("shared", "async_copy") and random_.random() < 0.7:
                        sources = drawn_addresses(random_, width, partly=False)
                    yield {
                        "space": space,
                        "kind": kind,
                        "width": width,
                        "addresses": addresses,
                        "sources": sources,
                        "target": target_rules(row),
                        "name": name,
                    }


def drawn_addresses(random_: random.Random, width: int, *, partly: bool) -> list[int | None]:
    stride, group = random_.choice((0, 1, 1, 2, 3, 8, 16, 32, 33)), random_.choice((1, 1, 2, 4, 8))
    start, mask = random_.choice((0, 0, 1, 5, 8)), random_.choice((0, 0, 1, 7))
    jump = random_.choice((0, 0, 32, 100))
    units = [start + stride * (lane // group ^ mask) + jump * (lane // 16) for lane in range(32)]
    if random_.random() < 0.2:
        units = [random_.randrange(256) for _ in range(32)]
    missing = random_.choice((0, 0, 0.3, 0.9)) if partly else 0
    return [None if random_.random() < missing else unit * width for unit in units]


def test_the_script_charges_what_the_rules_of_each_target_charge(in_node):
    cases = list(drawn_requests(random.Random(1)))
    kinds = {(case["space"], case["kind"]) for case in cases}
    assert len(kinds) > 10
    for case, answer in zip(cases, in_node("requests.js", EXPRESSION, cases), strict=True):
        expected = warp_request(
            case["space"], case["kind"], case["width"], case["addresses"], case["name"], sources=case["sources"]
        )
        assert {name: answer[name] for name in FIGURES} == {name: getattr(expected, name) for name in FIGURES}, case
        assert answer["transactions"] == [list(transaction) for transaction in expected.transactions], case


def test_each_active_lane_is_in_the_passes_of_a_shared_memory_request(in_node):
    cases = [case for case in drawn_requests(random.Random(2)) if case["space"] == "shared" and case["width"] != 16]
    for case, answer in zip(cases, in_node("requests.js", EXPRESSION, cases), strict=True):
        lanes = {lane for cells in answer["passes"] for cell in cells["cells"] for lane in cell["lanes"]}
        assert lanes == {lane for lane, address in enumerate(case["addresses"]) if address is not None}
        for cells in answer["passes"]:
            assert all(cell["bank"] < 32 for cell in cells["cells"])


@pytest.mark.sampled(18)
@pytest.mark.parametrize("file", FILES)
def test_a_map_of_the_gallery_has_the_addresses_and_the_cost_of_python(
    file: str, gallery_pages: Callable[[str], tuple[Page, ...]], in_node: Any
) -> None:
    random_ = random.Random(file)
    cases: list[dict[str, Any]] = []
    expected = []
    for page in gallery_pages(file):
        content = json.loads(json.dumps(data(page)))
        for position, launch in enumerate(page.launches):
            values = {symbol.name: int(page.kernel.spec.param(name).value) for name, symbol in symbols(page)}
            all_sites = {site.access.serial: site for site in sites(launch.planned, values)}
            for entry in launch.entries:
                if isinstance(entry.lanes, str):
                    continue
                access = content["accesses"][str(entry.number)]["map"]
                for _ in range(3):
                    warp = random_.randrange(-(-launch.planned.threads // 32))
                    uniform = {v["name"]: random_.randint(v["low"], v["high"]) for v in access["variables"]}
                    site = all_sites[entry.report.access.serial]
                    layout = access["tile"]
                    if layout is not None:
                        layout = random_.choice(content["tiles"][position][layout["array"]]["layouts"])
                        site = with_array(site, with_rows(site.access.array, layout["pad"], layout["swizzle"]))
                    addresses, cost = in_python(site, launch.planned.block, warp, uniform, page)
                    expected.append((entry.report.text, addresses, cost))
                    cases.append(
                        {
                            "access": access,
                            "block": launch.planned.block,
                            "warp": warp,
                            "uniform": uniform,
                            "layout": layout,
                            "target": content["target"],
                        }
                    )
    assert cases
    for (text, addresses, cost), answer in zip(expected, in_node("requests.js", EXPRESSION, cases), strict=True):
        assert answer["addresses"] == addresses, text
        assert {name: answer[name] for name in FIGURES} == cost, text


def symbols(page: Page) -> list[tuple[str, sympy.Symbol]]:
    return list(page.kernel.context.symbols.items())


def in_python(
    site: Site, block: tuple[int, int, int], warp: int, uniform: dict[str, int], page: Page
) -> tuple[list[int | None], dict[str, int]]:
    """Addresses and figures of one warp, by the site's own expressions and `warp_request`."""
    threads = np.arange(warp * 32, warp * 32 + 32)
    coordinates = (threads % block[0], threads // block[0] % block[1], threads // (block[0] * block[1]))
    values: dict[sympy.Symbol, Any] = dict(zip(THREAD, coordinates, strict=True))
    values |= {sympy.Symbol(name, integer=True): value for name, value in uniform.items()}
    running = threads < block[0] * block[1] * block[2]
    for predicate in site.predicates:
        running = running & np.broadcast_to(runs(predicate, values), 32)
    array = site.access.array
    offsets = np.broadcast_to(value_of(site.offset, values), 32)
    start = array.dynamic_offset if array.space == "shared" else 0
    addresses = [
        int(start + offset * array.dtype.bytes) if on else None for offset, on in zip(offsets, running, strict=True)
    ]
    width = array.dtype.bytes * site.access.width
    sources = None if site.source_offset is None else copy_sources.sources_of(site, block)
    parts = [(addresses, sources)]
    if site.source_guard is not None and width < L1_BYPASS_BYTES:
        reads = np.broadcast_to(runs(site.source_guard, values), 32)
        parts = [
            ([a if on else None for a, on in zip(addresses, reads, strict=True)], sources),
            ([None if on else a for a, on in zip(addresses, reads, strict=True)], None),
        ]
    space = SPACES[array.space]
    costs = [warp_request(space, site.access.kind, width, a, page.target, sources=s) for a, s in parts]
    return addresses, {name: sum(getattr(cost, name) for cost in costs) for name in FIGURES}


def runs(predicate: Predicate, values: dict[sympy.Symbol, Any]) -> Any:
    operators = {"<": np.less, "==": np.equal, "!=": np.not_equal}
    holds: Any = True
    for difference, operator in predicate.terms:
        holds = holds & operators[operator](value_of(difference, values), 0)
    return np.logical_not(holds) if predicate.negated else holds


def value_of(expr: Any, values: dict[sympy.Symbol, Any]) -> Any:
    return evaluator(expr, {name: (0, int(np.max(value))) for name, value in values.items()})(values)
