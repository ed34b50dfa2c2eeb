"""What is said of texture fetches: the sectors of loads where that is measured, assumed or unknown elsewhere."""

from __future__ import annotations

import re

import pytest

from cugen.analysis.verdicts.report import AccessReport, analyze_kernel
from cugen.kernel import generate
from cugen.kernel_report import analyze
from cugen.spec.load import load_text


def fetches(target: str, memory: str = "texture", offset: str = "") -> tuple[AccessReport, ...]:
    (spec,) = load_text(f"""
cugen: 1
kernel: k
target: {target}
params: {{N: 4096}}
arrays:
  x: {{shape: [N], dtype: float32, memory: {memory}, boundary: zero}}
  y: {{shape: [N], dtype: float32}}
compute: y[i] = x[i{offset}]
schedule: {{family: direct}}
""")
    (kernel,) = generate(spec, analysis=False).plan.kernels
    return tuple(a for a in analyze_kernel(kernel, target, {"N": 4096}).accesses if a.access.array.name == "x")


@pytest.mark.parametrize("offset", ["", " + 1", " - 8", " - 1"])
def test_a_fetch_costs_the_sectors_of_a_load_with_its_guard(offset: str) -> None:
    (fetch,), (load,) = fetches("sm_90", offset=offset), fetches("sm_90", "readonly", offset)
    assert fetch.text == load.text.replace("x[", "tex1Dfetch<float>(x_texture, ").replace("]", ")")
    assert (fetch.space, fetch.verdict, fetch.totals) == (load.space, load.verdict, load.totals)


def test_where_it_was_not_measured_the_rule_is_assumed() -> None:
    (fetch,) = fetches("sm_80")
    assert fetch.verdict == "assumed"
    assert fetch.doubt == "a texture fetch moves the sectors that a load moves"
    assert fetch.cost == fetches("sm_90")[0].cost


def test_the_separate_texture_cache_of_old_targets_is_unknown() -> None:
    (fetch,) = fetches("sm_37")
    assert fetch.verdict == "unknown"
    assert fetch.doubt == "the texture cache of sm_37 is not modelled"


@pytest.mark.parametrize(("memory", "tests"), [("texture", 0), ("readonly", 2)])
def test_a_fetch_that_tests_its_bounds_is_no_branch(memory: str, tests: int) -> None:
    (spec,) = load_text(f"""
cugen: 1
kernel: k
params: {{N: 1000}}
arrays:
  x: {{shape: [N], dtype: float32, memory: {memory}, boundary: zero}}
  y: {{shape: [N], dtype: float32}}
compute: y[i] = x[i - 1] + x[i + 1]
schedule: {{family: direct}}
""")
    (launch,) = analyze(generate(spec)).kernels
    assert len([branch for branch in launch.facts.branches if branch.kind == "load"]) == tests


def texture_2d(boundary: str, params: str = "H: 64, W: 96"):
    (spec,) = load_text(f"""
cugen: 1
kernel: k
params: {{{params}}}
arrays:
  x: {{shape: [H, W], dtype: float32, memory: {{space: texture, dims: 2}}, pitch: {{align: 32}}, boundary: {boundary}}}
  y: {{shape: [H, W], dtype: float32}}
compute: y[i, j] = x[i - 1, j]
schedule: {{family: direct}}
""")
    return generate(spec)


@pytest.mark.parametrize("target", ["sm_37", "sm_80", "sm_90"])
@pytest.mark.parametrize("boundary", ["zero", "clamp", "wrap", "reflect", "symmetric"])
def test_what_a_2d_fetch_moves_is_unknown(boundary: str, target: str) -> None:
    (kernel,) = texture_2d(boundary).plan.kernels
    (fetch,) = (a for a in analyze_kernel(kernel, target, {"H": 64, "W": 96}).accesses if a.access.array.name == "x")
    assert (fetch.verdict, fetch.cost, fetch.totals) == ("unknown", 0, None)
    assert fetch.doubt == "the sectors of 2-D texture fetches are not modelled"


def test_the_report_names_a_2d_fetch_as_the_source_does() -> None:
    kernel = texture_2d("wrap")
    (launch,) = analyze(kernel).kernels
    (fetch,) = (a for a in launch.accesses if a.access.array.name == "x")
    assert fetch.text == "tex2D<float>(x_texture, (j + 0.5f) * (1.0f / W), (i - 1 + 0.5f) * (1.0f / H))"
    assert f"= {fetch.text};" in kernel.source


def test_a_remark_on_a_fetch_leaves_out_the_call_that_follows_it() -> None:
    remark, statement = re.findall(r"(// x_texture: .*)\n(?: *//.*\n)* *(.*tex2D.*)", texture_2d("wrap").source)[0]
    assert remark.startswith("// x_texture: unknown: the sectors of 2-D")
    assert statement.startswith("const float ")


def test_a_2d_fetch_of_dynamic_sizes_is_unknown_too() -> None:
    (launch,) = analyze(texture_2d("clamp", "H: dynamic, W: dynamic")).kernels
    assert [a.verdict for a in launch.accesses if a.access.array.name == "x"] == ["unknown"]


@pytest.mark.parametrize(("boundary", "tests"), [("zero", 0), ("symmetric", 0), ("{value: 1}", 1)])
def test_a_boundary_by_the_hardware_is_no_branch(boundary: str, tests: int) -> None:
    (launch,) = analyze(texture_2d(boundary)).kernels
    assert len([branch for branch in launch.facts.branches if branch.kind == "load"]) == tests
