"""`cugen inspect --what analysis`: a table of the accesses, the reasons, then the facts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cugen.toolchain import cuda

Cli = Callable[..., Any]

TILED = """\
cugen: 1
kernel: product
params: {N: 100}
arrays:
  A: {shape: [N, N], dtype: float32, memory: shared}
  B: {shape: [N, N], dtype: float32, memory: shared}
  C: {shape: [N, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: 16, n: 16}, step: {k: 16}}
"""

DYNAMIC = """\
cugen: 1
kernel: shift
params: {N: dynamic}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = x[i] + 1
"""

GATHER = """\
cugen: 1
kernel: pick
params: {V: 50, N: 200}
arrays:
  table: {shape: [V], dtype: float32}
  ids: {shape: [N], dtype: int32}
  C: {shape: [N], dtype: float32}
compute: C[i] = table[ids[i]]
"""


def page(cli: Cli, folder: Path, text: str, *words: object) -> str:
    path = folder / "spec.yaml"
    path.write_text(text)
    answer = cli("inspect", path, "--what", "analysis", *words)
    assert (answer.status, answer.err) == (0, "")
    return str(answer.out)


def unwrapped(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "compilers", lambda: ())


def test_each_access_has_a_row_with_numbers_and_its_claim_below(cli: Cli, tmp_path: Path, no_compiler: None) -> None:
    lines = page(cli, tmp_path, TILED).splitlines()
    heading = next(number for number, line in enumerate(lines) if line.split()[:1] == ["access"])
    assert lines[heading].split() == ["access", "warps", "cost", "ideal", "ratio", "verdict"]
    row = next(number for number, line in enumerate(lines) if line.startswith("  load  As[ty][k]"))
    assert lines[row].split() == ["load", "As[ty][k]", "43,904", "43,904", "wavefronts", "43,904", "1.00", "ideal"]
    assert lines[row + 1].startswith("        1 wavefront, ideal 1")
    assert lines[heading + 1].startswith("  load  A[")


def test_the_table_is_followed_by_reasons_and_facts(cli: Cli, tmp_path: Path, no_compiler: None) -> None:
    text = page(cli, tmp_path, TILED)
    positions = [text.index(word) for word in ("access", "As[ty][k]: bank = ", "  launch     256 threads", "roofline")]
    assert positions == sorted(positions)
    assert "350 of 2,744 warps diverge" in text
    assert "registers are unknown" in text
    assert "compiler   none: a CUDA compiler" in text


def test_no_line_is_wider_than_the_page_but_those_of_a_long_access(cli: Cli, tmp_path: Path, no_compiler: None) -> None:
    assert max(map(len, page(cli, tmp_path, TILED).splitlines())) <= 118


def test_an_access_that_depends_on_data_has_no_numbers(cli: Cli, tmp_path: Path, no_compiler: None) -> None:
    text = page(cli, tmp_path, GATHER)
    row = next(line for line in text.splitlines() if line.startswith("  load  table["))
    assert row.split()[-5:] == ["?", "?", "?", "?", "unknown"]


def test_a_dynamic_param_may_be_given_a_value_or_stays_open(cli: Cli, tmp_path: Path, no_compiler: None) -> None:
    open_ = page(cli, tmp_path, DYNAMIC)
    assert "N has no value" in unwrapped(open_)
    row = next(line for line in open_.splitlines() if line.startswith("  load  x["))
    assert row.split()[-5:-1] == ["16", "sectors", "16", "1.00"]
    text = page(cli, tmp_path, DYNAMIC, "--set", "N=4096")
    assert "N has no value" not in unwrapped(text)
    assert "4,096 FLOP in float32" in text


def test_a_target_of_the_call_is_the_one_analysed(cli: Cli, tmp_path: Path, no_compiler: None) -> None:
    assert "product on sm_80" in page(cli, tmp_path, TILED, "--target", "sm_80")
    assert "A100 (default device of sm_80)" in unwrapped(page(cli, tmp_path, TILED, "--target", "sm_80"))


@pytest.mark.parametrize("name", ["H100", "NVIDIA H100"])
def test_a_device_of_the_call_is_the_one_analysed(cli: Cli, tmp_path: Path, no_compiler: None, name: str) -> None:
    text = unwrapped(page(cli, tmp_path, TILED, "--device-name", name))
    assert "H100 peaks at" in text
    assert "H200" not in text


@pytest.mark.parametrize(("name", "said"), [("H101", "known are"), ("A100", "give `--target sm_80`")])
def test_a_device_that_is_unknown_or_of_another_target_is_refused(
    cli: Cli, tmp_path: Path, no_compiler: None, name: str, said: str
) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(TILED)
    answer = cli("inspect", path, "--what", "analysis", "--device-name", name)
    assert (answer.status, answer.out) == (2, "")
    assert said in answer.err


def test_the_analysis_is_among_all_sections(cli: Cli, tmp_path: Path, no_compiler: None) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(TILED)
    answer = cli("inspect", path, "--what", "all")
    headings = [line for line in answer.out.splitlines() if line.startswith("====")]
    assert headings == [f"==== product: {what} ====" for what in ("plan", "analysis", "source", "ptx", "sass")]


@pytest.mark.skipif(not cuda.compilers(), reason="NO CUDA COMPILER: REGISTERS ARE UNTESTED")
def test_with_a_compiler_registers_and_spills_are_printed(cli: Cli, tmp_path: Path) -> None:
    text = page(cli, tmp_path, TILED)
    assert " per thread, no spills, as compiled" in text
    assert "registers are unknown" not in text
