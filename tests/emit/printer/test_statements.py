"""Sections of a plan as a template places them: the statements of every node, and what a template can't do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import pytest

from cugen.emit.environment import environment
from cugen.emit.printer.nodes import NodePrinter
from cugen.emit.printer.statements import EmissionError, Sections, StatementPrinter, checked
from cugen.machine.mma import float64_instruction
from cugen.machine.wgmma import INSTRUCTIONS
from cugen.pieces.kernels import dense_array
from cugen.plan import nodes, pipeline_nodes
from cugen.plan.memory import Access, Array, TensorMap, Vector
from cugen.plan.memory import Start as BasePointer
from cugen.plan.nodes import (
    Barrier,
    Comment,
    Comparison,
    Define,
    For,
    FunctionCall,
    Guard,
    If,
    Index,
    Loop,
    Node,
    Section,
    Store,
)
from cugen.plan.symbols import Integer, integer, symbol
from cugen.plan.traversal.sections import dissolved
from cugen.plan.traversal.walking import walk_nodes
from cugen.spec.expressions import Const, Local
from cugen.spec.types import FLOAT32, INT32, UINT64

ROW, K, N = symbol("row"), symbol("k"), symbol("N")
RANGES = {ROW: (0, 999), K: (0, 9), N: (1, 1000)}
X = Local("x", FLOAT32)
UNIT = Const(1, FLOAT32)
INSIDE = Guard((Comparison(ROW, "<", N),))
BODY = "{{ body(parts.all) }}"


def array(name: str, space: str = "global", *, count: int = 16) -> Array:
    dtype = INT32 if name in ("flags", "block") else FLOAT32
    return Array(name, name, dtype, (integer(count),), (integer(1),), space, flat=space == "global", writable=True)


A, TILE, ACC = array("A"), array("tile", "shared"), array("acc", "register")
FLAGS, BLOCK = array("flags"), array("block", "shared", count=1)
FULL = Array("full", "full", UINT64, (integer(2),), (integer(1),), "shared", flat=False, writable=True)
BOXES = Array(
    "A",
    "A_map",
    FLOAT32,
    (integer(64), integer(64)),
    (integer(64), integer(1)),
    "tensor",
    flat=False,
    writable=True,
    tensor_map=TensorMap((8, 32), 128),
)


def access(accessed: Array, subscript: Integer, kind: str = "load") -> Access:
    return Access(accessed, (subscript,), kind)


def box(outer: Integer, inner: Integer, kind: str = "load") -> Access:
    return Access(BOXES, (outer, inner), kind)


def loop(*body: Node, stop: int = 10, unroll: bool = False, rolled: bool = False, unroll_by: int = 0) -> For:
    index = Index("k", K, (0, stop - 1))
    return For(Loop(index, integer(0), integer(stop), unroll=unroll, rolled=rolled, unroll_by=unroll_by), body)


def printed(template: str, *sections: Section, remarks: Mapping[int, str] | None = None) -> str:
    """The text that a template makes of sections. EmissionError unless it has their order and nesting."""
    statements = StatementPrinter(NodePrinter(RANGES, {}, {"N": "N"}, remarks))
    text = environment().from_string(template).render(parts=Sections(sections), **statements.functions())
    return checked(text, statements, dissolved(sections), "sum_rows")


EVERY_NODE: tuple[Node, ...] = (
    nodes.Define(Index("row", symbol("threadIdx.x"), (0, 999))),
    BasePointer("a_start", A, (ROW,)),
    nodes.Assume(INSIDE),
    nodes.ReturnUnless(INSIDE),
    nodes.Declare(TILE),
    nodes.Let(X, UNIT, mutable=True),
    nodes.Load(Local("a", FLOAT32), access(A, ROW)),
    nodes.Copy(access(TILE, ROW, "async_copy"), access(A, ROW)),
    nodes.CommitCopies(),
    nodes.AwaitCopies(1),
    Barrier(),
    nodes.NamedBarrier(integer(0), 64),
    nodes.ClusterBarrier(),
    loop(nodes.Accumulate(access(ACC, K), X)),
    nodes.Mma(
        access(ACC, integer(0)),
        access(ACC, integer(2)),
        access(TILE, integer(0)),
        access(TILE, integer(1)),
        float64_instruction(8),
    ),
    nodes.ConvertFragment(access(ACC, integer(0), "store"), access(ACC, integer(2)), "finite_bfloat16"),
    nodes.LoadMatrix(Access(ACC, (integer(0),), "store", 4), access(TILE, integer(0), "matrix_load")),
    nodes.StoreMatrix(access(TILE, integer(0), "matrix_store"), Vector("fragment", FLOAT32, FLOAT32, 1, 4)),
    pipeline_nodes.PrefetchTensorMap(BOXES),
    pipeline_nodes.InitBarrier(access(FULL, integer(0), "store"), 1),
    pipeline_nodes.FenceBarrierInit(),
    pipeline_nodes.ArriveBarrier(access(FULL, integer(0), "store"), integer(1024)),
    pipeline_nodes.ArriveBarrier(access(FULL, integer(1), "store")),
    pipeline_nodes.ArriveBarrier(access(FULL, integer(1), "store"), rank=K),
    pipeline_nodes.TensorLoad(access(TILE, integer(0), "store"), box(ROW, K), access(FULL, integer(0), "store")),
    pipeline_nodes.TensorLoad(access(TILE, integer(0), "store"), box(ROW, K), access(FULL, integer(0), "store"), 2),
    pipeline_nodes.AwaitBarrier(access(FULL, integer(0)), integer(1)),
    pipeline_nodes.SetMaxRegisters(40, increases=False),
    pipeline_nodes.SetMaxRegisters(232, increases=True),
    pipeline_nodes.FenceWgmma(),
    pipeline_nodes.Wgmma(
        access(ACC, integer(0)),
        access(ACC, integer(8)),
        Access(dense_array("a", FLOAT32, (2, 64, 16), "shared"), (integer(0), integer(8), K), "operand"),
        Access(dense_array("b", FLOAT32, (2, 2, 16, 64), "shared"), (integer(1), integer(0), K, integer(0)), "operand"),
        INSTRUCTIONS["bfloat16", "bfloat16"],
        32,
        K,
        b_block_bytes=8192,
    ),
    pipeline_nodes.CommitWgmmas(),
    pipeline_nodes.AwaitWgmmas(0),
    pipeline_nodes.FenceProxy(),
    pipeline_nodes.TensorStore(box(ROW, K, "store"), access(TILE, integer(0))),
    pipeline_nodes.CommitTensorStores(),
    pipeline_nodes.AwaitTensorStores(1),
    nodes.AtomicAdd(access(FLAGS, ROW, "atomic"), X),
    nodes.FetchBlockId(access(BLOCK, integer(0), "store"), access(FLAGS, integer(0), "atomic")),
    nodes.LoadBlockId(Index("id", symbol("blockIdx.x"), (0, 99)), access(BLOCK, integer(0))),
    nodes.CountArrival(access(BLOCK, integer(0), "store"), access(FLAGS, integer(1), "atomic"), integer(4)),
    nodes.ReleaseFlag(access(FLAGS, integer(2), "atomic"), Const(1, INT32)),
    nodes.AcquireSpinWait(access(FLAGS, integer(3)), Const(1, INT32)),
    If(INSIDE, (nodes.Assign(X, UNIT),), (Comment("out of bounds"),)),
    Store(access(A, ROW, "store"), X),
)
TEXT = """\
const int row = threadIdx.x;
const float* a_start = &A[row];
__builtin_assume(row < N);
if (row >= N)
    return;
__shared__ float tile[16];
float x = 1.0f;
const float a = A[row];
__pipeline_memcpy_async(&tile[row], &A[row], 4);
__pipeline_commit();
__pipeline_wait_prior(1);
__syncthreads();
__barrier_sync_count(1, 64);
cluster.sync();
for (int k = 0; k < 10; ++k) {
    acc[k] += x;
}
mma_m16n8k8(&acc[0], &acc[2], tile, tile[1]);
finite_bfloat16(acc[2], acc[0]);
ldmatrix_x4(&acc[0], &tile[0]);
stmatrix_x4(&tile[0], fragment);
prefetch_tensor_map(&A_map);
mbarrier_init(&full[0], 1);
mbarrier_init_fence();
mbarrier_arrive_expect_tx(&full[0], 1024);
mbarrier_arrive(&full[1]);
mbarrier_arrive_cluster(&full[1], k);
tma_load_2d(&tile[0], &A_map, &full[0], k, row);
tma_load_2d_multicast(&tile[0], &A_map, &full[0], 3, k, row);
mbarrier_wait(&full[0], 1);
setmaxnreg_dec<40>();
setmaxnreg_inc<232>();
wgmma_fence();
wgmma_m64n32k16_bf16<false, true>(&acc[0], &acc[8], k_major_matrix(&a[0][8][0], k), \
mn_major_matrix<8192>(&b[1][0][0][0], k), k > 0);
wgmma_commit();
wgmma_wait<0>();
fence_proxy_async();
tma_store_2d(&A_map, &tile[0], k, row);
tma_store_commit();
tma_store_wait_read<1>();
atomicAdd(&flags[row], x);
block[0] = atomicAdd(&flags[0], 1);
const int id = block[0];
__threadfence();
block[0] = atomicInc(&flags[1], 3);
__threadfence();
__threadfence();
atomicExch(&flags[2], 1);
while (__ldcv(&flags[3]) != 1)
    __nanosleep(32);
__threadfence();
if (row < N) {
    x = 1.0f;
} else {
    // out of bounds
}
A[row] = x;"""


def test_every_node_is_a_statement() -> None:
    statements = StatementPrinter(NodePrinter(RANGES, {}, {"N": "N"}))
    text = statements.barrier(Section("all", EVERY_NODE))
    assert checked(text, statements, EVERY_NODE, "sum_rows") == TEXT
    types = {type(node) for node in walk_nodes(EVERY_NODE)}
    assert types == set(get_args(Node)) - {Section}


@pytest.mark.parametrize(
    ("node", "head"),
    [
        pytest.param(loop(Comment("body")), [], id="plain"),
        pytest.param(loop(Comment("body"), unroll=True), ["#pragma unroll"], id="unroll"),
        pytest.param(loop(Comment("body"), rolled=True), ["#pragma unroll 1"], id="rolled"),
        pytest.param(loop(Comment("body"), unroll_by=4), ["#pragma unroll 4"], id="unroll by 4"),
    ],
)
@pytest.mark.parametrize(
    "template",
    [
        pytest.param(BODY, id="body"),
        pytest.param("{% call(step) loop_over(parts.all) %}\n{{ body(step.only) }}\n{% endcall %}", id="call"),
    ],
)
def test_a_loop_has_its_pragma_whoever_prints_it(node: For, head: list[str], template: str) -> None:
    sections = Section("all", (For(node.loop, (Section("only", node.body),)),))
    lines = [*head, "for (int k = 0; k < 10; ++k) {", "    // body", "}"]
    assert printed(template, sections).splitlines() == lines


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(BODY, id="body"),
        pytest.param("{% call(then) branch(parts.all) %}\n{{ body(then.only) }}\n{% endcall %}", id="call"),
    ],
)
def test_a_branch_has_its_else_whoever_prints_it(template: str) -> None:
    branch = If(INSIDE, (Section("only", (Comment("full"),)),), (Comment("partial"),))
    lines = ["if (row < N) {", "    // full", "} else {", "    // partial", "}"]
    assert printed(template, Section("all", (branch,))).splitlines() == lines


def test_a_remark_is_above_its_statement() -> None:
    store = Store(access(A, ROW, "store"), X)
    text = printed(BODY, Section("all", (store,)), remarks={store.access.serial: "coalesced"})
    assert text == "// A[row]: coalesced\nA[row] = x;"


def test_the_line_of_an_empty_section_vanishes() -> None:
    template = "{{ body(parts.load) }}\n{{ body(parts.compute) }}\n{{ body(parts.store) }}\n"
    sections = Section("load", (Comment("load"),)), Section("compute", ()), Section("store", (Comment("store"),))
    assert printed(template, *sections) == "// load\n// store\n"


LOAD, MULTIPLY, STORE = (Section(name, (Comment(name),)) for name in ("load", "multiply", "store"))
MAIN_LOOP = Section("main_loop", (loop(LOAD, MULTIPLY),))
GOOD = """\
{% call(step) loop_over(parts.main_loop) %}
{{ body(step.load) }}
{{ body(step.multiply) }}
{% endcall %}
{{ body(parts.store) }}
"""


def test_a_template_places_the_sections_in_the_plans_order() -> None:
    lines = ["for (int k = 0; k < 10; ++k) {", "    // load", "    // multiply", "}", "// store"]
    assert printed(GOOD, MAIN_LOOP, STORE).splitlines() == lines


@pytest.mark.parametrize(
    ("line", "replacement", "message"),
    [
        ("{{ body(step.multiply) }}\n", "", "prints the end of a loop"),
        ("{{ body(parts.store) }}\n", "", "leaves out Comment"),
        ("{{ body(parts.store) }}\n", "{{ body(parts.store) }}\n{{ body(parts.store) }}\n", "prints twice Comment"),
        (
            "{{ body(step.load) }}\n{{ body(step.multiply) }}\n",
            "{{ body(step.multiply) }}\n{{ body(step.load) }}\n",
            "prints Comment as statement 2",
        ),
        ("{% endcall %}\n{{ body(parts.store) }}\n", "{{ body(parts.store) }}\n{% endcall %}\n", "prints Comment"),
    ],
    ids=["left out of a loop", "left out", "printed twice", "swapped", "moved into the loop"],
)
def test_a_template_can_not_print_another_program(line: str, replacement: str, message: str) -> None:
    assert line in GOOD
    with pytest.raises(EmissionError, match=message):
        printed(GOOD.replace(line, replacement), MAIN_LOOP, STORE)


def test_only_a_section_of_one_loop_is_looped_over() -> None:
    template = "{% call(step) loop_over(parts.store) %}{% endcall %}"
    with pytest.raises(EmissionError, match="section store should be one For, it has Comment"):
        printed(template, STORE)
    with pytest.raises(EmissionError, match="section store should be one For, it has nothing"):
        printed(template)


def test_every_node_of_a_loop_that_a_template_opens_is_in_a_section() -> None:
    section = Section("main_loop", (loop(LOAD, Barrier()),))
    with pytest.raises(EmissionError, match="Barrier in section main_loop has no section of its own"):
        printed("{% call(step) loop_over(parts.main_loop) %}{{ body(step.load) }}{% endcall %}", section)


def test_sections_of_one_body_have_different_names() -> None:
    with pytest.raises(EmissionError, match="two sections have one name among load, load"):
        Sections((LOAD, LOAD))


def call(definition: Integer = ROW + 1) -> FunctionCall:
    body = Comment("the row below"), Define(Index("below", definition, (1, 1000)))
    return FunctionCall("position", body, "sum_rows_position", (symbol("below"),), "A position.")


def test_a_call_stands_for_the_definitions_of_its_function() -> None:
    text = printed("{{ function_call(parts.position) }}\n{{ body(parts.store) }}", call(), STORE)
    assert text.splitlines() == ["const auto [below] = sum_rows_position(row);", "// store"]


def test_calls_of_one_function_have_the_same_definitions() -> None:
    statements = StatementPrinter(NodePrinter(RANGES, {}, {"N": "N"}))
    statements.function_call(call())
    statements.function_call(call())
    with pytest.raises(EmissionError, match="sum_rows_position would have other definitions in section position"):
        statements.function_call(call(ROW + 2))


def test_a_template_calls_functions_only() -> None:
    with pytest.raises(EmissionError, match="section store is no function's call"):
        printed("{{ function_call(parts.store) }}", STORE)


def test_a_call_is_in_its_place() -> None:
    with pytest.raises(EmissionError, match="the template prints Comment as statement 1, where the plan has Comment"):
        printed("{{ function_call(parts.position) }}\n{{ body(parts.store) }}", STORE, call())
