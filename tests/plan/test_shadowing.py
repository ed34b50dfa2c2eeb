"""No name of a kernel is declared in a block whose enclosing block has it: the plan's expressions could mean either."""

from __future__ import annotations

import pytest

from cugen.emit.printer.statements import EmissionError, StatementPrinter, checked
from cugen.kernel import generate
from cugen.plan.nodes import Define, For, If, Index, Loop, Node
from cugen.plan.symbols import integer, symbol
from cugen.plan.traversal.shadowing import shadowing
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

# Names that kernels have for loops and definitions of their own, beside the usual ones of indices.
NAMES = ("i", "j", "t", "u", "v", "p", "r", "c", "g", "w", "e", "k0", "dk", "row", "column", "stage", "lane", "tail")


def define(name: str) -> Node:
    return Define(Index(name, integer(0), (0, 0)))


def loop(name: str, *body: Node) -> Node:
    return For(Loop(Index(name, integer(0), (0, 3)), integer(0), integer(4)), body)


def test_a_name_is_declared_once_in_nested_blocks():
    assert list(shadowing((define("a"), loop("i", define("b")), loop("i", define("b"))))) == []
    assert list(shadowing((define("a"), loop("i", define("a"))))) == ["a"]
    assert list(shadowing((loop("i", loop("i")),))) == ["i"]
    assert list(shadowing((define("a"), If(symbol("a"), (), (define("a"),))))) == ["a"]


def test_such_a_kernel_is_not_printed():
    with pytest.raises(EmissionError, match="i is declared in a block whose enclosing block has a i"):
        checked("", StatementPrinter.__new__(StatementPrinter), (loop("i", loop("i")),), "kernel")


def product(k: str) -> str:
    return f"""
cugen: 1
kernel: named
params: {{M: 70, N: 130, K: 600}}
arrays:
  A: {{shape: [M, K], dtype: float32}}
  B: {{shape: [K, N], dtype: float32}}
  C: {{shape: [M, N], dtype: float32}}
compute: C[m, n] = sum(A[m, {k}] * B[{k}, n], {k})
"""


@pytest.mark.sampled(45)
@pytest.mark.parametrize("k", NAMES)
def test_a_gemm_has_no_such_names_whatever_its_summed_index_is_called(k):
    kernel = generate(load_text(product(k))[0], analysis=False)
    assert [launch.family for launch in kernel.plan.kernels] == ["gemm"]


@pytest.mark.parametrize("k", ["k0", *(pytest.param(name, marks=pytest.mark.slow) for name in ("i", "row"))])
def test_it_is_right_whatever_its_summed_index_is_called(k):
    (spec,) = load_text(product(k))
    kernel = generate(spec, analysis=False)
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "values",
    [
        ("where(j > 3, x[i, j], 1)", "where(i > 2, x[i, j], 2)"),
        ("where(j > 3, x[i, j], 1)", "where(i > 2, x[i, j], 2) + x[i, j]"),
        ("where(x[i, j] > 0, x[i, j - 1], 1)", "where(j > 3, x[i, j - 1], 2)"),
    ],
)
def test_an_element_that_several_conditions_guard_has_a_name_for_each(values):
    statements = "\n".join(f"  y[{n}, j, i] = {value}" for n, value in enumerate(values))
    x, y = "{shape: [M, N], dtype: float16, boundary: clamp}", "{shape: [2, N, M], dtype: float32}"
    text = f"cugen: 1\nkernel: k\nparams: {{M: 6, N: 9}}\narrays:\n  x: {x}\n  y: {y}\ncompute: |\n{statements}\n"
    (spec,) = load_text(text + "schedule: {family: direct}\n")
    kernel = generate(spec, analysis=False)
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed
