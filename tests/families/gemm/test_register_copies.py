"""Operands without asynchronous copies: loaded to registers before the k steps of a k-tile, stored after them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from cugen.analysis.pipelines.async_copies.proof import prove_async_copies
from cugen.families.contraction.recognition import recognise
from cugen.families.gemm.problem import problem_of, register_copies
from cugen.families.gemm.selection.cost_model import H200_TENSOR, predict
from cugen.families.gemm.selection.heuristic import choose_config
from cugen.plan.nodes import Barrier, Copy, For, Load, LoadMatrix, Mma, Node
from cugen.plan.traversal.walking import walk_nodes
from tests.families.gemm.test_gemm import SMALL, gemm, request_of

PRODUCT = """
target: {target}
params: {{M: {m}, N: {n}, K: {k}}}
arrays:
  A: {{shape: [{a}], dtype: {dtype}}}
  B: {{shape: [{b}], dtype: {dtype}}}
  C: {{shape: [M, N], dtype: {out}}}
compute: C[m, n] = sum(A[{i}] * B[{j}], k)
schedule: {{{schedule}}}
"""
TILE = "family: gemm, block: {m: 32, n: 32}, thread: {m: 2, n: 4}, step: {k: 64}, stages: 2"


def product(m, n, k, layout="nn", dtype="float16", target="sm_90", schedule=TILE):
    i, j = "m, k" if layout[0] == "n" else "k, m", "k, n" if layout[1] == "n" else "n, k"
    out = "int32" if dtype == "int8" else dtype
    names = {"a": i.upper(), "b": j.upper(), "i": i, "j": j}
    return PRODUCT.format(target=target, m=m, n=n, k=k, dtype=dtype, out=out, schedule=schedule, **names)


def main_loop(kernel) -> tuple[Node, ...]:
    (loop,) = [node for node in walk_nodes(kernel.body) if isinstance(node, For) and node.loop.index.name == "k0"]
    return tuple(walk_nodes(loop.body))


def is_load_to_registers(node: Node) -> bool:
    if isinstance(node, Load):
        return node.access.array.space == "global"
    return isinstance(node, Copy) and node.target.array.space == "register"


def is_store_from_registers(node: Node) -> bool:
    return isinstance(node, Copy) and node.source.array.space == "register"


@pytest.mark.covering
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_a_k_tile_is_loaded_before_its_first_mma_and_stored_after_all_but_the_last_k_step(planned, layout, target):
    nodes = main_loop(planned(product(67, 75, 331, layout, target=target, schedule=f"{TILE}, cores: tensor")))
    loads = [position for position, node in enumerate(nodes) if is_load_to_registers(node)]
    stores = [
        position
        for position, node in enumerate(nodes)
        if isinstance(node, Copy) and node.source.array.space == "register"
    ]
    fragments = [position for position, node in enumerate(nodes) if isinstance(node, LoadMatrix)]
    (barrier,) = [position for position, node in enumerate(nodes) if isinstance(node, Barrier)]
    assert len(loads) == len(stores) == 2
    assert max(loads) < min(fragments)
    assert max(position for position in fragments if position < barrier) < min(stores)
    assert max(stores) < barrier
    assert any(isinstance(node, Mma) for node in nodes[max(loads) : min(stores)])


def test_rows_of_words_are_copied_asynchronously_and_the_other_operand_through_registers(planned):
    nodes = main_loop(planned(product(64, 75, 320)))
    assert any(isinstance(node, Copy) and node.asynchronous for node in nodes)
    assert sum(map(is_load_to_registers, nodes)) == 1


@pytest.mark.parametrize("layout", ["nn", "tt"])
def test_the_pipeline_of_both_kinds_of_copies_is_proved(planned, layout):
    proof = prove_async_copies(planned(product(64, 75, 320, layout)))
    assert {claim.verdict for claim in proof.claims} == {"proved"}


def test_vectors_are_loaded_to_registers_on_targets_without_asynchronous_copies(made):
    source = made(gemm(1024, 1024, 1024, schedule=SMALL).replace("params:", "target: sm_75\nparams:")).source
    assert "Vector<float, 4> b_ahead[" in source
    assert "b_ahead[" in source.split("__syncthreads();")[-2]


def test_elements_of_rows_of_any_length_are_copied_in_each_k_step(made):
    """Each has an address of its own in registers."""
    assert "_ahead" not in made(product("dynamic", "dynamic", "dynamic")).source


def test_copies_that_the_spec_interleaves_stay_between_the_k_steps(made):
    schedule = SMALL + ", prefetch: interleaved"
    source = made(gemm(1024, 1024, 1024, schedule=schedule).replace("params:", "target: sm_75\nparams:")).source
    assert "_ahead" not in source


@pytest.mark.sampled(21)
@pytest.mark.parametrize("seed", range(40))
def test_drawn_products_are_right_and_without_races(prove, seed):
    random = Random(seed)
    target = random.choice(("sm_75", "sm_80", "sm_90"))
    dtype = "float16" if target == "sm_75" else random.choice(("float16", "bfloat16", "int8"))
    m, n = (random.choice((1, 31, 33, 47, 64, 72, 75)) for _ in range(2))
    step = 128 if dtype == "int8" else 64
    stages = random.choice((2, 3, 4))
    k = random.choice((step * stages - 1, step * stages, step * stages + 1, 3 * step + 8, 331))
    schedule = TILE.replace("k: 64", f"k: {step}").replace("stages: 2", f"stages: {stages}")
    sizes = [size if random.random() < 0.7 else "dynamic" for size in (m, n, k)]
    text = product(*sizes, random.choice(("nn", "nt", "tn", "tt")), dtype, target, schedule)
    params = {name: size for name, size, given in zip("MNK", (m, n, k), sizes, strict=True) if given == "dynamic"}
    prove(text, params, races=True)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(12))
def test_drawn_products_of_vectors_are_right_on_a_target_without_asynchronous_copies(prove, seed):
    random = Random(seed)
    m, n, k = (random.choice((16, 36, 40, 64, 68)) for _ in range(3))
    layout, schedule = random.choice(("nn", "nt", "tn", "tt")), SMALL + f", stages: {random.choice((2, 3))}"
    prove(product(m, n, k + 32, layout, "float32", "sm_75", schedule), sanitize=True)


def predicted(text, **changes):
    contraction = recognise(request_of(text))
    problem = problem_of(contraction)
    config = replace(choose_config(contraction), **changes)
    return problem, config, predict(problem, config, contraction.request.target)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(6))
def test_each_k_tile_of_a_block_takes_as_long_as_its_loads(seed):
    """Whatever the number of blocks: of 40 rows and 4849 columns there are a few more than multiprocessors."""
    random = Random(seed)
    m, n, k = random.randint(20, 60), random.randint(3000, 6000) | 1, random.randint(3000, 8000) | 1
    problem, config, prediction = predicted(product(m, n, k, "tn", "bfloat16", schedule="family: gemm"))
    assert register_copies(problem, config).elements
    k_tiles = k // (config.block_k * config.split_k)
    assert prediction.seconds >= k_tiles * H200_TENSOR.register_copy_seconds


def test_long_unaligned_products_are_copied_to_aligned_rows_on_sm_90a(made):
    kernels = made(product(200, 4849, 6371, "tn", "bfloat16", "sm_90a", schedule="")).plan.kernels
    assert kernels[-1].family == "wgmma"
