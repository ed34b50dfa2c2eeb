"""The text of a .cu has every access of its plan once and no others, whatever a template or a printer does."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import ClassVar

import jinja2
import pytest

import cugen.emit.environment
from cugen.emit.environment import environment, template_folder
from cugen.emit.layout import tidy
from cugen.emit.printer.statements import EmissionError, StatementPrinter
from cugen.emit.provenance import provenance
from cugen.emit.source import Sources, render, render_raw
from cugen.plan import nodes
from cugen.plan.context import Context
from cugen.plan.kernel import Plan
from cugen.plan.nodes import Node
from cugen.plan.remarks import Remarks
from cugen.schedule.planner import make_plan
from cugen.schedule.splitting.context import plan_context
from cugen.spec.load import load_text

MATMUL = """
cugen: 1
kernel: product
params: {M: 40, K: 20, N: 30}
arrays:
  A: {shape: [M, K], dtype: float32, memory: shared}
  B: {shape: [K, N], dtype: float32, memory: global}
  C: {shape: [M, N], dtype: float32}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
"""


@pytest.fixture
def planned():
    def make(text):
        (spec,) = load_text(text)
        return plan_context(spec), make_plan(spec)

    return make


@pytest.fixture
def templates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the templates that generation uses for this test."""
    folder = tmp_path / "templates"
    shutil.copytree(template_folder(), folder)
    monkeypatch.setattr(cugen.emit.environment, "template_folder", lambda: folder)
    return folder


class FaultyPrinter(StatementPrinter):
    """Prints each statement of a kind as many times as `times` says; a missing kind is printed once."""

    times: ClassVar[dict[type[Node], int]] = {}

    def _statement(self, node: Node) -> tuple[str, ...]:
        statement = super()._statement
        return tuple(line for _ in range(self.times.get(type(node), 1)) for line in statement(node))


def faulty(**times: int) -> type[StatementPrinter]:
    return type(
        "FaultyPrinter", (FaultyPrinter,), {"times": {getattr(nodes, name): count for name, count in times.items()}}
    )


def render_with(printer: type[StatementPrinter], context: Context, plan: Plan) -> Sources:
    return render_raw(environment(), context, plan, Remarks(), statements=printer)


def section_lines(template: str) -> list[int]:
    """The lines of a template that print a section, from 0."""
    lines = (template_folder() / template).read_text().splitlines()
    return [number for number, line in enumerate(lines) if re.fullmatch(r"\s*\{\{ (body|barrier)\(.*\) \}\}", line)]


def edit_line(path: Path, number: int, edited: str) -> None:
    """Replaces a line of a template; `{line}` in the new text is the old one."""
    lines = path.read_text().splitlines()
    lines[number] = edited.replace("{line}", lines[number])
    path.write_text("\n".join(lines) + "\n")


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_the_copied_templates_give_the_same(planned, templates):
    context, plan = planned(MATMUL)
    with_copy = render(context, plan)
    shutil.rmtree(templates)
    with pytest.raises(jinja2.TemplateNotFound):
        render(context, plan)
    assert "C[i * N + j]" in with_copy.source


def test_a_printer_that_prints_each_statement_once_gives_the_same(planned):
    context, plan = planned(MATMUL)
    assert tidy(render_with(faulty(), context, plan).source) == render(context, plan).source


@pytest.mark.parametrize("kind", ["Load", "Store", "Copy"])
def test_a_printer_that_drops_an_access_is_caught(planned, kind):
    with pytest.raises(EmissionError, match="product: planned"):
        render_with(faulty(**{kind: 0}), *planned(MATMUL))


@pytest.mark.parametrize("kind", ["Load", "Store", "Copy"])
def test_a_printer_that_repeats_an_access_is_caught(planned, kind):
    with pytest.raises(EmissionError, match="product: planned"):
        render_with(faulty(**{kind: 2}), *planned(MATMUL))


def test_a_printer_that_drops_one_access_and_repeats_another_is_caught(planned):
    with pytest.raises(EmissionError, match=r"\['C'\]"):
        render_with(faulty(Store=0, Load=2), *planned(MATMUL))


@pytest.mark.parametrize("edited", ["", "{line}\n{line}"], ids=["dropped", "repeated"])
def test_a_template_that_drops_or_repeats_a_section_is_caught(planned, templates, edited):
    context, plan = planned(MATMUL)
    printed = {mark.split(" ")[0] for mark in provenance(context, plan).values()}
    numbers = [n for n in section_lines("tiled.cu.j2") if f"templates/tiled.cu.j2:{n + 1}" in printed]
    assert len(numbers) >= 4
    text = (templates / "tiled.cu.j2").read_text()
    for number in numbers:
        edit_line(templates / "tiled.cu.j2", number, edited)
        with pytest.raises(EmissionError, match="product: the template"):
            render(context, plan)
        (templates / "tiled.cu.j2").write_text(text)


@pytest.mark.parametrize("access", ["C[0] = 1.0f;", "sum += As[ty][0];"])
def test_a_template_with_a_subscript_of_its_own_is_caught(planned, templates, access):
    edit_line(templates / "tiled.cu.j2", section_lines("tiled.cu.j2")[-1], access + "\n{line}")
    with pytest.raises(EmissionError, match="is subscripted"):
        render(*planned(MATMUL))


def test_a_subscript_in_a_comment_is_no_access(planned, templates):
    comment = "    // C[0] and As[1][2] are read later"
    edit_line(templates / "tiled.cu.j2", section_lines("tiled.cu.j2")[-1], comment + "\n{line}")
    assert comment in render(*planned(MATMUL)).source


@pytest.mark.parametrize("name", ["parts.tiles", "body("])
def test_a_misspelt_name_in_a_template_is_an_error(planned, templates, name):
    edit(templates / "tiled.cu.j2", name, name.replace("t", "d").replace("b", "d"))
    with pytest.raises(EmissionError, match="product: "):
        render(*planned(MATMUL))


# What the file has


def test_only_what_is_written_is_not_const(planned):
    source = render(*planned(MATMUL)).source
    assert "const float* __restrict__ A," in source
    assert "    float* __restrict__ C)" in source


def test_an_array_that_is_read_and_written_is_not_const(planned):
    text = "cugen: 1\nkernel: k\narrays: {X: {shape: [8], dtype: float32}}\ncompute: X[i] += 1\n"
    assert "    float* __restrict__ X)" in render(*planned(text)).source


def test_fixed_params_are_constants_where_they_are_used(planned):
    source = render(*planned(MATMUL)).source
    kernel, launcher = source.split("#if defined(__CUDACC__)")
    assert re.findall(r"constexpr int (\w+) = (\d+);", kernel) == [("M", "40"), ("K", "20"), ("N", "30")]
    assert "constexpr" not in launcher


def test_headers_are_included_where_a_type_needs_them(planned):
    text = MATMUL.replace("B: {shape: [K, N], dtype: float32", "B: {shape: [K, N], dtype: bfloat16")
    assert "#include" not in render(*planned(MATMUL)).source.split("#if defined")[0]
    sources = render(*planned(text))
    assert re.findall(r"#include <(.*)>", sources.source) == ["cuda_bf16.h", "cuda_runtime.h"]
    assert re.findall(r"#include <(cuda.*)>", sources.header) == ["cuda_runtime_api.h", "cuda_bf16.h"]


def test_a_remark_precedes_its_access_and_a_summary_is_in_the_head(planned):
    context, plan = planned(MATMUL)
    (store,) = [node.access for node in plan.kernels[0].body if hasattr(node, "access")][-1:]
    source = render(context, plan, Remarks({store.serial: "coalesced"}, ("all is well",))).source
    lines = source.splitlines()
    remark = lines.index("    // C[i * N + j]: coalesced")
    assert lines[remark + 1].lstrip().startswith("C[")
    assert any(line.startswith("//") and "all is well" in line for line in lines[:12])


def test_a_listed_remark_is_in_the_head_with_its_access_as_printed(planned):
    context, plan = planned(MATMUL)
    (store,) = [node.access for node in plan.kernels[0].body if hasattr(node, "access")][-1:]
    head, *_ = render(context, plan, Remarks(listed={store.serial: "coalesced"})).source.split("constexpr")
    assert head.endswith("//\n// Ideal accesses, without a remark in the code:\n//   C[i * N + j]  coalesced\n\n")
    assert "coalesced" not in render(context, plan, Remarks(listed={store.serial: "coalesced"})).header


def test_the_same_plan_gives_the_same_text(planned):
    context, plan = planned(MATMUL)
    assert render(context, plan) == render(context, plan)
    assert render(context, plan) == render(*planned(MATMUL))


def test_an_array_may_be_called_as_the_elements_of_vectors_are(planned):
    text = "cugen: 1\nkernel: k\narrays:\n  at: {shape: [64], dtype: float32}\n  y: {shape: [64], dtype: float32}\n"
    context, plan = planned(text + "compute: y[i] = 2 * at[i]\n")
    assert ".data[v]" in render(context, plan).source


def test_a_param_that_only_the_launcher_uses_is_no_constant_of_the_kernel():
    text = """
cugen: 1
kernel: conv
target: sm_90a
params: {N: 4, H: 9, W: 9, C: 40, F: 64}
arrays:
  x: {shape: [N, H, W, C], dtype: bfloat16, boundary: zero}
  w: {shape: [F, 3, 3, C], dtype: bfloat16}
  y: {shape: [N, H, W, F], dtype: bfloat16}
compute: y[n, i, j, f] = sum(x[n, i + r - 1, j + s - 1, c] * w[f, r, s, c], r, s, c)
schedule: {family: wgmma}
"""
    (spec,) = load_text(text)
    source = render(plan_context(spec), make_plan(spec), Remarks({})).source
    kernel, launcher = source.split("#include <cuda_runtime.h>")
    assert "constexpr int C = 40;" not in kernel  # nor is the word in `extern "C"`
    assert "constexpr int C = 40;" in launcher


@pytest.mark.slow
def test_all_kernels_align_their_dynamic_shared_memory_equally():
    (spec,) = load_text("""
cugen: 1
kernel: gated
target: sm_90a
params: {T: 512, K: 768, D: 3072}
arrays:
  x: {shape: [T, K], dtype: bfloat16}
  w: {shape: [K, 2 * D], dtype: bfloat16}
  y: {shape: [T, D], dtype: bfloat16}
indices: {d: D}
compute: y[t, d] = gelu(sum(x[t, k] * w[k, d], k)) * sum(x[t, k] * w[k, D + d], k)
""")
    plan = make_plan(spec)
    planned = {kernel.dynamic_shared_alignment for kernel in plan.kernels if kernel.dynamic_shared_bytes}
    declared = re.findall(r"extern __shared__ __align__\((\d+)\)", render(plan_context(spec), plan).source)
    assert len(planned) == 2
    assert len(declared) > 1
    assert set(declared) == {str(max(planned))}
