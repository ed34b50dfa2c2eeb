"""What the analysis says without a compiler, against machine code: no branch that depends on data where it names none,
no local memory without a verdict, and no memory instruction but those of the accesses.

Named differences: branches of functions and loops may be hoisted to a statement that computes indices alone, or have no
line; spilled registers, and those that a subroutine saves (a division of float64), are local memory of which only a
compiler knows; a branch that tests convergence before a warp collective (`BRA.DIV`) doesn't depend on data."""

from __future__ import annotations

import re

import pytest

from cugen.compiled.kernels import compiled_kernels
from cugen.kernel import Kernel, generate
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compile_ptx, compilers
from tests.fuzz.operators import draw, sizes
from tests.gallery.specs import gallery

from .test_kernels import sizes_of
from .verdict_faults import compiled_for, has_lines, verdict_faults

pytestmark = pytest.mark.skipif(not compilers(), reason="no CUDA compiler on this machine")

DRAWN = 500
PER_BATCH = 10
FIRST_SEED = 200_000

CHOICES = {
    "few instructions": "x[i] + 1 if x[i] > 0 else 2 * w[i]",
    "costly": "exp(x[i]) * w[i] if x[i] > 0 else w[i]",
    "nested": "0.5 if x[i] > 0 else 1.5 if x[i] > 1 else w[i]",
    "short circuit": "x[i] if x[i] > 0 and w[i] < 2 and x[i] + w[i] > 3 else 1",
    "division": "x[i] / w[i] if w[i] > 0 else 0",
}


def kernel_of(value: str, dtype: str, target: str) -> Kernel:
    arrays = "".join(f"  {name}: {{shape: [N], dtype: {dtype}}}\n" for name in "xwy")
    (spec,) = load_text(
        f"cugen: 1\nkernel: k\ntarget: {target}\nparams: {{N: 4096}}\narrays:\n{arrays}compute: y[i] = {value}\n"
    )
    return generate(spec, remarks="none")


@pytest.mark.sampled(20)
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("choice", CHOICES)
def test_no_choice_branches_that_is_called_a_select(choice, dtype, target):
    assert list(verdict_faults(kernel_of(CHOICES[choice], dtype, target), {"N": 4096})) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", gallery())
def test_machine_code_of_the_gallery_has_no_branch_and_no_local_memory_without_a_verdict(name):
    spec = gallery()[name]
    assert list(verdict_faults(generate(spec, remarks="none"), sizes_of(spec))) == []


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(DRAWN // PER_BATCH))
def test_machine_code_of_drawn_kernels_has_no_branch_and_no_local_memory_without_a_verdict(batch):
    found = {}
    for seed in range(FIRST_SEED + batch * PER_BATCH, FIRST_SEED + (batch + 1) * PER_BATCH):
        (spec,) = load_text(draw(seed))
        faults = list(verdict_faults(generate(spec, remarks="none"), sizes_of(spec) | sizes(seed)))
        found |= {seed: faults} if faults else {}
    assert found == {}


def statement_lines(source, line):
    """The lines of a statement up to `line`, with which it ends or goes on."""
    text = source.split("\n")
    first = line
    while text[first - 2].strip() and not re.search(r"[;{}]$|^ *#", text[first - 2]):
        first -= 1
    return set(range(first, line + 1))


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(DRAWN // PER_BATCH))
def test_every_memory_instruction_of_drawn_kernels_is_of_an_access_by_space_and_width(batch):
    for seed in range(FIRST_SEED + batch * PER_BATCH, FIRST_SEED + (batch + 1) * PER_BATCH):
        (spec,) = load_text(draw(seed))
        kernel, values = generate(spec, remarks="none"), sizes_of(spec) | sizes(seed)
        cubin, target = compiled_for(kernel)
        ptx = compile_ptx(kernel.source, kernel.name, target)
        params = {symbol.name: values[name] for name, symbol in kernel.context.symbols.items()}
        if not has_lines(cubin.image, ptx):
            continue
        lines = kernel.access_lines()
        for actual in compiled_kernels(kernel.plan, kernel.spec, lines, cubin.image, ptx, target, params):
            # An address that a called 64-bit division gives is unknown, and instructions of a wrapped access may
            # have its last line: then a line of the statement must do.
            calls = any(i.name == "CALL" for i in actual.program.instructions)
            unexplained = []
            for instruction in actual.unexplained:
                statement = statement_lines(kernel.source, instruction.line)
                if not ((calls or len(statement) > 1) and statement & set(lines.values())):
                    unexplained.append(instruction)
            assert not unexplained, (seed, [(i.opcode, i.line) for i in unexplained])
