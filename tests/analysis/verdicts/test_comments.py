"""Generated sources have the cost of each access as a comment, and a summary in the head."""

import pytest

from cugen.emit.inputs import REMARKS_MODES
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


def source(text: str, remarks: str = "worst") -> str:
    (spec,) = load_text(text)
    return generate(spec, remarks=remarks).source


def code(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.strip().startswith("//")]


def test_an_unpadded_tile_says_how_its_columns_collide():
    lines = source(TRANSPOSE, "all").splitlines()
    line_number = next(n for n, line in enumerate(lines) if "= tile[tx]" in line)
    assert any("tile[tx][ty + r]: 32 wavefronts, ideal 1" in line for line in lines[line_number - 2 : line_number])


def test_the_head_names_the_worst_access():
    head = source(TRANSPOSE).split("constexpr")[0]
    assert "analysis  sm_90: 4 accesses, 3 ideal, 1 costly" in head
    assert "worst: tile[tx][ty + r], 32 wavefronts" in head


def test_ideal_accesses_are_listed_in_the_head_and_the_others_remarked_in_the_code():
    head, code = source(TRANSPOSE).split("constexpr")
    assert "\n".join(head.splitlines()[-5:-1]) == (
        "// Ideal accesses, without a remark in the code:\n"
        "//   A[i_in * N + j_in]  4 sectors, ideal 4 (128 contiguous bytes)\n"
        "//   tile[ty + r][tx]    1 wavefront, ideal 1 (conflict-free)\n"
        "//   B[j * N + i]        4 sectors, ideal 4 (128 contiguous bytes)"
    )
    assert [line.strip() for line in code.splitlines() if "ideal" in line] == [
        "// tile[tx][ty + r]: 32 wavefronts, ideal 1 (lanes 0 and 1: words 0 and 32, bank 0)"
    ]


def test_each_access_outside_registers_has_its_remark_beside_it_if_all_are_wanted():
    (spec,) = load_text(TRANSPOSE)
    kernel = generate(spec, remarks="all")
    head, code = kernel.source.split("constexpr")
    assert len(kernel.remarks.claims) == 4
    assert all(any(claim in line for line in code.splitlines()) for claim in kernel.remarks.claims.values())
    assert "Ideal accesses" not in head


def test_the_code_is_the_same_with_any_remarks_and_has_none_without_analysis():
    texts = [source(TRANSPOSE, mode) for mode in REMARKS_MODES]
    assert [text.count(" wavefronts, ideal ") for text in texts] == [2, 2, 0]
    assert code(texts[0]) == code(texts[1]) == code(texts[2])
    assert "analysis" not in texts[2]


def test_no_analysis_is_no_remarks():
    (spec,) = load_text(TRANSPOSE)
    without, none = generate(spec, analysis=False), generate(spec, remarks="none")
    assert (without.source, without.manifest) == (none.source, none.manifest)


def test_other_remarks_are_refused():
    with pytest.raises(ValueError, match="`remarks` is worst, all, none, not 'best'"):
        source(TRANSPOSE, "best")


def test_the_forms_have_different_input_hashes_so_that_one_is_never_taken_for_another():
    (spec,) = load_text(TRANSPOSE)
    assert len({generate(spec, remarks=mode).manifest.input_hash for mode in REMARKS_MODES}) == len(REMARKS_MODES)


@pytest.mark.parametrize("mode", REMARKS_MODES)
def test_lines_of_accesses_count_the_comments(mode):
    (spec,) = load_text(TRANSPOSE)
    kernel = generate(spec, remarks=mode)
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
