"""Each line of a .cu can be traced to the template line and the spec key that made it."""

import re

from cugen.kernel import generate
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


def test_a_compile_failure_shows_where_its_line_came_from():
    (spec,) = load_text(SPEC)
    kernel = generate(spec)
    line = line_of(kernel.source, "acc +=")
    error = CompileError(["nvcc"], f"product.cu({line}): error: no such thing\n", "product.cu")
    report = explain_failure(error, kernel.source, kernel.provenance())
    assert f"product.cu:{line}" in report
    assert "templates/tiled.cu.j2:" in report
