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


@pytest.mark.parametrize("k", ["i", "k0", pytest.param("row", marks=pytest.mark.slow)])
def test_it_is_right_whatever_its_summed_index_is_called(k):
    (spec,) = load_text(product(k))
    kernel = generate(spec, analysis=False)
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed
