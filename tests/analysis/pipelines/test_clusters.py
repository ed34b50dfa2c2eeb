"""The synchronisation of blocks that share tiles is proved, and of none with a planted fault."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cugen.families.gemm.wgmma.selection import BLOCK_M, BLOCK_N
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import Barrier, ClusterBarrier, Comparison, For, Guard, If, Node
from cugen.plan.pipeline_nodes import ArriveBarrier, AwaitBarrier, FenceBarrierInit, InitBarrier, TensorLoad
from cugen.plan.symbols import FloorDiv, integer, symbol
from cugen.spec.diagnostics import SpecError

from .conftest import changed, gemm, nodes_of, nth, proof_of, refuted

RANK, LANE = symbol("rank"), symbol("lane")
KERNELS = {
    "persistent": lambda: gemm(schedule="block: {m: 128, n: 128}, multicast: 2"),
    "two tiles": lambda: gemm(300, 200, 264, schedule="block: {m: 64, n: 64}, multicast: 2, stages: 2"),
    "MN-major": lambda: gemm(layouts="KM KN", schedule="block: {m: 128, n: 256}, multicast: 2"),
    "no refill": lambda: gemm(256, 256, 192, schedule="block: {m: 64, n: 128}, multicast: 2"),
}
# Whose blocks share tiles of B with those along M, and of A with those along N.
IN_BOTH = {
    "2 x 2": lambda: gemm(schedule="block: {m: 128, n: 128}, multicast: 2, multicast_n: 2"),
    "2 x 4": lambda: gemm(layouts="KM KN", schedule="block: {m: 256, n: 128}, multicast: 2, multicast_n: 4"),
    "4 x 2": lambda: gemm(schedule="block: {m: 64, n: 192}, multicast: 4, multicast_n: 2, stages: 3"),
    "no refill": lambda: gemm(256, 256, 192, schedule="block: {m: 64, n: 64}, multicast: 2, multicast_n: 2"),
    "swapped": lambda: gemm(schedule="block: {m: 144, n: 128}, multicast: 2, multicast_n: 2, swap_ab: true"),
}
REFILLED = {name: kernel for name, kernel in KERNELS.items() if name != "no refill"}

every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
every_refilled_kernel = pytest.mark.parametrize("kernel", REFILLED.values(), ids=REFILLED)


def unknown(kernel: Kernel) -> list[str]:
    """The names of the unknown claims, where none is refuted."""
    assert proof_of(kernel).verdict == "unknown", proof_of(kernel).line
    return [claim.name for claim in proof_of(kernel).claims if claim.verdict == "unknown"]


@every_kernel
def test_blocks_that_share_tiles_are_proved(kernel):
    proof = proof_of(kernel())
    assert proof.line.startswith("proved"), proof.line
    assert proof.line.endswith(", B's tiles are shared by 2 blocks")


@pytest.mark.parametrize("kernel", IN_BOTH.values(), ids=IN_BOTH)
def test_blocks_that_share_tiles_of_both_operands_are_proved(kernel):
    proof = proof_of(kernel())
    assert proof.line.startswith("proved"), proof.line
    assert f"'s tiles are shared by {kernel().cluster} blocks" in proof.line


def test_sizes_that_are_known_at_launch_are_proved():
    sizes = "dynamic", "{multiple_of: 8, range: [256, 8192]}", "{multiple_of: 8, range: [8, 4096]}"
    proof = proof_of(gemm(*sizes, schedule="block: {m: 128, n: 128}, multicast: 2"))
    assert proof.line.startswith("proved for every K and number of tiles"), proof.line


def test_blocks_that_share_nothing_are_not_said_to():
    proof = proof_of(gemm(64, 256, 4096, schedule="block: {m: 64, n: 64}, split_k: 4"))
    assert "shared by" not in proof.line


@pytest.mark.slow
@settings(max_examples=25)
@given(
    st.tuples(*(st.integers(1, 400).map(lambda n: 8 * n) for _ in "mn"), st.integers(1, 90).map(lambda n: 16 * n)),
    st.sampled_from(["MK NK", "KM KN", "MK KN", "KM NK"]),
    st.sampled_from([("bfloat16", "bfloat16"), ("float16", "float32"), ("int8", "int32"), ("float8_e4m3", "float32")]),
    st.sampled_from(BLOCK_M),
    st.sampled_from(BLOCK_N),
    st.integers(2, 6),
    st.sampled_from([0, 3]),
)
def test_every_shared_tile_of_drawn_shapes_is_proved(sizes, layouts, types, block_m, block_n, stages, batch):
    schedule = f"multicast: 2, block: {{m: {block_m}, n: {block_n}}}, stages: {stages}"
    try:
        kernel = gemm(*sizes, types, layouts, schedule, batch)
    except SpecError:
        assume(False)
    proof = proof_of(kernel)
    assert proof.verdict == "proved", proof.line


# Planted faults


@every_kernel
def test_a_barrier_of_the_block_does_not_show_initialised_barriers_to_others(kernel):
    faulty = nth(kernel(), ClusterBarrier, 0, lambda node: (Barrier(),))
    assert refuted(faulty) == ["initialisation"]


@pytest.mark.sampled(2)
@every_kernel
def test_a_block_that_may_exit_before_others_is_refuted(kernel):
    assert refuted(nth(kernel(), ClusterBarrier, 1, lambda node: ())) == ["clusters"]
    assert refuted(nth(kernel(), ClusterBarrier, 1, lambda node: (Barrier(),))) == ["clusters"]


@pytest.mark.parametrize("position", [0, 1])
def test_halves_of_a_barrier_of_the_cluster_are_not_refuted(position):
    halves = ClusterBarrier("arrive"), ClusterBarrier("wait")
    kernel = nth(KERNELS["persistent"](), ClusterBarrier, position, lambda node: halves)
    assert "convergence" in unknown(kernel)


@every_refilled_kernel
def test_arrivals_of_one_block_alone_are_refuted(kernel):
    """The barriers take as many, and the others' come first: phases end too early."""
    half = nth(kernel(), InitBarrier, 1, lambda node: (replace(node, arrivals=node.arrivals // 2),))
    assert refuted(half) == ["arrivals"]


def with_lanes(kernel: Kernel, lanes: int, arrivals: int = 0, **changes: sympy.Expr | None) -> Kernel:
    """The kernel whose stages are released by so many lanes of a warp."""

    def release(node: Node) -> tuple[Node, ...] | None:
        if isinstance(node, If) and isinstance(node.condition, Guard) and nodes_below(node):
            *others, _ = node.condition.terms
            return (replace(node, condition=Guard((*others, Comparison(LANE, "<", integer(lanes))))),)
        if isinstance(node, ArriveBarrier) and node.expected_bytes is None:
            return (replace(node, **changes),)
        return None

    def nodes_below(node: If) -> bool:
        return len(node.then) == 1 and isinstance(node.then[0], ArriveBarrier)

    kernel = changed(kernel, release)
    if not arrivals:
        return kernel
    return nth(kernel, InitBarrier, 1, lambda node: (replace(node, arrivals=arrivals),))


@every_refilled_kernel
def test_a_release_at_the_own_block_alone_is_refuted(kernel):
    right = kernel()
    arrivals = nodes_of(right, InitBarrier)[1].arrivals
    assert refuted(with_lanes(right, 1, rank=None)) == ["arrivals"]
    assert refuted(with_lanes(right, 2, rank=None)) == ["arrivals"]  # though the count is right
    assert refuted(with_lanes(right, 1, arrivals // 2, rank=None)) == ["arrivals"]  # here, too


@every_refilled_kernel
def test_a_release_at_one_of_the_blocks_is_refuted(kernel):
    assert refuted(with_lanes(kernel(), 1)) == ["arrivals"]
    assert refuted(with_lanes(kernel(), 2, rank=integer(0))) == ["arrivals"]
    assert refuted(with_lanes(kernel(), 2, rank=RANK)) == ["arrivals"]


def test_a_rank_outside_of_the_cluster_is_not_proved():
    assert "arrivals" in unknown(with_lanes(KERNELS["persistent"](), 2, rank=LANE + 1))


@every_kernel
def test_expected_bytes_without_those_of_other_blocks_are_refuted(kernel):
    def of_one_block(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, ArriveBarrier)
        assert node.expected_bytes is not None
        return (replace(node, expected_bytes=node.expected_bytes - boxes // 2),)

    right = kernel()
    load = nodes_of(right, TensorLoad)[1]
    tile = load.target.array
    boxes = sympy.prod(tile.shape[1:]) * tile.dtype.bytes
    assert refuted(nth(right, ArriveBarrier, 0, of_one_block)) == ["bytes"]


@every_kernel
def test_loads_for_the_own_block_alone_are_refuted(kernel):
    assert "bytes" in refuted(nth(kernel(), TensorLoad, 1, lambda node: (replace(node, blocks=1),)))


@every_refilled_kernel
def test_blocks_that_arrive_at_barriers_of_others_and_copy_nothing_to_them_are_not_proved(kernel):
    """The bytes are those of the own loads."""

    def without_others(node: Node) -> tuple[Node, ...] | None:
        if isinstance(node, TensorLoad):
            return (replace(node, blocks=1),)
        if isinstance(node, ArriveBarrier) and node.expected_bytes is not None:
            return (replace(node, expected_bytes=node.expected_bytes - half),)
        return None

    right = kernel()
    tile = nodes_of(right, TensorLoad)[1].target.array
    half = sympy.prod(tile.shape[1:]) * tile.dtype.bytes // 2
    alone = changed(right, without_others)
    assert "parts" in unknown(alone)
    assert refuted(nth(alone, ClusterBarrier, 0, lambda node: (Barrier(),))) == ["initialisation"]


def test_a_tile_of_a_that_all_blocks_get_is_refuted():
    assert "bytes" in refuted(nth(KERNELS["persistent"](), TensorLoad, 0, lambda node: (replace(node, blocks=2),)))


def of_rank_0(access):
    """The access of the first block of the cluster, by all of them."""
    return replace(access, subscripts=tuple(s.subs(RANK, 0) for s in access.subscripts))


@every_kernel
def test_a_half_that_both_blocks_copy_is_refuted(kernel):
    def twice(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, TensorLoad)
        return (replace(node, target=of_rank_0(node.target), source=of_rank_0(node.source)),)

    assert "parts" in refuted(nth(kernel(), TensorLoad, 1, twice))


@every_kernel
@pytest.mark.parametrize("operand", ["target", "source"])
def test_a_half_at_the_place_of_another_is_refuted(kernel, operand):
    def displaced(node: Node) -> tuple[Node, ...]:
        return (replace(node, **{operand: of_rank_0(getattr(node, operand))}),)

    assert refuted(nth(kernel(), TensorLoad, 1, displaced)) == ["parts"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", [InitBarrier, FenceBarrierInit, ArriveBarrier, AwaitBarrier, TensorLoad])
@every_refilled_kernel
def test_no_kernel_that_lacks_one_of_its_nodes_is_proved(kernel, kind):
    right = kernel()
    for position in range(len(nodes_of(right, kind))):
        assert proof_of(nth(right, kind, position, lambda node: ())).verdict != "proved", position


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", [ArriveBarrier, AwaitBarrier, TensorLoad])
@every_refilled_kernel
def test_what_one_block_alone_executes_is_neither_proved_nor_refuted(kernel, kind):
    right = kernel()
    first = Guard((Comparison(RANK, "==", integer(0)),))
    for position in range(len(nodes_of(right, kind))):
        faulty = nth(right, kind, position, lambda node: (If(first, (node,)),))
        assert unknown(faulty), position


@pytest.mark.parametrize("name", ["k0", "tile"])
def test_blocks_with_loops_of_their_own_are_not_proved(name):
    """One passes more than the other; consumers and producer of each agree."""

    def longer(node: Node) -> tuple[Node, ...] | None:
        if not isinstance(node, For) or node.loop.index.name != name:
            return None
        return (replace(node, loop=replace(node.loop, stop=node.loop.stop + 64 * RANK)),)

    assert "order" in unknown(changed(KERNELS["persistent"](), longer))


# Planted faults of blocks that share tiles of both operands

RANK_M, RANK_N = symbol("rank_m"), symbol("rank_n")


def with_loads(kernel: Kernel, **changes: object) -> Kernel:
    """The kernel whose loads to other blocks are changed."""

    def load(node: Node) -> tuple[Node, ...] | None:
        is_shared = isinstance(node, TensorLoad) and node.blocks > 1 and node.stride > 1
        return (replace(node, **changes),) if is_shared else None

    return changed(kernel, load)


@pytest.mark.parametrize(
    ("changes", "claim"),
    [
        pytest.param({"first": RANK_N}, "arrivals", id="to another line of blocks"),
        pytest.param({"first": integer(0)}, "parts", id="always to the first line"),
        pytest.param({"first": RANK_M + 1}, "parts", id="to the next line"),
        pytest.param({"stride": 1}, "arrivals", id="to adjacent blocks"),
        pytest.param({"blocks": 1}, "bytes", id="to the own block alone"),
    ],
)
def test_a_box_for_other_blocks_than_those_that_wait_is_not_proved(changes, claim):
    proof = proof_of(with_loads(IN_BOTH["2 x 2"](), **changes))
    assert proof.verdict != "proved", proof.line
    assert claim in [each.name for each in proof.claims if each.verdict != "proved"], proof.claims


@pytest.mark.parametrize(
    ("rank", "lanes"),
    [
        pytest.param(LANE, 4, id="at each block once"),
        pytest.param(RANK_M + 2 * RANK_N, 4, id="at the own block alone"),
        pytest.param(LANE - 2 * FloorDiv(LANE, integer(2)) + 2 * RANK_N, 4, id="at those of one line alone"),
    ],
)
def test_a_release_at_other_blocks_than_those_that_copy_is_not_proved(rank, lanes):
    proof = proof_of(with_lanes(IN_BOTH["2 x 2"](), lanes, rank=rank))
    assert "arrivals" in [each.name for each in proof.claims if each.verdict != "proved"], proof.line
