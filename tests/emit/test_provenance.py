"""Each line of a .cu can be traced to the template line and the spec key that made it."""

import re

import pytest

from cugen.kernel import generate
from cugen.plan.nodes import Copy
from cugen.plan.traversal.walking import accesses, walk_nodes
from cugen.spec.load import load_text
from cugen.toolchain.errors import CompileError
from cugen.toolchain.failure import explain_failure

SPEC = """
cugen: 1
kernel: product
params: {N: 40}
arrays:
  A: {shape: [N, N], dtype: float32, memory: shared}
  B: {shape: [N, N], dtype: float32, memory: shared}
  C: {shape: [N, N], dtype: float32}
compute: C[i, j] = sum(A[i, k] * B[k, j], k)
"""


def line_of(source: str, text: str) -> int:
    return next(n for n, line in enumerate(source.splitlines(), 1) if text in line)


def test_every_line_with_text_of_a_template_has_an_origin():
    (spec,) = load_text(SPEC)
    kernel = generate(spec)
    origins = kernel.provenance()
    for number, line in enumerate(kernel.source.splitlines(), 1):
        assert (number in origins) == bool(line.strip()), line


def test_a_tile_comes_from_the_key_of_its_array():
    (spec,) = load_text(SPEC)
    kernel = generate(spec)
    origin = kernel.provenance()[line_of(kernel.source, "__shared__ float Bs")]
    assert re.fullmatch(r"templates/tiled\.cu\.j2:\d+ tiles, key arrays\.B", origin)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("family", "is_one_call"), [("tiled", False), ("gemm", True)])
def test_accesses_of_a_wrapped_copy_have_the_lines_that_line_tables_give_them(family, is_one_call):
    long = "left_operand_with_a_name_that_makes_its_copies_longer_than_a_line"
    text = SPEC.replace("A", long).replace("N: 40", "N: 41").replace(", memory: shared", "")
    (spec,) = load_text(f"{text}schedule: {{family: {family}}}\n")
    kernel = generate(spec)
    lines = kernel.access_lines()
    planned = [access for launch in kernel.plan.kernels for access in accesses(launch.body)]
    line_of_access = {access.serial: lines[number] for number, access in enumerate(planned)}
    nodes = [node for launch in kernel.plan.kernels for node in walk_nodes(launch.body)]
    copies = [node for node in nodes if isinstance(node, Copy) and node.source.array.name == long]
    assert copies
    for copy in copies:
        first, source = line_of_access[copy.target.serial], line_of_access[copy.source.serial]
        assert source == (first if is_one_call else first + 1)


def test_a_compile_failure_shows_where_its_line_came_from():
    (spec,) = load_text(SPEC)
    kernel = generate(spec)
    line = line_of(kernel.source, "acc +=")
    error = CompileError(["nvcc"], f"product.cu({line}): error: no such thing\n", "product.cu")
    report = explain_failure(error, kernel.source, kernel.provenance())
    assert f"product.cu:{line}" in report
    assert "templates/macros/single_stage.cu.j2:" in report
