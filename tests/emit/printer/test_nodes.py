"""Nodes of a plan as C, as the statement printer prints them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cugen.emit.layout import tidy
from cugen.emit.printer.nodes import NodePrinter
from cugen.emit.printer.statements import StatementPrinter, checked
from cugen.plan.memory import Access, Array, Element, IndexLocal, Shuffled, Start, Vector
from cugen.plan.nodes import (
    Accumulate,
    AcquireSpinWait,
    Assign,
    AwaitCopies,
    Barrier,
    ClusterBarrier,
    Comment,
    CommitCopies,
    Comparison,
    Copy,
    CountArrival,
    Declare,
    Define,
    FetchBlockId,
    For,
    Guard,
    If,
    Index,
    Let,
    Load,
    LoadBlockId,
    Loop,
    ReleaseFlag,
    ReturnUnless,
    Section,
    Store,
)
from cugen.plan.symbols import Choice, Mod, Size, integer, symbol
from cugen.spec.expressions import Const, Local, Op
from cugen.spec.types import BOOL, FLOAT16, FLOAT32, INT8, INT32, INT64, UINT64

ROW, K, M = symbol("row"), symbol("k"), symbol("M")
RANGES = {ROW: (0, 999), K: (0, 99), M: (1, 1000), symbol("lanes"): (0, 31), symbol("stage"): (0, 2)}
X = Local("x", FLOAT32)
GUARD = Guard((Comparison(ROW, "<", M),))


def array(name, dtype=FLOAT32, shape=(M,), space="global", **more):
    strides = tuple(integer(1) for _ in shape)
    return Array(name, name, dtype, tuple(shape), strides, space, flat=more.pop("flat", True), **more)


A, H = array("A"), array("H", FLOAT16)
TILE = array("As", shape=(integer(16), integer(17)), space="shared", flat=False)
SUMS = array("sums", shape=(integer(4),), space="register", flat=False)
SLOT = array("block_sum", shape=(integer(1),), space="shared", flat=False)
FLAGS = array("flags", INT32, writable=True)
TICKET = array("ticket_of_block", INT32, shape=(), space="shared", flat=False)


@pytest.fixture
def text():
    def print_nodes(*nodes, claims=None):
        printer = NodePrinter(RANGES, {}, {"M": "M"}, claims)
        statements = StatementPrinter(printer)
        return tidy(checked(statements.barrier(Section("body", nodes)), statements, nodes, "k")).splitlines()

    return print_nodes


def access(array, *subscripts, kind="load", width=1):
    return Access(array, subscripts, kind, width)


@pytest.mark.parametrize(
    ("node", "line"),
    [
        (Define(Index("i", ROW + 1, (1, 1000))), "const int i = row + 1;"),
        (ClusterBarrier(), "cluster.sync();"),
        (ClusterBarrier("arrive"), "cluster.barrier_arrive();"),
        (
            Assign(X, Element.of(Access(SLOT, (integer(0),), "load", rank=ROW + 1))),
            "x = cluster.map_shared_rank(block_sum, row + 1)[0];",
        ),
        (CommitCopies(), "__pipeline_commit();"),
        (AwaitCopies(2), "__pipeline_wait_prior(2);"),
        (
            FetchBlockId(access(TICKET, kind="store"), access(FLAGS, integer(0), kind="atomic")),
            "ticket_of_block = atomicAdd(&flags[0], 1);",
        ),
        (
            FetchBlockId(access(TICKET, kind="store"), access(FLAGS, integer(0), kind="atomic"), wraps=True),
            "ticket_of_block = atomicInc(&flags[0], gridDim.x - 1);",
        ),
        (
            LoadBlockId(Index("ticket", symbol("blockIdx.x"), (0, 99)), access(TICKET)),
            "const int ticket = ticket_of_block;",
        ),
        (
            Copy(access(TILE, K, ROW, kind="async_copy", width=4), access(A, ROW, width=4)),
            "__pipeline_memcpy_async(&As[k][row], &A[row], 16);",
        ),
        (
            Copy(access(TILE, K, ROW, kind="async_copy"), access(A, ROW), GUARD),
            "__pipeline_memcpy_async(&As[k][row], &A[row], 4, row < M ? 0 : 4);",
        ),
        (
            Copy(access(TILE, K, ROW, kind="store", width=2), access(A, ROW, width=2)),
            "store<2>(&As[k][row], load<2>(&A[row]));",
        ),
        (Define(Index("i", ROW * 10**7, (0, 10**10))), "const long long i = 10000000LL * row;"),
        (Let(X, Const(1, FLOAT32)), "const float x = 1.0f;"),
        (Let(X, Const(0, FLOAT32), mutable=True), "float x = 0.0f;"),
        (Let(X, None, mutable=True), "float x;"),
        (Let(Vector("x4", FLOAT32, FLOAT32, 4), None), "Vector<float, 4> x4;"),
        (Load(X, access(A, ROW)), "const float x = A[row];"),
        (Load(X, access(H, ROW)), "const float x = __half2float(H[row]);"),
        (Load(X, access(A, ROW), GUARD, Const(0, FLOAT32)), "const float x = row < M ? A[row] : 0.0f;"),
        (
            Load(Vector("x4", FLOAT32, FLOAT32, 4), access(A, ROW, width=4)),
            "const auto x4 = load<4>(&A[row]);",
        ),
        (
            Assign(Vector("x4", FLOAT32, FLOAT32, 4), Element.of(access(A, ROW, width=4))),
            "x4 = load<4>(&A[row]);",
        ),
        (Load(X, access(array("R", space="readonly"), ROW)), "const float x = __ldg(&R[row]);"),
        (Store(access(A, ROW), X), "A[row] = x;"),
        (Store(access(H, ROW), X), "H[row] = __float2half_rn(x);"),
        (Accumulate(access(SUMS, K), X), "sums[k] += x;"),
        (Copy(access(TILE, ROW, K), access(A, ROW)), "As[row][k] = A[row];"),
        (Copy(access(TILE, ROW, K), access(A, ROW), GUARD), "As[row][k] = row < M ? A[row] : 0.0f;"),
        (Assign(X, Const(2, FLOAT32)), "x = 2.0f;"),
        (Assign(X, Op("add", (X, Const(2, FLOAT32)), FLOAT32)), "x += 2.0f;"),
        (Assign(X, Op("mul", (X, Element.of(access(TILE, ROW, K))), FLOAT32)), "x *= As[row][k];"),
        (Declare(TILE), "__shared__ float As[16][17];"),
        (Declare(replace(TILE, align=16)), "__shared__ __align__(16) float As[16][17];"),
        (Declare(SUMS), "float sums[4];"),
        (Declare(SUMS, zeroed=True), "float sums[4] = {};"),
        (Barrier(), "__syncthreads();"),
        (Comment("the tile is full"), "// the tile is full"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_node_is_a_line(text, node, line):
    assert text(node) == [line]


def test_a_thread_without_work_returns(text):
    assert text(ReturnUnless(GUARD)) == ["if (row >= M)", "    return;"]


@pytest.mark.parametrize(
    ("loop", "header"),
    [
        ({}, "for (int k = 0; k < M; ++k) {"),
        ({"step": 16}, "for (int k = 0; k < M; k += 16) {"),
        ({"start": ROW, "stop": ROW + 1}, "for (int k = row; k <= row; ++k) {"),
        ({"downward": True}, "for (int k = M - 1; k >= 0; --k) {"),
    ],
)
def test_loop_headers(text, loop, header):
    made = Loop(**{"index": Index("k", K, (0, 99)), "start": integer(0), "stop": M} | loop)
    assert text(For(made, (Assign(X, Const(1, FLOAT32)),))) == [header, "    x = 1.0f;", "}"]


def test_an_index_with_an_increment_is_counted_in_the_loop_head(text):
    stage = Index("stage", Mod(K, integer(3)), (0, 2))
    next_stage = Choice(stage.symbol, integer(2), stage.symbol + 1, integer(0))
    loop = For(Loop(Index("k", K, (0, 99)), integer(0), M), (Define(stage, next_stage), Barrier()))
    assert text(loop) == [
        "for (int k = 0, stage = 0; k < M; ++k, stage = stage < 2 ? stage + 1 : 0) {",
        "    __syncthreads();",
        "}",
    ]


def test_an_index_is_computed_as_it_is_shown(text):
    other_stage = Index("other_stage", Mod(K + 1, integer(2)), (0, 1), shown=1 - ROW)
    assert text(Define(other_stage)) == ["const int other_stage = 1 - row;"]


def test_a_start_in_a_tile_is_a_pointer_to_its_rows(text):
    start = Start("a_rows", TILE, (integer(4), ROW))
    read = Element.of(Access(TILE, (K + 4, ROW + 1), "load", start=start))
    assert text(start) == ["const float (*a_rows)[17] = reinterpret_cast<const float (*)[17]>(&As[4][row]);"]
    assert text(Assign(X, read)) == ["x = a_rows[k][1];"]


def test_a_loop_over_more_than_32_bits_counts_in_64(text):
    loop = Loop(Index("k", K, (0, 2**40)), integer(0), M)
    assert text(For(loop, (Barrier(),)))[0] == "for (long long k = 0; k < M; ++k) {"


def test_loops_are_unrolled_or_kept_rolled_on_request(text):
    index = Index("k", K, (0, 3))
    assert text(For(Loop(index, integer(0), integer(4), unroll=True), (Barrier(),)))[0] == "#pragma unroll"
    assert text(For(Loop(index, integer(0), integer(4), rolled=True), (Barrier(),)))[0] == "#pragma unroll 1"


def test_choices_by_guard_and_by_data(text):
    positive = Op("gt", (X, Const(0, FLOAT32)), BOOL)
    assert text(If(GUARD, (Barrier(),))) == ["if (row < M) {", "    __syncthreads();", "}"]
    assert text(If(positive, (Assign(X, Const(1, FLOAT32)),), (Assign(X, Const(2, FLOAT32)),))) == [
        "if (x > 0.0f) {",
        "    x = 1.0f;",
        "} else {",
        "    x = 2.0f;",
        "}",
    ]


def test_nested_blocks_are_indented_once_each(text):
    inner = If(GUARD, (For(Loop(Index("k", K, (0, 3)), integer(0), integer(4)), (Barrier(),)),))
    assert text(inner, Barrier()) == [
        "if (row < M) {",
        "    for (int k = 0; k < 4; ++k) {",
        "        __syncthreads();",
        "    }",
        "}",
        "__syncthreads();",
    ]


def test_dynamic_tiles_are_carved_out_of_one_array(text):
    tile = array(
        "As", FLOAT16, (integer(16), integer(16)), "shared", flat=False, pad=1, dynamic=True, dynamic_offset=64
    )
    row = array("Bs", INT8, (integer(16),), "shared", flat=False, dynamic=True)
    assert text(Declare(tile), Declare(row)) == [
        "__half (*As)[17] = reinterpret_cast<__half (*)[17]>(shared_memory + 64);",
        "signed char* Bs = reinterpret_cast<signed char*>(shared_memory);",
    ]


def test_a_dynamic_tile_begins_at_the_end_of_another(text):
    def dynamic(name, dtype, shape, offset):
        return array(name, dtype, shape, "shared", flat=False, dynamic=True, dynamic_offset=offset)

    tiles = [
        dynamic("As", FLOAT16, (integer(3), integer(16)), 0),
        dynamic("full", UINT64, (integer(3),), 96),
        dynamic("empty", UINT64, (integer(3),), 120),
        dynamic("apart", UINT64, (integer(3),), 152),
    ]
    assert text(*map(Declare, tiles)) == [
        "__half (*As)[16] = reinterpret_cast<__half (*)[16]>(shared_memory);",
        "unsigned long long* full = reinterpret_cast<unsigned long long*>(As + 3);",
        "unsigned long long* empty = full + 3;",
        "unsigned long long* apart = reinterpret_cast<unsigned long long*>(shared_memory + 152);",
    ]


def test_a_table_in_registers_begins_with_its_values(text):
    table = array("W", shape=(integer(2), integer(2)), space="register", flat=False, values=(1, 2, 3, 4))
    assert text(Declare(table)) == ["const float W[2][2] = {", "    {1.0f, 2.0f},", "    {3.0f, 4.0f},", "};"]


def test_an_int64_that_fits_an_int_is_long_where_it_is_stored_in_a_local(text):
    value = Op("add", (IndexLocal("k", INT64), Const(1, INT64)), INT64)
    assert text(Let(Local("next", INT64), value)) == ["const long long next = k + 1;"]


def test_components_of_vectors(text):
    x4, h4 = Vector("x4", FLOAT32, FLOAT32, 4), Vector("h4", FLOAT32, FLOAT16, 4)
    assert text(Assign(x4.component(K), Const(1, FLOAT32))) == ["x4.data[k] = 1.0f;"]
    grown = Op("add", (x4.component(K), X), FLOAT32)
    assert text(Assign(x4.component(K), grown)) == ["x4.data[k] += x;"]
    assert text(Assign(x4.component(ROW), grown)) == ["x4.data[row] = x4.data[k] + x;"]
    assert text(Assign(h4.component(K), h4.component(ROW))) == ["h4.data[k] = h4.data[row];"]
    assert text(Assign(h4.component(K), x4.component(ROW))) == ["h4.data[k] = __float2half_rn(x4.data[row]);"]
    assert text(Assign(h4.component(K), Element.of(access(H, ROW)))) == ["h4.data[k] = H[row];"]
    assert text(Store(access(H, ROW, kind="store"), h4.component(K))) == ["H[row] = h4.data[k];"]
    assert text(Store(access(A, ROW, kind="store", width=4), x4)) == ["store<4>(&A[row], x4);"]


def test_rows_of_vectors(text):
    row = Vector("x4", FLOAT32, FLOAT32, 4, count=2)
    assert text(Let(row, None)) == ["Vector<float, 4> x4[2];"]
    assert text(Let(row, Const(0, FLOAT32))) == ["Vector<float, 4> x4[2] = {};"]
    load = Load(row.indexed(K), access(A, ROW, width=4))
    assert text(load) == ["x4[k] = load<4>(&A[row]);"]
    assert text(Assign(X, row.indexed(K).component(integer(3)))) == ["x = x4[k].data[3];"]
    assert text(Assign(row.indexed(K), Vector("y4", FLOAT32, FLOAT32, 4))) == ["x4[k] = y4;"]
    store = Store(access(A, ROW, kind="store", width=4), row.indexed(K))
    assert text(store) == ["store<4>(&A[row], x4[k]);"]


def test_a_butterfly_halves_its_lanes(text):
    lanes = Index("lanes", integer(0), (0, 31))
    step = Assign(X, Op("add", (X, Shuffled("x", FLOAT32, lanes.symbol)), FLOAT32))
    assert text(For(Loop(lanes, integer(0), integer(4), unroll=True, halves=8), (step,))) == [
        "#pragma unroll",
        "for (int lanes = 8; lanes > 0; lanes /= 2) {",
        "    x += __shfl_xor_sync(0xffffffff, x, lanes);",
        "}",
    ]


def test_a_scan_doubles_its_reach(text):
    lanes = Index("lanes", integer(0), (0, 31))
    step = Assign(X, Shuffled("x", FLOAT32, lanes.symbol, "up"))
    assert text(For(Loop(lanes, integer(0), integer(3), unroll=True, doubles=4), (step,))) == [
        "#pragma unroll",
        "for (int lanes = 4; lanes < 32; lanes *= 2) {",
        "    x = __shfl_up_sync(0xffffffff, x, lanes);",
        "}",
    ]


def test_a_remark_about_an_access_is_printed_above_its_node(text):
    node = Load(X, access(A, ROW))
    assert text(Barrier(), node, claims={node.access.serial: "coalesced"}) == [
        "__syncthreads();",
        "// A[row]: coalesced",
        "const float x = A[row];",
    ]


def test_a_block_arrives_between_fences(text):
    assert text(CountArrival(access(TICKET, kind="store"), access(FLAGS, ROW, kind="atomic"), integer(4))) == [
        "__threadfence();",
        "ticket_of_block = atomicInc(&flags[row], 3);",
        "__threadfence();",
    ]


def test_a_flag_is_set_after_a_fence_and_awaited_before_one(text):
    ready = Const(1, INT32)
    assert text(ReleaseFlag(access(FLAGS, ROW, kind="atomic"), ready)) == [
        "__threadfence();",
        "atomicExch(&flags[row], 1);",
    ]
    assert text(AcquireSpinWait(access(FLAGS, ROW - 1), ready)) == [
        "while (__ldcv(&flags[row - 1]) != 1)",
        "    __nanosleep(32);",
        "__threadfence();",
    ]


# Named sizes

BK, STAGES = symbol("BK"), symbol("STAGES")


def constant(name, value):
    return Define(Index(name, integer(value), (value, value), constant=True))


@pytest.fixture
def sized():
    """Prints nodes between constants of their own."""
    ranges = {**RANGES, BK: (8, 8), STAGES: (4, 4), symbol("blockIdx.x"): (0, 99)}
    printer = NodePrinter(ranges, {}, {"M": "M"}, constants=("BK", "STAGES"))

    def print_nodes(*nodes):
        statements = StatementPrinter(printer)
        return checked(statements.body(Section("part", nodes)), statements, nodes, "k").splitlines()

    return print_nodes


def test_adjacent_constants_share_a_declaration(sized):
    assert sized(constant("BK", 8), constant("STAGES", 4), Comment("next")) == [
        "constexpr int BK = 8, STAGES = 4;",
        "// next",
    ]


def test_constants_are_printed_as_numbers_are(sized):
    (text,) = sized(Define(Index("i", BK * ROW + 4 * K, (0, 9000))))
    assert text == "const int i = BK * row + 4 * k;"
    (text,) = sized(Define(Index("i", symbol("blockIdx.x") * BK, (0, 9000))))
    assert text == "const int i = blockIdx.x * BK;"
    (text,) = sized(Define(Index("i", M + BK - 1 + ROW, (0, 9000))))
    assert text == "const int i = row + M + BK - 1;"


def test_sizes_are_printed_by_their_names(sized):
    size, stages = Size(8, BK), Size(4, STAGES)
    k = Index("k", integer(0), (0, 99))
    assert sized(For(Loop(k, integer(0), M, size), ()))[0] == "for (int k = 0; k < M; k += BK) {"
    assert sized(AwaitCopies(stages - 2)) == ["__pipeline_wait_prior(STAGES - 2);"]
    assert sized(Let(Vector("x4", FLOAT32, FLOAT32, 4, size // 4), None)) == ["Vector<float, 4> x4[BK / 4];"]
    tile = replace(TILE, printed_shape=(2 * integer(size), integer(size + 9)))
    assert sized(Declare(tile)) == ["__shared__ float As[2 * BK][BK + 9];"]


def test_a_tile_is_not_printed_with_other_extents_than_its_own(sized):
    with pytest.raises(AssertionError, match="As"):
        sized(Declare(replace(TILE, printed_shape=(integer(16), BK))))


def test_a_name_has_the_type_and_the_range_of_its_own_scope(text):
    assert text(scope_of_row(9), scope_of_row(2**40), scope_of_row(9)) == [
        *("if (row < M) {", "    const int k = 9 * row;", "    const long long offset = (long long)M * k;", "}"),
        *("if (row < M) {", "    const long long k = 1099511627776LL * row;"),
        *("    const long long offset = (long long)M * k;", "}"),
        *("if (row < M) {", "    const int k = 9 * row;", "    const long long offset = (long long)M * k;", "}"),
    ]


def scope_of_row(factor):
    """A scope in which `k` is `factor` times the row, and a product of `k` that needs 64 bits."""
    k = Index("k", ROW * factor, (0, 999 * factor))
    return If(GUARD, (Define(k), Define(Index("offset", K * M, (0, 2**50)))))
