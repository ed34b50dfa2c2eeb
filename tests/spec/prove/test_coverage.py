"""Left sides write each element exactly once, or the spec is rejected with a counterexample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.drawn import examples

Compute = Callable[..., Any]
RELAXED = settings(
    deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
STATIC, DYNAMIC = "{N: 64}", "{N: {range: [1, 65536], multiple_of: 4}}"


@pytest.mark.parametrize("size", [pytest.param(STATIC, id="static"), pytest.param(DYNAMIC, id="dynamic")])
@pytest.mark.parametrize(
    ("block", "shape"),
    [
        ("y[i] = x[i]", "N"),
        ("y[j, i] = x[i] + x[j]", "N, N"),
        ("y[i, 0, j] = x[i] + x[j]", "N, 1, N"),
        ("y[2 * i] = x[i]\ny[2 * i + 1] = -x[i]", "2 * N"),
        ("y[N - 1 + 1 + i] = x[i]\ny[i] = -x[i]", "2 * N"),
        ("y[0] = x[0]\ny[i + 1] = x[i]\ny[N + 1] = 0", "N + 2"),
        ("y[i * N + j] = x[i] * x[j]", "N * N"),
        ("y[i // 4, i % 4] = x[i]", "N // 4, 4"),
        ("y[4 * i + j] = x[4 * i + j]", "N"),
        ("y[i, 1] = x[i]\ny[i, 0] = x[i]", "N, 2"),
        ("y += sum(x[i], i)", ""),
        ("y[2 * i] += x[i]", "2 * N + 5"),
        ("y[N - 1 - i] = x[i]", "N"),
        ("y[j, 2 * N - 1 - i] = x[i] + x[j]\ny[j, N - 1 - i] = x[i]", "N, 2 * N"),
        ("y[2 * N - 2 * i - 1] = x[i]\ny[2 * i] = x[i]", "2 * N"),
        ("y[3 * i] += x[i]\ny[3 * i + 2] += x[i]", "3 * N + 7"),
        ("y[i, 2] += x[i]\ny[i, 0] += x[i]\ny[0, 1] += x[0]", "N, 4"),
        ("y[i + N] += x[i]\ny[i + 2 * N] += x[i]", "4 * N"),
        ("\n".join(f"y[2 * i + {a}, 2 * j + {b}] = x[i] + x[j]" for a in (0, 1) for b in (0, 1)), "2 * N, 2 * N"),
        ("\n".join(f"y[{a}, 2 * i + {b}] = x[i]" for a in (0, 1, 2) for b in (0, 1)), "3, 2 * N"),
        ("y[1, i + 0] = x[i]\ny[0, 2 * i] = x[i]\ny[1, N + i] = x[i]\ny[0, 2 * i + 1] = x[i]", "2, 2 * N"),
        (
            "y[0, j, 0] = x[j]\ny[1, j, 0] = x[j]\ny[i + 2, j, 0] = x[i]\ny[0, j, 1] = x[j]\n"
            "y[i + 1, j, 1] = x[i]\ny[N + 1, j, 1] = x[j]",
            "N + 2, N, 2",
        ),
    ],
)
def test_these_write_each_element_once(compute: Compute, block: str, shape: str, size: str) -> None:
    more = {"indices": "{i: N // 4, j: 4}"} if "4 * i + j" in block else {}
    if "N - 1" in block:
        more = {"indices": "{i: N}"}
    assert compute(block, params=size, x="N", y=f"{shape}; float32", **more).codes == []


@pytest.mark.parametrize(
    ("block", "shape", "code", "says"),
    [
        ("y[2 * i] = x[i]", "16", "CG1307", "`y[1]` is never written"),
        ("y[i] = x[i]", "9", "CG1302", ""),
        ("y[i % 4] = x[i]", "4", "CG1306", "`y[0]` is written twice"),
        ("y[i, i] = x[i]", "8, 8", "CG1307", "`y[0, 1]` is never written"),
        ("y[i] = x[i]\ny[0] = 1", "8", "CG1306", "`y[0]` is written twice"),
        ("y[i] = x[i]\ny[i] += 1", "8", "CG1306", "`y[0]` is written twice"),
        ("y[i + j] = x[i] * x[j]", "15", "CG1306", "written twice"),
        ("y[i + 1] = x[i]", "8", "CG1305", "outside"),
        ("y[i - 1] = x[i]", "8", "CG1305", "outside"),
        ("y[i // 2] += x[i]", "4", "CG1306", "written twice"),
        ("y[2 * i] += x[i]\ny[i + 3] += x[i]", "16", "CG1306", "written twice"),
        ("y[7 - i] = x[i]\ny[i + 7] = x[i]", "15", "CG1306", "`y[7]` is written twice"),
        ("y[0] = x[0]\ny[7] = x[1]", "8", "CG1307", "`y[1]` is never written"),
        ("y[x[i]] = x[i]", "8", "CG1308", "is read from an array"),
        ("y[i / 2] = x[i]", "4", "CG1308", "exact division"),
        ("y[0, 2 * i] = x[i]\ny[1, 2 * i + 1] = x[i]", "2, 16", "CG1307", "`y[0, 1]` is never written"),
        ("y[0, i] = x[i]\ny[1, i] = x[i]\ny[1, 0] = x[0]", "2, 8", "CG1306", "`y[1, 0]` is written twice"),
    ],
)
def test_these_do_not(compute: Compute, block: str, shape: str, code: str, says: str) -> None:
    result = compute(block, x="8", y=f"{shape}; float32")
    assert result.codes == [code]
    assert says in result.diagnostics[0].message


def test_a_shorter_prefix_leaves_elements_out(compute: Compute) -> None:
    result = compute("y[i] = x[i]", x="8", y="8", indices="{i: 5}")
    assert result.codes == ["CG1307"]
    assert "`y[5]`" in result.diagnostics[0].message


def test_what_cannot_be_shown_for_all_sizes_is_rejected_as_unproved(compute: Compute) -> None:
    result = compute("y[i * 3 % 7] = x[i]", x="N", y="7", params="{N: {range: [1, 7]}}")
    assert "CG1308" in result.codes
    assert "unproved" in next(f.message for f in result.diagnostics if f.code == "CG1308")


@pytest.mark.parametrize(
    "size", [pytest.param("{B: 8388608}", id="static"), pytest.param("{B: dynamic}", id="dynamic")]
)
@pytest.mark.parametrize(
    "block",
    [
        "y[8 * b + j, 0] = 1\ny[8 * b + j + 4, 0] = 2\ny[8 * b + j, 1] = 3\ny[8 * b + j + 4, 1] = 4",
        "y[8 * b + 3 - j, 0] = 1\ny[8 * b + j + 4, 0] = 2\ny[8 * b + 7 - j, 1] = 3\ny[8 * b + j, 1] = 4",
        "y[8 * b + 4 * r + s, c] = 1\ny[8 * b + 4 * r + s + 2, c] = 2",
    ],
)
def test_parts_of_blocks_are_written_once_at_any_size(compute: Compute, block: str, size: str) -> None:
    """The halves of a stage of an FFT, say, where an index fills a part of the block that the next one counts."""
    indices = "{b: B, j: 4}" if "j" in block else "{b: B, r: 2, s: 2, c: 2}"
    assert compute(block, params=size, indices=indices, y="8 * B, 2; float32").codes == []


@pytest.mark.parametrize(
    "block",
    [
        "y[8 * b + j] = 1\ny[8 * b + j + 3] = 2",
        "y[8 * b + j] = 1\ny[8 * b + j + 5] = 2",
        "y[8 * b + j] = 1",
        "y[8 * b + 2 * j] = 1\ny[8 * b + j + 4] = 2",
    ],
)
def test_parts_of_blocks_that_overlap_or_leave_gaps_are_rejected(compute: Compute, block: str) -> None:
    assert compute(block, params="{B: 8388608}", indices="{b: B, j: 4}", y="8 * B; float32").codes


def test_large_strided_writes_are_counted_without_enumerating_them(compute: Compute) -> None:
    block = "\n".join(f"y[j, 3 * i + {r}] = x[i] + j" for r in range(3))
    assert compute(block, x="1000000", y="1000, 3000000", indices="{j: 1000}").codes == []


@st.composite
def left_sides(draw: st.DrawFn) -> str:
    forms = [
        "{a} * i + {b}",
        "{b}",
        "{a} * i + j",
        "i // 2",
        "i % 3",
        "j",
        "i",
        "{a} * j + {b}",
        "{b} - i",
        "{b} - {a} * j",
    ]
    form = draw(st.sampled_from(forms))
    return form.format(a=draw(st.integers(1, 3)), b=draw(st.integers(0, 3)))


@RELAXED
@given(
    st.lists(st.tuples(left_sides(), left_sides(), st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=3),
    st.integers(1, 5),
    st.integers(1, 4),
    st.booleans(),
)
def test_a_block_is_accepted_exactly_where_counting_agrees(
    compute: Compute, writes: list[tuple[str, str, int, int]], rows: int, columns: int, adds: bool
) -> None:
    counts: Counter[tuple[int, int]] = Counter()
    outside = False
    lines, extents = [], {}
    for number, (first, second, i_extent, j_extent) in enumerate(writes):
        # Each statement has distinct indices, so that their extents are independent.
        names = {"i": f"i{number}", "j": f"j{number}"}
        used = {name for name in names if name in first or name in second}
        text = f"{first}, {second}"
        ranges = [range(i_extent if name == "i" else j_extent) for name in sorted(used)]
        for point in product(*ranges):
            where = dict(zip(sorted(used), point, strict=True))
            element = tuple(eval(part, {"__builtins__": {}}, where) for part in (first, second))
            outside = outside or not (0 <= element[0] < rows and 0 <= element[1] < columns)
            counts[element] += 1
        for name, new in names.items():
            text = text.replace(name, new)
            if name in used:
                extents[new] = i_extent if name == "i" else j_extent
        lines.append(f"y[{text}] {'+=' if adds else '='} x")
    whole = adds or len(counts) == rows * columns
    good = not outside and whole and max(counts.values()) == 1
    result = compute("\n".join(lines), x="; float32", y=f"{rows}, {columns}", **_indices(extents))
    if any(code in ("CG1302", "CG1303") for code in result.codes):
        assert not good or any(extent > rows or extent > columns for extent in extents.values())
    else:
        assert (result.codes == []) == good


def _indices(extents: dict[str, int]) -> dict[str, str]:
    return {"indices": "{" + ", ".join(f"{name}: {size}" for name, size in extents.items()) + "}"} if extents else {}
