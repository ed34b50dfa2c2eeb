"""Which statements share a kernel, and where temporaries are kept."""

from __future__ import annotations

import pytest

from cugen.rewrite.grouping import group_statements
from cugen.spec.expressions import Cast, IndexValue, Read, walk


@pytest.fixture
def grouped(make_spec):
    """The targets of each kernel's statements, the stored temporaries and the notes."""

    def group(block, **arrays):
        grouping = group_statements(make_spec(block, **arrays))
        return [[s.target for s in g.statements] for g in grouping.groups], grouping.stored, grouping.notes

    return group


def targets(grouped, block, **arrays):
    return grouped(block, **arrays)[0]


def test_statements_over_one_domain_share_a_kernel(grouped):
    assert targets(grouped, "Y[i] = A[i]\nZ[i] = A[i] + 1", A="8", Y="8", Z="8") == [["Y", "Z"]]


def test_index_names_do_not_matter(grouped, make_spec):
    block = "Y[i, j] = A[i, j]\nZ[r, c] = A[c, r]"
    arrays = {"A": "8, 8", "Y": "8, 8", "Z": "8, 8"}
    assert targets(grouped, block, **arrays) == [["Y", "Z"]]
    (group,) = group_statements(make_spec(block, **arrays)).groups
    assert group.statements[1].subscripts == (IndexValue("i"), IndexValue("j"))
    assert group.statements[1].value == Read("A", (IndexValue("j"), IndexValue("i")), group.statements[1].value.dtype)


def test_other_extents_need_another_kernel(grouped):
    assert targets(grouped, "Y[i] = A[i]\nZ[i] = B[i]", A="8", B="9", Y="8", Z="9") == [["Y"], ["Z"]]


def test_params_of_equal_value_are_not_one_extent(grouped):
    arrays = {"A": "N", "B": "M", "Y": "N", "Z": "M", "top": "params: {N: 8, M: 8}"}
    assert targets(grouped, "Y[i] = A[i]\nZ[i] = B[i]", **arrays) == [["Y"], ["Z"]]


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("Z[i] = A[i]\nY[i] = Z[i]", [["Z", "Y"]]),  # each thread reads what it wrote
        ("Z[i] = A[i]\nY[i] = Z[7 - i]", [["Z"], ["Y"]]),  # another thread's element
        ("Z[i] = A[i]\nY[i] = sum(Z[k], k)", [["Z"], ["Y"]]),
        ("Y[i] = A[i]\nA[i] = Z[i]", [["Y", "A"]]),  # read before it is overwritten, by one thread
        ("Y[i] = A[7 - i]\nA[i] = Z[i]", [["Y"], ["A"]]),  # another thread may have overwritten it
        ("Y[i] = sum(A[k], k)\nA[i] = Z[i]", [["Y"], ["A"]]),
        ("Z[i] = A[i]\nY[i] = B[C[i]] + Z[C[i]]", [["Z"], ["Y"]]),  # a gather of any element
        ("Z[i] = A[i]\nW[i] = Z[7 - i]\nY[i] = A[i]", [["Z"], ["W", "Y"]]),  # the last kernel is joined
        ("Z[i] = A[i]\nB[i] = A[i]\nY[i] = Z[i] + B[7 - i]", [["Z", "B"], ["Y"]]),
    ],
)
def test_statements_that_read_other_threads_results_are_in_another_kernel(grouped, block, expected):
    arrays = {name: "8" for name in "ABWYZ" if f"{name}[" in block}
    if "C[" in block:
        arrays["C"] = "8; int32"
    assert targets(grouped, block, **arrays) == expected


def test_statements_may_write_parts_of_one_array(grouped):
    assert targets(grouped, "Y[0, i] = A[i]\nY[1, i] = A[i] * 2", A="8", Y="2, 8") == [["Y", "Y"]]


def test_a_part_written_earlier_is_not_the_part_read(grouped):
    block = "Y[0, i] = A[i]\nY[1, i] = A[i] * 2\nZ[i] = Y[0, i]"
    assert targets(grouped, block, A="8", Y="2, 8", Z="8") == [["Y", "Y"], ["Z"]]


def test_a_temporary_read_by_the_thread_that_computes_it_is_in_a_register(grouped):
    groups, stored, notes = grouped("t[i] = A[i] * 2\nY[i] = t[i] + 1", A="8", Y="8")
    assert (groups, stored, notes) == ([["t", "Y"]], (), ("t stays in registers",))


def test_a_cheap_temporary_read_elsewhere_is_recomputed(grouped, make_spec):
    block = "t[i] = A[i] * 2\nY[i] = t[i] + t[7 - i]"
    groups, stored, notes = grouped(block, A="8", Y="8")
    assert (groups, stored) == ([["Y"]], ())
    assert notes == ("t is recomputed where it is read: it has no reduction of its own",)
    (group,) = group_statements(make_spec(block, A="8", Y="8")).groups
    assert {node.array for node in walk(group.statements[0].value) if isinstance(node, Read)} == {"A"}


def test_a_temporary_with_a_reduction_is_stored_for_other_kernels(grouped):
    groups, stored, notes = grouped("t[i] = sum(A[i, k], k)\nY[i, j] = A[i, j] / t[i]", A="8, 8", Y="8, 8")
    assert (groups, stored) == ([["t"], ["Y"]], ("t",))
    assert notes == ("t is stored in the workspace: a later kernel needs all of it",)


def test_a_temporary_over_an_array_that_changes_is_not_recomputed(grouped):
    groups, stored, _ = grouped("t[i] = A[i] * 2\nA[j] = B[j]\nY[i] = t[7 - i]", A="8", B="8", Y="8")
    assert (groups, stored) == ([["t", "A"], ["Y"]], ("t",))


def test_recomputed_temporaries_may_use_each_other(grouped, make_spec):
    block = "t[i] = A[i] + 1\nu[i] = A[i] * t[7 - i]\nY[i] = u[7 - i]"
    groups, _, notes = grouped(block, A="8", Y="8")
    assert groups == [["Y"]]
    assert len(notes) == 2
    (group,) = group_statements(make_spec(block, A="8", Y="8")).groups
    assert [n.array for n in walk(group.statements[0].value) if isinstance(n, Read)] == ["A", "A"]


def test_inlining_stops_at_an_expression_size(grouped):
    """Each temporary doubles the next: twelve of them would be four thousand reads."""
    lines = ["t0[i] = A[i] + A[7 - i]"]
    lines += [f"t{n}[i] = t{n - 1}[i] + t{n - 1}[7 - i]" for n in range(1, 12)]
    groups, stored, notes = grouped("\n".join([*lines, "Y[i] = t11[i] + t11[7 - i]"]), A="8", Y="8")
    assert len(groups) > 1
    assert stored
    assert len(notes) == 12


def test_recomputing_rounds_as_storing_would(grouped, make_spec):
    block = "t[i] = A[i] * 2\nY[i] = t[i] + t[7 - i]"
    (group,) = group_statements(make_spec(block, A="8", Y="8", t="8; float16; memory: register")).groups
    casts = [node for node in walk(group.statements[0].value) if isinstance(node, Cast)]
    assert [cast.to.name for cast in casts] == ["float16", "float16"]


def test_a_scratch_temporary_is_stored_in_every_case(grouped):
    groups, stored, _ = grouped("t[i] = A[i] * 2\nY[i] = t[i] + 1", A="8", Y="8", t="8; float32; memory: scratch")
    assert (groups, stored) == ([["t", "Y"]], ("t",))


def test_a_temporary_with_a_boundary_is_stored_for_shifted_reads(grouped):
    groups, stored, _ = grouped(
        "t[i] = A[i] * 2\nY[i] = t[i - 1] + t[i + 1]",
        A="8",
        Y="8",
        t="8; float32; boundary: zero, memory: scratch",
    )
    assert (groups, stored) == ([["t"], ["Y"]], ("t",))


def test_each_statement_is_walked_a_number_of_times_that_does_not_grow_with_their_count(make_spec, monkeypatch):
    walks = []

    def count(expr):
        walks.append(expr)
        return walk(expr)

    for module in ("grouping", "readers"):
        monkeypatch.setattr(f"cugen.rewrite.{module}.walk", count)

    def walks_of(statements):
        lines = "".join(f"t{n}[i] = t{n - 1}[i] + t{n - 1}[(i + 1) % 8]\n" for n in range(1, statements))
        spec = make_spec(f"t0[i] = A[i]\n{lines}Y[i] = t{statements - 1}[i]", A="8", Y="8")
        walks.clear()
        group_statements(spec)
        return len(walks)

    assert walks_of(64) < 2.5 * walks_of(32)
