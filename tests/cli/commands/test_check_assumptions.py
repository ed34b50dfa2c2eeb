"""Limits are kept only by what is proved: a choice that may branch and an array that may be in local memory fail them,
unless a compiler settles it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cugen.cli.main import main
from cugen.schedule import planner
from cugen.toolchain import cuda

needs_compiler = pytest.mark.skipif(not cuda.compilers(), reason="no CUDA compiler on this machine")

CHOICE = """
cugen: 1
kernel: choose
target: sm_90
params: {N: 4096}
arrays:
  x: {shape: [N], dtype: float32}
  w: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: |
  y[i] = VALUE
check: {mixed_warps: 0}
"""
LOOKUP = """
cugen: 1
kernel: lookup
target: sm_90
params: {N: 4096}
arrays:
  t: {shape: [SIZE], dtype: float32, memory: register, boundary: clamp}
  k: {shape: [4, N], dtype: int32}
  y: {shape: [N], dtype: float32}
compute: y[i] = t[k[0, i]] * t[k[1, i]] + t[k[2, i]] * t[k[3, i]]
check: CHECK
"""
BRANCHED = "exp(x[i]) * w[i] if x[i] > 0 else w[i]"
# Eight instructions: above the bound, and selected by CUDA 13.
SELECTED = "x[i] + 1.5 + w[i] + 2.5 * x[i] + x[i] * x[i] if x[i] > 0 else w[i]"


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any]]:
    """The exit status of `cugen check` and the kernel in its JSON."""

    def run(text: str) -> tuple[int, Any]:
        path = tmp_path / "kernel.yaml"
        path.write_text(text)
        status = main(["check", "--format", "json", str(path)])
        (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
        return status, kernel

    return run


@pytest.fixture
def unrefused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans that the planner refuses: arrays that a spec puts in registers, indexed at run time."""
    monkeypatch.setattr(planner, "moving_subscripts", lambda kernel, request: ())


def codes(kernel: Any) -> list[str]:
    return [finding["code"] for finding in kernel["findings"]]


@pytest.mark.parametrize("value", [BRANCHED, SELECTED])
def test_without_a_compiler_a_choice_that_may_branch_fails_the_limit(check, monkeypatch, value):
    monkeypatch.setattr(cuda, "compilers", lambda: ())
    status, kernel = check(CHOICE.replace("VALUE", value))
    assert (status, codes(kernel)) == (1, ["CG2204"])
    assert "compilers may branch" in kernel["findings"][0]["notes"][0]


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(("value", "expected"), [(BRANCHED, ["CG2204"]), (SELECTED, [])])
def test_a_compiler_settles_whether_a_choice_branches(check, value, expected):
    status, kernel = check(CHOICE.replace("VALUE", value))
    assert (status, codes(kernel)) == (bool(expected), expected)
    if expected:
        assert kernel["findings"][0]["notes"][0] == "as compiled, it branches"


@needs_compiler
@pytest.mark.parametrize("value", [BRANCHED, SELECTED])
def test_generated_files_do_not_depend_on_what_a_compiler_settles(tmp_path, monkeypatch, value):
    path = tmp_path / "kernel.yaml"
    path.write_text(CHOICE.replace("VALUE", value))
    for folder in ("with", "without"):
        assert main(["generate", str(path), "-o", str(tmp_path / folder)]) == 0
        monkeypatch.setattr(cuda, "compilers", lambda: ())
    texts = [{f.name: f.read_text() for f in (tmp_path / folder).iterdir()} for folder in ("with", "without")]
    assert texts[0] == texts[1]


@pytest.mark.slow
@needs_compiler
def test_inspect_says_what_a_compiler_made_of_a_choice(tmp_path, capsys):
    path = tmp_path / "kernel.yaml"
    for value, sentence in ((BRANCHED, "as compiled, it branches"), (SELECTED, "compiled to selects without branches")):
        path.write_text(CHOICE.replace("VALUE", value))
        assert main(["inspect", "--what", "analysis", str(path)]) == 0
        assert sentence in " ".join(capsys.readouterr().out.split())


@pytest.mark.usefixtures("unrefused")
@pytest.mark.parametrize("limit", ["local"])
def test_without_a_compiler_an_array_that_may_be_in_local_memory_fails_the_limit(check, monkeypatch, limit):
    monkeypatch.setattr(cuda, "compilers", lambda: ())
    status, kernel = check(LOOKUP.replace("SIZE", "64").replace("CHECK", f"{{{limit}: 255}}"))
    assert (status, codes(kernel)) == (1, ["CG2204"])
    assert kernel["launches"][0]["local_bytes"] == {"low": 0, "high": 256}
    assert check(LOOKUP.replace("SIZE", "64").replace("CHECK", "{local: 256}"))[0] == 0
    assert check(LOOKUP.replace("SIZE", "64").replace("CHECK", "{local: 0, unknown: allow}"))[0] == 0


@needs_compiler
@pytest.mark.usefixtures("unrefused")
@pytest.mark.parametrize(("limit", "code"), [("local", "CG3204"), ("spills", "CG3202")])
def test_an_array_in_local_memory_exceeds_the_limits_on_it_and_on_spills(check, limit, code):
    status, kernel = check(LOOKUP.replace("SIZE", "64").replace("CHECK", f"{{{limit}: 0}}"))
    assert (status, codes(kernel)) == (1, [code])
    notes = " ".join(kernel["findings"][0]["notes"])
    assert "t_register, 256 bytes, is indexed at run time" in notes
    assert "`t_register[position]`: unknown" in notes
    assert [access["space"] for access in kernel["launches"][0]["accesses"]].count("local") == 5


@needs_compiler
@pytest.mark.usefixtures("unrefused")
def test_an_array_that_a_compiler_keeps_in_registers_keeps_the_limits(check):
    status, kernel = check(LOOKUP.replace("SIZE", "4").replace("CHECK", "{local: 0, spills: 0}"))
    assert (status, codes(kernel)) == (0, [])
    assert "local" not in [access["space"] for access in kernel["launches"][0]["accesses"]]


@needs_compiler
def test_the_range_reduction_of_a_sine_is_local_memory_and_no_spill(check):
    text = CHOICE.replace("VALUE", "sin(x[i]) + w[i]")
    status, kernel = check(text.replace("mixed_warps", "local"))
    assert (status, codes(kernel)) == (1, ["CG3204"])
    assert check(text.replace("mixed_warps", "spills"))[0] == 0
