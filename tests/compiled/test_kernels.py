"""Every access of the plan answers to instructions of the machine code, and what differs has a name."""

from __future__ import annotations

import pytest

from cugen.analysis.totals.sites import REMOTE_SHARED, SPIN_WAIT
from cugen.compiled.kernels import (
    DIVERGED_AFTER_WAIT,
    DIVERGED_BY_DATA,
    CompiledAccess,
    CompiledKernel,
    compiled_kernels,
)
from cugen.kernel import Kernel, generate
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.toolchain.cuda import compile_cubin, compile_ptx
from tests.gallery.specs import gallery

NAMES = {
    "vectorised",
    "split",
    "unrolled",
    "partially unrolled",
    "hoisted",
    "reused",
    "filled",
    "merged",
    "joined",
    "speculated",
    "sunk",
    "eliminated",
    "predicated",
    "folded",
    "dropped",
}


def sizes_of(spec: Spec) -> dict[str, int]:
    """Values of all params, by their names in the spec."""
    usual = {p.name: max(p.minimum, 1000 // p.multiple_of * p.multiple_of) for p in spec.params if p.is_dynamic}
    return {p.name: usual.get(p.name, p.value) for p in spec.params}


def compiled(kernel: Kernel, target: str) -> tuple[CompiledKernel, ...]:
    params = {kernel.context.symbols[name].name: value for name, value in sizes_of(kernel.spec).items()}
    image = compile_cubin(kernel.source, kernel.name, target).image
    ptx = compile_ptx(kernel.source, kernel.name, target)
    return compiled_kernels(kernel.plan, kernel.spec, kernel.access_lines(), image, ptx, target, params)


def single(text: str, target: str = "sm_90") -> CompiledKernel:
    (spec,) = load_text(text)
    (actual,) = compiled(generate(spec), target)
    return actual


def access(kernel: CompiledKernel, symbol: str, kind: str = "load") -> CompiledAccess:
    (actual,) = (a for a in kernel.accesses if a.access.array.symbol == symbol and a.access.kind == kind)
    return actual


def names(actual: CompiledAccess) -> list[str]:
    return [change.partition(":")[0] for change in actual.changes]


def widths(actual: CompiledAccess) -> list[int]:
    return sorted({i.bytes for i in actual.instructions})


SOME = (
    "matmul_tiled",
    "matmul_f16",
    "blur5x5",
    "layer_norm",
    "matmul_lower_triangular",
    "transpose_padded",
    "polynomial",
)


# What the plan doesn't tell, so that no figure is predicted.
UNKNOWN = (
    "read from memory",
    "where its sources are",
    "source pattern differs between its warps",  # of copies that compute where windows are
    "whole sectors in pairs",
    DIVERGED_AFTER_WAIT,
)


def check_accounts(name: str, target: str) -> None:
    for kernel in compiled(generate(gallery()[name]), target):
        assert kernel.unexplained == ()
        assert kernel.ambiguous == ()
        moved = [i for i in kernel.program.instructions if i.space in ("global", "shared", "generic")]
        # An asynchronous copy carries out two accesses; compilers put reads that never run before it.
        of_threads = [
            i.address
            for a in kernel.accesses
            for i in a.instructions
            if a.space != "constant" and not (a.space == "global" and i.kind == "async_copy")
        ]
        by_tma = [i.address for copy in kernel.copies for i in copy.instructions]
        assert sorted(i.address for i in moved if i.predicate != "!PT") == sorted([*of_threads, *by_tma])
        multiplied = [i.address for m in kernel.mmas for i in m.instructions]
        assert sorted(multiplied) == [i.address for i in kernel.program.instructions if i.name.endswith("MMA")]
        assert all(m.executions is not None for m in kernel.mmas)
        for actual in kernel.accesses:
            assert set(names(actual)) <= NAMES, actual.changes
            if actual.compiled is None:  # then for a reason with a name, never "unexplained"
                known = actual.reason.partition(":")[0] in NAMES or actual.reason in (
                    SPIN_WAIT,
                    REMOTE_SHARED,
                    DIVERGED_BY_DATA,
                )
                assert known or any(text in actual.reason for text in UNKNOWN), actual.reason
            assert actual.instructions or "dropped" in names(actual)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", SOME)
def test_every_access_of_some_gallery_kernels_is_accounted_for(name, target):
    check_accounts(name, target)


NEWER = ("softmax_long_rows", "gemm_tensor_fp8", "conv_weight", "conv_input")  # with clusters or float8


def targets(name: str) -> tuple[str, ...]:
    if "_wgmma" in name:
        return ("sm_90a",)
    return ("sm_90",) if name.startswith(NEWER) else ("sm_80", "sm_90")


PAIRS = [(name, target) for name in sorted(gallery()) for target in targets(name)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), PAIRS)
def test_every_access_of_every_gallery_kernel_is_accounted_for(name, target):
    check_accounts(name, target)


@pytest.mark.slow
def test_an_asynchronous_copy_is_one_instruction_for_what_it_reads_and_what_it_writes():
    kernel = single(
        """
cugen: 1
kernel: product
params: {M: 64, K: 64, N: 64}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {family: gemm, block: {m: 32, n: 64}, thread: {m: 4, n: 4}, step: {k: 8}}
"""
    )
    for name, width in (("A", 4), ("B", 16)):
        reads = [a for a in kernel.accesses if a.access.array.symbol == name]
        writes = [a for a in kernel.accesses if a.access.array.symbol == f"{name}s" and a.access.kind == "async_copy"]
        assert [a.instructions for a in reads] == [a.instructions for a in writes]
        assert {i.bytes for a in reads for i in a.instructions} == {width}
        assert all(a.compiled for a in (*reads, *writes))


MATRICES = """
cugen: 1
kernel: k
target: sm_90a
params: {M: 128, N: 128, K: 128}
arrays:
  A: {shape: [M, K], dtype: bfloat16}
  B: {shape: [N, K], dtype: bfloat16}
  C: {shape: [M, N], dtype: bfloat16}
compute: C[m, n] = sum(A[m, k] * B[n, k], k)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "opcodes"),
    [
        pytest.param("epilogue: stmatrix, block: {m: 64, n: 64}", 4 * ["STSM.16.M88.4"], id="four"),
        pytest.param("swap_ab: true, block: {m: 64, n: 64}", 4 * ["STSM.16.MT88.4"], id="four transposed ones"),
        pytest.param("swap_ab: true, block: {m: 40, n: 64}", 5 * ["STSM.16.MT88.2"], id="two transposed ones"),
    ],
)
def test_a_store_of_matrices_is_one_instruction(schedule: str, opcodes: list[str]) -> None:
    kernel = single(f"{MATRICES}schedule: {{family: wgmma, {schedule}}}\n", "sm_90a")
    stored = access(kernel, "c_tile", "matrix_store")
    assert [i.opcode for i in stored.instructions] == opcodes
    assert widths(stored) == [16]
    assert stored.compiled == (stored.written,)
    assert kernel.unexplained == ()


@pytest.mark.slow
def test_zero_filling_copies_are_counted_separately():
    """Their compiler keeps guards that always hold, but not all of them: what they fill never is."""
    (actual,) = compiled(generate(gallery()["gemm_batched"]), "sm_90")
    copies = [a for a in actual.accesses if a.access.kind == "async_copy"]
    tile, wide, *_ = copies  # of the prologue
    assert "filled" in names(tile)
    assert sum(t.lanes for t in tile.compiled) == tile.written.lanes
    assert tile.executions == 16 * 4  # 16 warps: half of the lanes of each copy fill
    assert (wide.compiled, wide.executions) == (None, 16)  # of two copies, one fills only


@pytest.mark.slow
def test_trips_of_a_loop_of_unknown_trip_count_are_not_those_of_adjacent_ones():
    """512 threads fetch 512 elements in a loop from `threadIdx` on, which is unrolled though it makes a single trip."""
    (actual,) = compiled(generate(gallery()["ladder_4_columns"]), "sm_90")
    assert max(len(a.instructions) for a in actual.accesses if a.access.array.symbol == "A") > 1
    assert all(a.compiled is not None for a in actual.accesses), [a.reason for a in actual.accesses]


@pytest.mark.slow
def test_trips_that_a_compiler_does_not_count_are_all_made():
    """Each loop over `k0` begins at an index of the thread: one trip if they are odd, then two at a time."""
    for actual in compiled(generate(gallery()["matmul_few_rows"]), "sm_90"):
        assert all(a.compiled is not None for a in actual.accesses), [a.reason for a in actual.accesses]


def product(pad: int, dtype: str = "float32") -> str:
    return f"""
cugen: 1
kernel: product
params: {{M: 64, K: 64, N: 64}}
arrays:
  A: {{shape: [M, K], dtype: {dtype}, memory: {{space: shared, pad: {pad}}}}}
  B: {{shape: [K, N], dtype: {dtype}, memory: shared}}
  C: {{shape: [M, N], dtype: {dtype}}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {{block: {{m: 16, n: 16}}}}
"""


@pytest.mark.slow
def test_a_row_with_an_even_pitch_is_read_four_elements_at_once():
    rows, columns = (access(single(product(0)), name) for name in ("As", "Bs"))
    assert (rows.written_bytes, widths(rows)) == (4, [16])
    assert "vectorised" in names(rows)
    assert sum(t.warps for t in rows.compiled) * 4 == rows.written.warps
    assert sum(t.lanes for t in rows.compiled) * 4 == rows.written.lanes
    assert widths(columns) == [4]
    assert columns.compiled == (columns.written,)


@pytest.mark.slow
def test_an_odd_pitch_prevents_vectorisation():
    rows = access(single(product(1)), "As")
    assert (widths(rows), rows.compiled) == ([4], (rows.written,))


@pytest.mark.slow
def test_two_doubles_are_as_wide_as_it_gets():
    rows = access(single(product(0, "float64")), "As")
    assert (rows.written_bytes, widths(rows)) == (8, [16])
    assert rows.executions * 2 == rows.written.warps


def statement(compute: str, arrays: str, remainder: str = "") -> str:
    return f"""
cugen: 1
kernel: statement
params: {{N: 70, K: 9}}
arrays:
{arrays}
compute: "{compute}"
{remainder}
"""


@pytest.mark.slow
def test_known_taps_are_operands_and_cost_no_request():
    actual = single(
        statement(
            "y[i] = sum(w[k] * x[i + k], k)",
            """
  w: {shape: [3], dtype: float32, values: [1, 2, 4], memory: constant}
  x: {shape: [N + 2], dtype: float32}
  y: {shape: [N], dtype: float32}""",
        )
    )
    taps = access(actual, "w")
    assert taps.compiled == ()
    assert {"folded", "dropped"} & set(names(taps))


@pytest.mark.slow
def test_a_table_read_at_a_place_of_the_lanes_own_costs_requests():
    actual = single(
        statement(
            "y[i] = w[i % 3] * x[i]",
            """
  w: {shape: [3], dtype: float32, values: [1.5, 2.5, 4.5], memory: constant}
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}""",
            "schedule: {family: direct}",
        )
    )
    assert sum(t.requests for t in access(actual, "w").compiled) == 3 * 3  # 3 warps, 3 addresses in each


@pytest.mark.slow
def test_a_read_that_needs_no_guard_runs_wherever_its_block_does():
    """The last lane's `x[max(i - 1, 0)]` lies in the array as well, so NVRTC reads it without the choice's condition,
    beside the store; what it reads where the address might miss keeps its predicate."""
    actual = single("""
cugen: 1
kernel: chain
params: {N: 20}
indices: {i: N}
arrays:
  x: {shape: [N], dtype: float32, boundary: clamp}
  y: {shape: [N], dtype: float32}
compute: |
  a[i] = x[i - 1] + x[i + 1]
  b[i] = where(i > 0, a[i - 1], 0) + a[i]
  y[i] = where(i < N - 1, b[i + 1], 1) * b[i] - a[i]
schedule: {family: direct}
""")
    reads = [a for a in actual.accesses if a.access.kind == "load"]
    speculated = [a for a in reads if "speculated" in names(a)]
    assert speculated
    assert all(sum(t.lanes for t in a.compiled) == 20 and a.written.lanes == 19 for a in speculated)
    assert all(sum(t.lanes for t in a.compiled) in (0, a.written.lanes) for a in reads if a not in speculated)


@pytest.mark.slow
def test_a_gather_that_runs_without_its_condition_still_has_an_unknown_address():
    actual = single("""
cugen: 1
kernel: chosen
params: {V: 50, N: 5000}
arrays:
  t: {shape: [V, V], dtype: float32, boundary: clamp}
  a: {shape: [N], dtype: uint8}
  b: {shape: [N], dtype: int16}
  y: {shape: [N], dtype: float32}
compute: y[i] = t[a[i] + 1, b[i] - 3] if a[i] > b[i] else t[b[i], a[i]]
""")
    (gather,) = [a for a in actual.accesses if a.access.array.name == "t" and a.instructions]
    assert (gather.compiled, gather.executions) == (None, 157)
    assert "read from memory" in gather.reason


@pytest.mark.slow
def test_a_triangular_loop_runs_in_chunks():
    actual = single(
        statement(
            "y[i] = sum(x[i, k], k, where=k <= i)",
            """
  x: {shape: [N, N], dtype: float32}
  y: {shape: [N], dtype: float32}""",
            "schedule: {family: direct}",
        )
    )
    read = access(actual, "x")
    assert "partially unrolled" in names(read)
    assert sum(t.lanes for t in read.compiled) == read.written.lanes
    assert sum(t.warps for t in read.compiled) > read.written.warps  # single trips at the end, in other lanes


@pytest.mark.slow
def test_trips_whose_values_are_in_registers_are_named_where_the_loop_does_not_make_them_all():
    """45 trips of two loops over one row: the second makes 2 rounds of 20 and has the last 5 from the first."""
    actual = single("""
cugen: 1
kernel: weights
params: {M: 30, N: 45}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M, N], dtype: float32}
compute: "y[i, j] = softmax(x[i, j], j)"
schedule: {family: direct}
""")
    reads = [a for a in actual.accesses if a.access.kind == "load" and len(a.instructions) > 1]
    assert [len(a.instructions) for a in reads] == [45, 20]
    assert [a.reason.partition(":")[0] for a in reads] == ["", "reused"]


@pytest.mark.slow
def test_what_depends_on_data_says_so():
    kernel = compiled(generate(gallery()["gather"]), "sm_90")[0]
    read = access(kernel, "table")
    assert read.compiled is None
    assert "read from memory" in read.reason
    assert read.executions == 150  # whether it runs is known all the same


@pytest.mark.slow
def test_a_store_after_diverged_shuffles_is_in_no_loop():
    """The shuffles stand a second time behind the code, and a branch leads back from there."""
    actual = compiled(generate(gallery()["row_sum"]), "sm_90")[0]
    store = access(actual, "y", "store")
    assert store.compiled == (store.written,)


@pytest.mark.slow
def test_elements_that_never_come_last_are_no_trips():
    """Where a vector doesn't fit, its last element never does: 4 elements of which 3 are written out."""
    for actual in compiled(generate(gallery()["prefix_sum"]), "sm_90"):
        counted = [a for a in actual.accesses if a.reason not in (SPIN_WAIT, DIVERGED_AFTER_WAIT)]
        assert len(counted) == len(actual.accesses) - 2
        assert all(a.compiled is not None for a in counted), [a.reason for a in counted]


def spec_of(text: str) -> Spec:
    (spec,) = load_text(text)
    return spec


CONDITIONAL_POSITION = (
    "cugen: 1\nkernel: k\nparams: {K: 35}\narrays:\n  x: {shape: [5, K], dtype: float32}\n"
    "  y: {shape: [5], dtype: int64}\nindices: {k: K}\ncompute: y[b] = argmin(x[b, k], k, where=k % 2 == 0)\n"
)


@pytest.mark.slow
def test_a_load_in_a_loop_that_diverges_on_data_has_no_figure():
    """Some lanes take the new position, and needn't converge with the others before the next load."""
    (actual,) = compiled(generate(spec_of(CONDITIONAL_POSITION)), "sm_90")
    load = access(actual, "x", "load")
    assert (load.compiled, load.reason) == (None, DIVERGED_BY_DATA)
    assert load.written is not None


@pytest.mark.slow
def test_a_load_of_half_an_element_is_explained_and_has_no_figure():
    """Of the positions of the parts, their signs decide alone."""
    text = CONDITIONAL_POSITION.replace("K: 35", "K: 1542").replace("[5", "[31").replace("float32", "float16")
    last = compiled(generate(spec_of(text.replace("x[b, k]", "abs(x[b, (k * 7) % K])"))), "sm_90")[-1]
    assert last.unexplained == ()
    halves = [a for a in last.accesses if a.instructions and a.reason.startswith("narrowed")]
    assert all(a.compiled is None and a.access.array.dtype.bytes == 8 for a in halves)
    assert halves


PITCHED = "shape: [40, 45, 49], layout: {strides: [2250, 50, 1]}"  # a row ends within a vector
WINDOWS = {
    "box": (
        "shape: [52, 203]",
        "shape: [50, 201]",
        "y[i, j] = x[i + 0, j + 0] + x[i + 0, j + 1] + x[i + 0, j + 2] + x[i + 1, j + 0] + x[i + 1, j + 2]"
        " + x[i + 2, j + 0] + x[i + 2, j + 1] + x[i + 2, j + 2]",
    ),
    "wide": (
        "shape: [130, 170]",
        "shape: [130, 170]",
        "y[i, j] = where(0 < i and i < 129 and 2 < j and j < 167,"
        " x[i - 1, j] + x[i + 1, j] + x[i, j - 3] + x[i, j + 3], x[i, j])",
    ),
    "planes": (
        f"{PITCHED}, boundary: zero",
        PITCHED,
        "y[i, j, k] = x[i - 1, j, k] + x[i + 1, j, k] + x[i, j - 1, k] + x[i, j + 1, k] + x[i, j, k - 1]"
        " + x[i, j, k + 1] - 6 * x[i, j, k]",
    ),
    "strided": (
        "shape: [4, 30, 37], boundary: zero",
        "shape: [15, 19]",
        "y[i, j] = sum("
        + " + ".join(f"x[c, 2 * i + {r}, 2 * j + {s}]" for r in (-2, 0, 2) for s in (-2, -1, 3))
        + ", c)",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WINDOWS))
def test_what_nothing_reads_of_a_window_is_not_loaded(name):
    x, y, compute = WINDOWS[name]
    actual = single(f"""
cugen: 1
kernel: window
arrays:
  x: {{dtype: float32, {x}}}
  y: {{dtype: float32, {y}}}
compute: "{compute}"
schedule: {{family: stencil}}
""")
    eliminated = [a for a in actual.accesses if "eliminated" in names(a)]
    assert eliminated
    assert all(a.compiled is not None for a in actual.accesses)
    for a in eliminated:
        assert sum(t.lanes for t in a.compiled) <= a.written.lanes
        moved = sum(t.lanes * i.bytes for t, i in zip(a.compiled, a.instructions, strict=True))
        assert moved < a.written.lanes * a.written_bytes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sobel", "jacobi2d", "heat3d", "conv_strided_dilated"])
def test_of_windows_of_gallery_kernels_it_is_known_what_is_loaded(name):
    (actual,) = compiled(generate(gallery()[name]), "sm_90")
    assert all(a.compiled is not None for a in actual.accesses), [a.reason for a in actual.accesses]
