"""Limits on what a device makes of a launch: full warps, enough blocks, traffic and the roofline."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from cugen.cli.main import main

TWICE = """\
cugen: 1
kernel: twice
params: {N: SIZE}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = 2 * x[i]
schedule: {family: direct, block: {i: BLOCK}}
check: CHECK
"""
PRODUCT = """\
cugen: 1
kernel: product
params: {M: SIZE, N: SIZE, K: 256}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: SCHEDULE
check: CHECK
"""
NAIVE = "{family: direct, block: {m: 8, n: 32}}"
TILED = "{family: tiled, block: {m: 64, n: 64}, thread: {m: 8, n: 1}, step: {k: 8}}"


@pytest.fixture
def findings(tmp_path: Path) -> Any:
    """The findings of a spec as (code, severity, label)."""

    def check(text: str) -> list[tuple[str, str, str]]:
        path = tmp_path / "limits.yaml"
        path.write_text(text)
        with redirect_stdout(io.StringIO()) as printed:
            main(["check", "--format", "json", str(path)])
        (kernel,) = json.loads(printed.getvalue())["kernels"]
        return [(f["code"], f["severity"], f["label"]) for f in kernel["findings"]]

    return check


def twice(check: str = "{}", block: int = 256, size: int | str = 100_000) -> str:
    return TWICE.replace("CHECK", check).replace("BLOCK", str(block)).replace("SIZE", str(size))


def product(check: str = "{}", schedule: str = TILED, size: int = 1024) -> str:
    return PRODUCT.replace("CHECK", check).replace("SCHEDULE", schedule).replace("SIZE", str(size))


@pytest.mark.parametrize("block", [1, 8, 31])
def test_blocks_of_less_than_a_warp_are_a_warning(findings: Any, block: int) -> None:
    assert ("CG3207", "warning", "less than a warp") in findings(twice(block=block, size=1000))


def test_a_warp_is_enough_and_so_is_one_small_block(findings: Any) -> None:
    assert findings(twice(block=32)) == []
    assert findings(twice(block=8, size=8)) == []


def test_the_limit_on_lanes_is_on_each_access_or_on_those_of_an_array(findings: Any) -> None:
    low = ("CG3207", "error", "at least 0.5 is required")
    assert findings(twice("{lanes: 0.5}", block=8)).count(low) == 2
    assert findings(twice("{lanes: {x: 0.5}}", block=8)).count(low) == 1
    assert findings(twice("{lanes: 0.25}", block=8)).count(low) == 0


def test_a_small_grid_is_a_warning_where_it_costs_time(findings: Any) -> None:
    assert ("CG3209", "warning", "116 SMs are idle") in findings(product(size=256))
    assert findings(product(size=1024)) == []
    assert findings(twice(size=1000)) == []  # an empty launch takes as long


@pytest.mark.parametrize(("limit", "codes"), [(2.9, []), (3, ["CG3209"])])
def test_the_limit_on_the_grid_counts_blocks_per_sm(findings: Any, limit: float, codes: list[str]) -> None:
    # 391 blocks on 132 SMs
    assert [code for code, _, _ in findings(twice(f"{{grid: {limit}}}"))] == codes


def test_a_tail_is_an_error_beyond_the_limit_on_waves(findings: Any) -> None:
    label = "at least 0.9 is required"
    assert findings(twice("{waves: 0.9}", size=256 * 1057)) == [("CG3208", "error", label)]
    assert findings(twice("{waves: 0.9}", size=256 * 1056)) == []


def test_traffic_is_the_moved_bytes_by_the_compulsory_ones(findings: Any) -> None:
    # 16 times A and B, of 1 MiB each, and C of 4 MiB once
    assert findings(product("{traffic: 6}")) == []
    assert findings(product("{traffic: 5.9}")) == [("CG2205", "error", "at most 5.9 allowed")]


def test_traffic_of_an_array_has_its_own_limit(findings: Any) -> None:
    assert findings(product("{traffic: {A: 16, B: 16, C: 1}}")) == []
    assert findings(product("{traffic: {A: 15, C: 1}}")) == [("CG2205", "error", "at most 15 allowed")]
    assert findings(product("{sectors: {A: 1, C: 1}}", NAIVE)) == []


def test_the_roofline_is_a_share_of_the_modelled_time(findings: Any) -> None:
    slow = ("CG3210", "error", "at least 0.15 is required")
    assert slow in findings(product("{roofline: 0.15}", NAIVE))
    assert slow not in findings(product("{roofline: 0.15}"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("limit", ["grid: 1", "waves: 0.5", "traffic: 2", "roofline: 0.5", "lanes: 0.5"])
def test_what_a_size_without_a_value_leaves_open_fails_a_limit_unless_it_is_allowed(findings: Any, limit: str) -> None:
    codes = {code for code, _, _ in findings(twice(f"{{{limit}}}", size="dynamic"))}
    assert codes == {"CG2204"}
    assert findings(twice(f"{{{limit}, unknown: allow}}", size="dynamic")) == []


def test_a_size_without_a_value_is_named_with_the_option_that_sets_it(tmp_path: Path) -> None:
    path = tmp_path / "limits.yaml"
    path.write_text(twice("{lanes: 0.5}", size="dynamic"))
    with redirect_stdout(io.StringIO()) as printed:
        main(["check", str(path)])
    text = printed.getvalue()
    assert "= note: N has no value\n" in text
    assert "= help: `--set N=…` checks it at a size; `unknown: allow` under `check` accepts what is unproved" in text
