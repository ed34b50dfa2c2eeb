"""What a loop reads is in bounds, whichever condition round it chooses what is computed of it."""

from __future__ import annotations

from itertools import product

import pytest

from cugen.kernel import generate
from cugen.rewrite.canonical.expressions import with_canonical_expressions
from cugen.rewrite.canonical.guarded_reads import with_boundaries_of_guarded_reads
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.inputs import draw, known_params
from cugen.runtime.verify import verify
from cugen.spec.expressions import Read, walk
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from tests.fuzz.bounds import bounds_faults

LOOPS = (
    "sum(x[{row}, k], k)",
    "max(x[{row}, k], k)",
    "argmin(x[{row}, k], k)",
    "sum(x[{row}, k] * x[i, k], k)",
    "sum(x[{row}, k] * w[k, j], k)",
    "cumsum(x[{row}, j], j)",
    "softmax(x[{row}, j], j)",
    "sum(x[{row}, k]**2, k) / sum(x[i, k], k)",
    "sum(max(x[{row}, 4 * p + q], q), p)",
)
CONDITIONS = (
    ("i - 10", "where(i - 10 >= 0, {value}, 1)"),
    ("i - j", "{value} if j <= i else 0"),
    ("i + 5", "0 if i + 5 >= N else {value}"),
    ("i - j", "where(i < j, 0, where(x[i, j] > 0, {value}, 2))"),
    ("2 * i", "where(inside(x[2 * i, 0]), {value}, -1)"),
)


def spec_of(value: str, dtype: str = "float32", rows: int = 70, columns: int = 64) -> Spec:
    arrays = {"x": "[N, K]", "w": "[K, K]", "y": "[N, K]"}
    used = "".join(
        f"  {name}: {{shape: {shape}, dtype: {dtype}}}\n"
        for name, shape in arrays.items()
        if f"{name}[" in f"y[{value}"
    )
    indices = "indices: {p: 16, q: 4}\n" if "4 * p" in value else ""
    text = f"cugen: 1\nkernel: chosen\nparams: {{N: {rows}, K: {columns}}}\narrays:\n{used}{indices}"
    text += f"compute: y[i, j] = {value}\n"
    (spec,) = load_text(text)
    return spec


def value(loop: str, condition: tuple[str, str]) -> str:
    row, text = condition
    return text.format(value=loop.format(row=row))


ALL = [
    value(loop, condition)
    for loop, condition in product(LOOPS, CONDITIONS)
    if "softmax" not in loop or "j" not in condition[0]  # which has another j
]


def ids(text: str) -> str:
    return text.replace(" ", "")


@pytest.mark.sampled(40)
@pytest.mark.parametrize("text", ALL, ids=ids)
def test_every_access_of_the_plan_is_inside(text: str) -> None:
    for dtype in ("float32", "float16"):
        assert list(bounds_faults(generate(spec_of(text, dtype), remarks="none"), {})) == []


@pytest.mark.parametrize("text", ALL, ids=ids)
@pytest.mark.sampled(60)
def test_results_are_right(text: str) -> None:
    kernel = generate(spec_of(text), remarks="none")
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True))
    assert run.verification.passed, run.verification.messages


@pytest.mark.parametrize("value", ["where(i + 2 < N, x[i + 2, j], 0)", "x[i - 3, j] if i >= 3 else x[i, j]"])
@pytest.mark.parametrize("before", [True, False])
def test_elements_that_are_computed_with_rows_are_inside(value: str, before: bool) -> None:
    row = "m[i] = max({0}[i, k], k)"
    lines = (f"y[i, j] = {value}", row.format("y")) if before else (row.format("x"), f"y[i, j] = ({value}) - m[i]")
    (spec,) = load_text(
        "cugen: 1\nkernel: rows\nparams: {N: 70, K: 64}\narrays:\n  x: {shape: [N, K], dtype: float32}\n"
        "  m: {shape: [N], dtype: float32}\n  y: {shape: [N, K], dtype: float32}\n"
        "compute: |\n" + "".join(f"  {line}\n" for line in lines)
    )
    assert list(bounds_faults(generate(spec, remarks="none"), {})) == []


def boundaries(text: str) -> list[bool]:
    changed = with_boundaries_of_guarded_reads(with_canonical_expressions(spec_of(text)))
    (statement,) = changed.statements
    return [node.boundary is not None for node in walk(statement.value) if isinstance(node, Read)]


@pytest.mark.parametrize(
    "text",
    [
        "sum(where(k <= i, x[i - k, k], 0), k)",  # a condition on its own index bounds the loop
        "where(i >= 10, x[i - 10, j], 0)",  # no loop in the spec
        "where(i < N - 1, sum(x[i, k], k), 0)",  # inside anyway
        "cumsum(x[i, j], j)",
    ],
)
def test_reads_that_need_no_boundary_have_none(text: str) -> None:
    assert not any(boundaries(text))


GATHERED = """
cugen: 1
kernel: rows
params: {{N: 70, K: 64}}
arrays:
  x: {{shape: [N, K], dtype: float32}}
  t: {{shape: [N], dtype: int32}}
  y: {{shape: [N], dtype: float32}}
compute: y[i] = {value}
"""


@pytest.mark.parametrize(
    ("value", "has_boundaries"),
    [
        ("silu(sum(x[t[i], k], k))", False),  # of which one branch is a function of what the condition reads
        ("sum(x[t[i], k], k) if x[t[i], 0] > 0 else 0", True),
    ],
)
def test_a_condition_keeps_in_bounds_what_it_does_not_read_itself(value: str, has_boundaries: bool) -> None:
    (spec,) = load_text(GATHERED.format(value=value))
    changed = with_boundaries_of_guarded_reads(with_canonical_expressions(spec))
    reads = [node for s in changed.statements for node in walk(s.value) if isinstance(node, Read)]
    assert any(read.boundary is not None for read in reads) == has_boundaries


def test_only_the_read_that_the_condition_keeps_inside_has_a_boundary() -> None:
    assert boundaries("where(i >= 10, sum(x[i - 10, k] * x[i, k], k), 0)") == [True, False]
    assert boundaries("sum(where(i >= 10, x[i - 10, k] * x[i, k], 0), k)") == [True, False]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("loop", [loop for loop in LOOPS if "x[i" not in loop])
def test_an_index_of_minus_one_that_a_condition_excludes_is_no_subscript(loop: str) -> None:
    """As the padding of a batch is marked."""
    rows, columns = 70, 64
    value = loop.format(row="t[i]")
    text = (
        f"cugen: 1\nkernel: padded\nparams: {{N: {rows}, K: {columns}}}\narrays:\n"
        "  t: {shape: [N], dtype: int32}\n  x: {shape: [N, K], dtype: float32}\n  y: {shape: [N, K], dtype: float32}\n"
        + ("  w: {shape: [K, K], dtype: float32}\n" if "w[" in value else "")
        + ("indices: {p: 16, q: 4}\n" if "4 * p" in value else "")
        + f"compute: y[i, j] = where(t[i] >= 0, {value}, 1)\n"
    )
    (spec,) = load_text(text)
    kernel = generate(spec, remarks="none")
    inputs = draw(spec, known_params(spec, {}), 0)
    inputs.arrays["t"][::3] = -1  # in place of what is drawn, which is in bounds
    run = verify(spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True), inputs=inputs)
    assert run.verification.passed, run.verification.messages


@pytest.mark.covering
@pytest.mark.parametrize("entries", [24, 300])
@pytest.mark.parametrize("loop", ["sum(where({0} >= 0, x[{0}, j], 0), l)", "max(where({0} >= 0, x[{0}, j], -inf), l)"])
def test_an_index_of_minus_one_that_a_loop_leaves_out_is_no_subscript(loop: str, entries: int) -> None:
    """As the padding of a bag of embeddings is marked."""
    (spec,) = load_text(
        f"cugen: 1\nkernel: bag\nparams: {{N: 9, K: 64, L: {entries}}}\narrays:\n"
        "  u: {shape: [N, L], dtype: int32}\n  x: {shape: [100, K], dtype: float32}\n"
        f"  y: {{shape: [N, K], dtype: float32}}\ncompute: y[i, j] = {loop.format('u[i, l]')}\n"
    )
    kernel = generate(spec, remarks="none")
    inputs = draw(spec, known_params(spec, {}), 0)
    inputs.arrays["u"][:, ::3] = -1
    run = verify(spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True), inputs=inputs)
    assert run.verification.passed, run.verification.messages
