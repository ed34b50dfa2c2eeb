"""`memory: readonly` in every family: all loads of the array are printed as those through the read-only cache, and the
plan is the one without it."""

from __future__ import annotations

import re

import pytest

from cugen.emit.describe import placement_text
from cugen.families.registry import families
from cugen.plan.traversal.walking import accesses
from cugen.toolchain.cuda import compilers

READONLY = ", memory: readonly"
GEMM = """
arrays:
  x: {{shape: [{m}, {k}], dtype: float32{ro}}}
  w: {{shape: [{k}, {n}], dtype: float32}}
  y: {{shape: [{m}, {n}], dtype: float32}}
compute: y[i, j] = sum(x[i, k] * w[k, j], k)
"""
SPECS = {
    "direct": """
arrays:
  x: {{shape: [20], dtype: float32{ro}}}
  y: {{shape: [20], dtype: float32}}
compute: y[i] = x[i] * 2
schedule: {{family: direct}}
""",
    "map": """
arrays:
  x: {{shape: [64], dtype: float32{ro}}}
  y: {{shape: [64], dtype: float32}}
compute: y[i] = x[i] * 2
""",
    "stencil": """
arrays:
  x: {{shape: [24, 64], dtype: float32, boundary: zero{ro}}}
  y: {{shape: [24, 64], dtype: float32}}
compute: y[i, j] = x[i, j - 1] + x[i, j + 1] + x[i - 1, j] + x[i + 1, j]
""",
    "fused_stencil": """
arrays:
  x: {{shape: [24, 64], dtype: float32, boundary: clamp{ro}}}
  t: {{shape: [24, 64], dtype: float32, boundary: clamp, memory: shared}}
  y: {{shape: [24, 64], dtype: float32}}
compute: |
  t[i, j] = x[i, j - 1] + x[i, j + 1]
  y[i, j] = t[i - 1, j] + t[i + 1, j]
""",
    "staged": """
arrays:
  x: {{shape: [300], dtype: float32{ro}}}
  c: {{shape: [512], dtype: float32}}
  y: {{shape: [512], dtype: float32}}
compute: y[i] = min(abs(x[k] - c[i]), k)
""",
    "rowwise": """
arrays:
  x: {{shape: [6, 1024], dtype: float32{ro}}}
  y: {{shape: [6, 1024], dtype: float32}}
compute: y[i, j] = softmax(x[i, j], j)
""",
    "reduce": """
arrays:
  x: {{shape: [8, 512], dtype: float32{ro}}}
  y: {{shape: [8], dtype: float32}}
compute: y[i] = sum(x[i, j], j)
""",
    "scan": """
arrays:
  x: {{shape: [3, 640], dtype: float32{ro}}}
  y: {{shape: [3, 640], dtype: float32}}
compute: y[i, j] = cumsum(x[i, j], j)
""",
    "correlation": """
arrays:
  x: {{shape: [1100], dtype: float32{ro}}}
  y: {{shape: [500], dtype: float32}}
indices: {{k: 50}}
compute: y[i] = max(x[2 * i + k], k)
""",
    "transpose": """
arrays:
  x: {{shape: [40, 64], dtype: float32{ro}}}
  y: {{shape: [64, 40], dtype: float32}}
compute: y[j, i] = x[i, j]
""",
    "histogram": """
arrays:
  x: {{shape: [65536], dtype: float32{ro}}}
  y: {{shape: [64], dtype: int32}}
compute: y[b] = sum(cast(8 * x[i], int32) == b, i)
schedule: {{family: histogram}}
""",
    "grouped": """
arrays:
  k: {{shape: [65536], dtype: int32}}
  x: {{shape: [65536], dtype: float32{ro}}}
  y: {{shape: [64], dtype: float32}}
compute: y[b] = sum(x[i], i, where=k[i] == b)
schedule: {{family: grouped}}
""",
    "tiled": GEMM.replace("{m}", "33").replace("{n}", "40").replace("{k}", "35"),
    "gemm": GEMM.replace("{m}", "128").replace("{n}", "128").replace("{k}", "64") + "schedule: {{family: gemm}}\n",
    "skinny": GEMM.replace("{m}", "2").replace("{n}", "256").replace("{k}", "192"),
    "batched": """
arrays:
  x: {{shape: [70, 12, 8], dtype: float32{ro}}}
  w: {{shape: [70, 8, 12], dtype: float32}}
  y: {{shape: [70, 12, 12], dtype: float32}}
compute: y[b, i, j] = sum(x[b, i, k] * w[b, k, j], k)
""",
    "attention": """
params: {{M: 100, N: 90, D: 32}}
target: sm_90
arrays:
  x: {{shape: [M, D], dtype: float16{ro}}}
  k: {{shape: [N, D], dtype: float16}}
  v: {{shape: [N, D], dtype: float16}}
  y: {{shape: [M, D], dtype: float16}}
schedule: {{family: attention}}
compute: |
  p[i, j] = softmax(sum(x[i, c] * k[j, c], c), j)
  y[i, d] = sum(p[i, j] * v[j, d], j)
""",
}
LOAD = re.compile(r"(?:__ldg|load_readonly<\d+>|load_byte)\(&$")
POINTER = re.compile(r"const (?:float|__half)\* x_\w+ = &$")


def code_of(source: str) -> str:
    return re.sub(r"//.*", "", source)


def test_every_family_is_tried() -> None:
    without_loads = {"wgmma"}  # which copies by TMA
    assert SPECS.keys() == {family.name for family in families()} - without_loads


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", SPECS)
def test_every_load_is_through_the_read_only_cache(made, family):
    kernel = made(SPECS[family].format(ro=READONLY))
    assert family in [launch.family for launch in kernel.plan.kernels]
    _, code = code_of(kernel.source).split('extern "C" __global__', 1)
    reads = list(re.finditer(r"\bx(?:_global|_from\w*)?\[", code))
    before = [code[: read.start()].splitlines()[-1] for read in reads]
    loads = [text for text in before if not POINTER.search(text)]
    assert loads
    assert [text for text in loads if not LOAD.search(text)] == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", SPECS)
def test_the_plan_is_that_of_an_array_without_a_placement(made, family):
    def loads(ro: str) -> list[tuple[str, list[int]]]:
        plan = made(SPECS[family].format(ro=ro)).plan
        widths = {k.name: sorted({a.width for a in accesses(k.body) if a.array.symbol == "x"}) for k in plan.kernels}
        return [(launch.family, widths[launch.name]) for launch in plan.kernels]

    assert loads(READONLY) == loads("")


@pytest.mark.parametrize("family", SPECS)
def test_the_head_of_the_file_says_how_it_is_loaded(made, family):
    kernel = made(SPECS[family].format(ro=READONLY))
    text = placement_text(kernel.spec.array("x"), kernel.plan)
    assert re.fullmatch(r"readonly by (load_readonly<\d+>|__ldg)( and (load_readonly<\d+>|__ldg))*", text)
    (line,) = (line for line in kernel.source.splitlines() if line.startswith("// x "))
    assert text in line
    for name in re.findall(r"load_readonly<\d+>|__ldg", text):
        assert f"{name}(&" in code_of(kernel.source)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("family", SPECS)
def test_results_are_right(prove, family):
    prove(SPECS[family].format(ro=READONLY))


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "tunables"), [("float32", "stages: 3"), ("float64", "stages: 3, cores: tensor")])
def test_copies_of_a_pipeline_are_loads_and_ordered_by_its_barriers(made, prove, dtype, tunables):
    text = SPECS["gemm"].format(ro=READONLY).replace("float32", dtype)
    text = text.replace("family: gemm", f"family: gemm, {tunables}")
    assert "__pipeline_memcpy_async" in made(text).source  # of the other operand
    prove(text, races=True)


@pytest.mark.skipif(not compilers(), reason="no CUDA compiler on this machine")
@pytest.mark.sampled(14)
@pytest.mark.parametrize("family", SPECS)
def test_a_kernel_compiles(compiled, family):
    compiled(SPECS[family].format(ro=READONLY))


def test_a_baked_table_is_loaded_so_too(made, prove):
    text = """
arrays:
  t: {shape: [8], dtype: float32, memory: readonly, values: [1, 2, 3, 4, 5, 6, 7, 8]}
  y: {shape: [64], dtype: float32}
compute: y[i] = t[i % 8]
"""
    assert "__ldg(&t[i % 8])" in made(text).source
    prove(text)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("width", [2, 4, 8, 16])
def test_a_vector_is_loaded_by_its_bytes(made, prove, width):
    text = f"""
arrays:
  x: {{shape: [64], dtype: int8, memory: readonly}}
  y: {{shape: [64], dtype: int8}}
compute: y[i] = x[i] * 2
schedule: {{vector: {width}}}
"""
    assert f"load_readonly<{width}>(&x[" in made(text).source
    prove(text)


def test_short_rows_are_read_in_vectors_as_well(made):
    text = """
arrays:
  x: {shape: [4096, 4], dtype: float32, memory: readonly}
  y: {shape: [4096], dtype: float32}
compute: y[i] = sum(x[i, j], j)
"""
    assert "load_readonly<4>(&x[" in made(text).source
