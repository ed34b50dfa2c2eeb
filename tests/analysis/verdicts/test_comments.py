"""Generated sources have the cost of each access as a comment, and a summary in the head."""

from cugen.kernel import generate
from cugen.spec.load import load_text

TRANSPOSE = """
cugen: 1
kernel: turn
params: {N: 96}
arrays:
  A: {shape: [N, N], dtype: float32, memory: shared}
  B: {shape: [N, N], dtype: float32}
compute: B[j, i] = A[i, j]
schedule: {block: {i: 32, j: 32}}
"""


def source(text: str, *, analysis: bool = True) -> str:
    (spec,) = load_text(text)
    return generate(spec, analysis=analysis).source


def test_an_unpadded_tile_says_how_its_columns_collide():
    lines = source(TRANSPOSE).splitlines()
    line_number = next(n for n, line in enumerate(lines) if "= tile[tx]" in line)
    assert any("tile[tx][ty + r]: 32 wavefronts, ideal 1" in line for line in lines[line_number - 2 : line_number])


def test_the_head_names_the_worst_access():
    head = source(TRANSPOSE).split("constexpr")[0]
    assert "analysis  sm_90: 4 accesses, 3 ideal, 1 costly" in head
    assert "worst: tile[tx][ty + r], 32 wavefronts" in head


def test_each_access_outside_registers_has_its_remark():
    (spec,) = load_text(TRANSPOSE)
    kernel = generate(spec)
    assert len(kernel.remarks.claims) == 4
    assert all(any(claim in line for line in kernel.source.splitlines()) for claim in kernel.remarks.claims.values())


def test_without_analysis_the_code_is_the_same_and_the_comments_are_gone():
    with_remarks, without = source(TRANSPOSE), source(TRANSPOSE, analysis=False)
    assert "wavefront" not in without

    def code(text: str) -> list[str]:
        return [line for line in text.splitlines() if not line.strip().startswith("//")]

    assert code(with_remarks) == code(without)


def test_the_two_forms_have_different_input_hashes_so_that_one_is_never_taken_for_the_other():
    (spec,) = load_text(TRANSPOSE)
    assert generate(spec).manifest.input_hash != generate(spec, analysis=False).manifest.input_hash


def test_lines_of_accesses_count_the_comments():
    (spec,) = load_text(TRANSPOSE)
    kernel = generate(spec)
    lines = kernel.source.splitlines()
    actual = [lines[line - 1].strip() for line in kernel.access_lines().values()]
    assert actual == ["tile[ty + r][tx] = A[i_in * N + j_in];"] * 2 + ["B[j * N + i] = tile[tx][ty + r];"] * 2


LIFE = """
cugen: 1
kernel: life
params: {H: 8, W: 32}
arrays:
  a: {shape: [H, W], dtype: uint8, boundary: wrap}
  b: {shape: [H, W], dtype: uint8}
indices: {i: H, j: W, r: 3, s: 3}
compute: |
  n[i, j] = sum(a[i + r - 1, j + s - 1], r, s, where=r != 1 or s != 1)
  b[i, j] = where(n[i, j] == 3 or (n[i, j] == 2 and a[i, j] > 0), 1, 0)
schedule: {family: direct}
"""


def test_a_condition_on_indices_is_not_said_to_depend_on_data():
    remarks = [line.strip() for line in source(LIFE).splitlines() if "unknown:" in line]
    assert remarks == [
        "// a[h * W + w]: unknown: its condition is not a conjunction of comparisons",
        "// a[i * W + j]: unknown: whether it runs depends on data",
    ]
