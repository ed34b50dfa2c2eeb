"""`cugen inspect`: the plan with its reasons, and what compilers make of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cugen.cli.main import main
from cugen.toolchain import cuda, locations

Cli = Callable[..., Any]

PRODUCT = """\
cugen: 1
kernel: product
params: {M: 50, K: 33, N: 40}
arrays:
  A: {shape: [M, K], dtype: float32, memory: shared}
  B: {shape: [K, N], dtype: float32, memory: shared}
  T: {shape: [M, N], dtype: float32, memory: scratch}
  C: {shape: [M, N], dtype: float32}
compute: |
  T[m, n] = sum(A[m, k] * B[k, n], k)
  C[m, n] = sum(T[m, j], j) + T[m, n]
"""


@pytest.fixture
def product(tmp_path: Path) -> Path:
    path = tmp_path / "product.yaml"
    path.write_text(PRODUCT)
    return path


def test_the_plan_says_for_each_launch_what_was_chosen_and_why_not_the_rest(cli: Cli, product: Path) -> None:
    from cugen.families.registry import families

    text = cli("inspect", product).out
    assert "launch 1 of 2: product_T" in text
    assert "launch 2 of 2: product_C" in text
    assert "workspace  T: 2000 elements of float32" in text
    assert "temporary  T is stored in the workspace" in text
    for launch in text.split("\nlaunch ")[1:]:
        named = [line.split()[1].rstrip(":") for line in launch.splitlines() if line.startswith(("  family", "  not"))]
        assert sorted(named) == sorted(family.name for family in families())


def test_the_plan_shows_every_access_under_its_loops(cli: Cli, product: Path) -> None:
    from cugen.kernel import generate
    from cugen.plan.traversal.walking import accesses
    from cugen.spec.load import load

    text = cli("inspect", product).out
    plan = generate(load(product)).plan
    planned = sum(len(list(accesses(kernel.body))) for kernel in plan.kernels)
    shown = [line for line in text.splitlines() if line.lstrip().startswith(("load ", "store "))]
    assert len(shown) == planned > 5
    assert "for (int k" in text
    assert "__syncthreads()" in text


@pytest.mark.slow
def test_without_a_cuda_compiler_the_plan_says_so_and_machine_code_is_status_3(
    cli: Cli, product: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "compilers", lambda: ())
    plan = cli("inspect", product)
    assert plan.status == 0
    assert "compiler   none: a CUDA compiler" in plan.out
    assert not any(line.startswith("  registers ") for line in plan.out.splitlines())
    assert " per thread, no spills" not in plan.out
    for what in ("ptx", "sass"):
        answer = cli("inspect", product, "--what", what)
        assert (answer.status, answer.out) == (3, "")
        assert "pip install" in answer.err
    everything = cli("inspect", product, "--what", "all")
    assert everything.status == 0
    assert everything.out.count("error[CG4002]") == 2


@pytest.mark.skipif(not cuda.compilers(), reason="NO CUDA COMPILER: PTX AND REGISTERS ARE UNTESTED")
def test_with_a_compiler_there_are_registers_and_ptx(cli: Cli, product: Path) -> None:
    assert cli("inspect", product).out.count(" per thread, no spills") == 2
    assert ".entry product_T" in cli("inspect", product, "--what", "ptx").out


@pytest.mark.slow
@pytest.mark.skipif(
    not cuda.compilers() or locations.program("nvdisasm") is None, reason="NO NVDISASM: MACHINE CODE IS UNTESTED"
)
def test_with_a_disassembler_there_is_machine_code(cli: Cli, product: Path) -> None:
    assert "EXIT" in cli("inspect", product, "--what", "sass").out


def test_a_target_that_the_compiler_does_not_know_leaves_the_plan_readable(cli: Cli, product: Path) -> None:
    answer = cli("inspect", product, "--target", "sm_20")
    assert answer.status == 0
    assert "compiler   none: " in answer.out


def test_the_source_is_what_generate_writes(cli: Cli, spec: Path, tmp_path: Path) -> None:
    source = cli("inspect", spec, "--what", "source").out
    assert main(["generate", str(spec), "-o", str(tmp_path), "-q"]) == 0
    assert source == (tmp_path / "scale.cu").read_text()


def test_several_kernels_and_sections_have_headings(cli: Cli, spec: Path) -> None:
    spec.write_text(spec.read_text().replace("N: 40", "N: $n") + "variants: {n: [10, 20]}\n")
    text = cli("inspect", spec, "--what", "source").out
    headings = [line for line in text.splitlines() if line.startswith("====")]
    assert headings == ["==== scale__10: source ====", "==== scale__20: source ===="]


def test_a_reason_of_two_keys_is_printed_once(cli: Cli, spec: Path) -> None:
    spec.write_text(spec.read_text().replace("family: direct", "block: {i: 64}, thread: {i: 1}"))
    lines = cli("inspect", spec).out.split("  not  ")
    for line in lines[1:]:
        reasons = " ".join(line.split()).partition(": ")[2].split("; ")
        assert len(reasons) == len(set(reasons))


@pytest.mark.slow
def test_the_plan_has_a_price_where_the_spec_requests_something(cli: Cli, product: Path) -> None:
    line = next(line for line in cli("inspect", product).out.splitlines() if line.startswith("  price "))
    assert line.split()[1:3] == ["`tiled`,", "`rowwise`:"]
    product.write_text(PRODUCT.replace(", memory: shared", "").replace(", memory: scratch", ""))
    assert "  price " not in cli("inspect", product).out


@pytest.mark.parametrize("what", ["plan", "analysis", "source", "ptx"])
def test_colours_change_no_word_and_are_for_terminals(
    cli: Cli, spec: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    plain = cli("inspect", "--what", what, spec).out
    assert "\033" not in plain
    monkeypatch.setattr("cugen.cli.text.terminal.has_colour", lambda stream: True)
    coloured = cli("inspect", "--what", what, spec).out
    assert coloured.count("\033[0m") > 5
    assert re.sub(r"\033\[[\d;]*m", "", coloured) == plain
