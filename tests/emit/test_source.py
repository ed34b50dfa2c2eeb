"""The text of a .cu holds every access of its plan once and none besides, whatever a template does."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import jinja2
import pytest

import cugen.emit.environment
from cugen.emit.environment import template_folder
from cugen.emit.source import EmissionError, render
from cugen.plan.remarks import Remarks
from cugen.schedule.planner import make_plan
from cugen.schedule.splitting import plan_context
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
BODY = "macros/body.cu.j2"


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


@pytest.mark.parametrize("kind", ["load", "store", "copy"])
def test_a_template_that_drops_an_access_is_caught(planned, templates, kind):
    edit(templates / BODY, "{{ node | " + kind + " }};", "")
    with pytest.raises(EmissionError, match="product: planned"):
        render(*planned(MATMUL))


@pytest.mark.parametrize("kind", ["load", "store", "copy"])
def test_a_template_that_repeats_an_access_is_caught(planned, templates, kind):
    edit(templates / BODY, "{{ node | " + kind + " }};", "{{ node | " + kind + " }}; {{ node | " + kind + " }};")
    with pytest.raises(EmissionError, match="product: planned"):
        render(*planned(MATMUL))


def test_a_template_that_drops_one_access_and_repeats_another_is_caught(planned, templates):
    edit(templates / BODY, "{{ node | store }};", "")
    edit(templates / BODY, "{{ node | load }};", "{{ node | load }}; {{ node | load }};")
    with pytest.raises(EmissionError, match=r"\['C'\]"):
        render(*planned(MATMUL))


@pytest.mark.parametrize("access", ["C[0] = 1.0f;", "sum += As[ty][0];"])
def test_a_template_with_a_subscript_of_its_own_is_caught(planned, templates, access):
    edit(templates / "tiled.cu.j2", "{{ body(parts.walk)", access + "\n{{ body(parts.walk)")
    with pytest.raises(EmissionError, match="is subscripted"):
        render(*planned(MATMUL))


def test_a_whole_part_left_out_is_caught(planned, templates):
    edit(templates / "tiled.cu.j2", "{{ body(parts.results) | indent(4, first=true) -}}", "")
    with pytest.raises(EmissionError):
        render(*planned(MATMUL))


def test_a_subscript_in_a_comment_is_no_access(planned, templates):
    edit(
        templates / "tiled.cu.j2", "{{ body(parts.walk)", "    // C[0] and As[1][2] are read later\n{{ body(parts.walk)"
    )
    render(*planned(MATMUL))


def test_a_misspelt_name_in_a_template_is_an_error(planned, templates):
    edit(templates / "tiled.cu.j2", "parts.walk", "parts.wolk")
    with pytest.raises(jinja2.UndefinedError):
        render(*planned(MATMUL))


# What stands in the file


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


def test_a_remark_stands_before_its_access_and_a_summary_in_the_head(planned):
    context, plan = planned(MATMUL)
    (store,) = [node.access for node in plan.kernels[0].body if hasattr(node, "access")][-1:]
    source = render(context, plan, Remarks({store.serial: "coalesced"}, ("all is well",))).source
    lines = source.splitlines()
    place = lines.index("    // C[i * N + j]: coalesced")
    assert lines[place + 1].lstrip().startswith("C[")
    assert any(line.startswith("//") and "all is well" in line for line in lines[:12])


def test_the_same_plan_gives_the_same_text(planned):
    context, plan = planned(MATMUL)
    assert render(context, plan) == render(context, plan)
    assert render(context, plan) == render(*planned(MATMUL))


def test_an_array_may_be_called_as_the_elements_of_vectors_are(planned):
    text = "cugen: 1\nkernel: k\narrays:\n  at: {shape: [64], dtype: float32}\n  y: {shape: [64], dtype: float32}\n"
    context, plan = planned(text + "compute: y[i] = 2 * at[i]\n")
    assert ".data[v]" in render(context, plan).source
