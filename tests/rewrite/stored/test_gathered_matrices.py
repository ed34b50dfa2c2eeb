"""Products with a matrix that each row gathers: all of them by a GEMM, of which each row takes its own."""

from __future__ import annotations

import pytest

import cugen.schedule.splitting.taken_form as taken_form
from cugen.kernel import Kernel, generate
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_text

EXPERTS = """
cugen: 1
kernel: experts
target: {target}
params: {{M: {m}, N: {n}, K: {k}, E: {experts}}}
arrays:
  x: {{shape: [M, K], dtype: {dtype}}}
  w: {{shape: [{w}], dtype: {dtype}}}
  b: {{shape: [E, N], dtype: float32}}
  e: {{shape: [M], dtype: int32}}
  f: {{shape: [M, 2], dtype: int32}}
  g: {{shape: [M, 2], dtype: float32}}
  r: {{shape: [M, E], dtype: float32}}
  y: {{shape: [M, N], dtype: {result}}}
compute: |
{statements}
"""
FORMS = {
    "a matrix for each row": "y[m, n] = sum(x[m, k] * w[e[m], k, n], k)",
    "of transposed matrices": "y[m, n] = sum(x[m, k] * w[e[m], n, k], k)",
    "with the gathered dimension inside": "y[m, n] = sum(x[m, k] * w[k, e[m], n], k)",
    "with a bias of the matrix": "y[m, n] = relu(sum(x[m, k] * w[e[m], k, n], k) + b[e[m], n])",
    "of two matrices for each row": "y[m, n] = sum(g[m, j] * sum(x[m, k] * w[f[m, j], k, n], k), j)",
    "of two in one sum": "y[m, n] = sum(g[m, j] * x[m, k] * w[f[m, j], k, n], j, k)",
    "of the likeliest matrix": "c[m] = argmax(r[m, i], i)\ny[m, n] = sum(x[m, k] * w[c[m], k, n], k)",
}
SHAPES = {"of transposed matrices": "E, N, K", "with the gathered dimension inside": "K, E, N"}


def experts(
    form: str, m: int = 4096, n: int = 4096, k: int = 4096, count: int = 8, target: str = "sm_90a", **types: str
) -> str:
    """A spec of a form, with the arrays that it reads."""
    statements = FORMS[form]
    lines = EXPERTS.format(
        statements="\n".join(f"  {line}" for line in statements.splitlines()),
        w=SHAPES.get(form, "E, K, N"),
        **{"dtype": "bfloat16", "result": "bfloat16"} | types,
        m=m,
        n=n,
        k=k,
        experts=count,
        target=target,
    ).splitlines()
    return "\n".join(line for line in lines if line[3:5] != ": " or f"{line[2]}[" in statements)


def families(text: str) -> list[str]:
    (spec,) = load_text(text)
    return [kernel.family for kernel in make_plan(spec).kernels]


def kernel_of(text: str) -> Kernel:
    (spec,) = load_text(text)
    return generate(spec, analysis=False)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", FORMS)
def test_products_with_all_matrices_are_a_batched_gemm(form: str) -> None:
    assert "wgmma" in families(experts(form))
    assert "gemm" in families(experts(form, target="sm_80", dtype="float16"))


def test_products_of_two_matrices_for_each_row_are_stored_once() -> None:
    assert families(experts("of two matrices for each row")).count("wgmma") == 1


def test_results_that_are_nothing_else_are_stored_in_their_type() -> None:
    (spec,) = load_text(experts("a matrix for each row"))
    (stored,) = make_plan(spec).workspace
    assert stored.dtype.name == "bfloat16"


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param({"m": 16}, id="few rows, which gather fewer bytes than all matrices have"),
        pytest.param({"count": 4096, "n": 64, "k": 64}, id="as many matrices as rows"),
        pytest.param({"m": 64, "n": 64, "k": 64}, id="few terms"),
        pytest.param({"m": 1 << 17, "k": 256}, id="more products than are stored"),
    ],
)
def test_rows_read_the_matrix_that_they_gather_where_it_takes_less_time(sizes: dict[str, int]) -> None:
    assert families(experts("a matrix for each row", **sizes)) == ["reduce"]


def test_gathered_rows_and_columns_are_copied_for_one_gemm() -> None:
    rows = experts("a matrix for each row").replace("x[m, k] * w[e[m], k, n]", "w[0, e[m], k] * x[n, k]")
    assert families(rows) == ["map", "wgmma"]


@pytest.mark.sampled(11)
@pytest.mark.parametrize("types", [("float16", "float16"), ("float32", "float32"), ("int8", "int32")], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_each_row_takes_the_product_with_its_own_matrix(monkeypatch, form: str, types: tuple[str, str]) -> None:
    dtype, result = types
    if "g[" in FORMS[form] or "b[" in FORMS[form]:
        result = "float32"
    monkeypatch.setattr(taken_form, "pays_for_all_matrices", lambda *_: True)
    kernel = kernel_of(experts(form, 37, 40, 24, 3, dtype=dtype, result=result))
    assert any("_of_all" in statement for part in kernel.plan.kernels for statement in part.computes)
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(workers=1))
    assert run.verification.passed, "\n".join(run.verification.messages) + kernel.source
