"""Configs of wgmma kernels fit a multiprocessor, and their tiles and parts of K cover a GEMM."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product as cross
from typing import Any, NamedTuple

import numpy as np
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.wgmma.clusters import CLUSTER_SIZES
from cugen.families.gemm.wgmma.config import PRODUCER_REGISTERS, registers_of
from cugen.families.gemm.wgmma.epilogues.tensor_store import stores_by_tma
from cugen.families.gemm.wgmma.kernel import WgmmaKernel
from cugen.families.gemm.wgmma.selection import BLOCK_M, BLOCK_N, configs
from cugen.families.gemm.wgmma.stream_k import StreamKWgmmaKernel
from cugen.kernel import generate
from cugen.machine import target
from cugen.machine.occupancy import max_registers, occupancy
from cugen.machine.wgmma import WARPGROUP, WgmmaInstruction, instruction_for
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import Define, For, If, Node, Section
from cugen.plan.symbols import Integer, symbol
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compile_cubin, compilers
from tests.drawn import examples
from tests.families.gemm.wgmma.conftest import contraction_of, product

SM_90A = target("sm_90a")
SCALED = "C[{c}] = 0.125 * sum({terms})"
FUNCTIONS = {"FloorDiv": np.floor_divide, "Minimum": np.minimum, "Maximum": np.maximum}

# Types of operands and C; layouts of 8- and 32-bit operands are K-major.
TYPES = st.sampled_from([("bfloat16", "bfloat16"), ("float16", "float32"), ("int8", "int32"), ("float32", "float32")])
TYPES |= st.just(("float8_e4m3", "bfloat16"))
EXTENTS = st.integers(1, 64) | st.integers(1, 9000) | st.integers(8, 8192).map(lambda n: n // 8 * 8)


class Gemm(NamedTuple):
    """A spec, whether its C may have more than 2^31 elements, whether these are more than sums, and whether their
    number is known at launch alone."""

    text: str
    is_large: bool
    is_computed: bool
    is_dynamic: bool


@st.composite
def gemms(draw: st.DrawFn) -> Gemm:
    dtype, result = draw(TYPES)
    layout = draw(st.sampled_from(["nn", "nt", "tn", "tt"])) if dtype.endswith("16") else "nt"
    m, n = draw(st.tuples(EXTENTS, EXTENTS) | st.tuples(st.just("dynamic"), EXTENTS) | st.just((60_000, 40_000)))
    computes = ["C[{c}] = sum({terms})", "C[{c}] += sum({terms})", "C[{c}] = maximum(sum({terms}), 0)"]
    compute = draw(st.sampled_from(computes))
    fp8, batch = draw(st.sampled_from(["fast", "exact"])), draw(st.sampled_from([0, 3]))
    options = {"dtype": dtype, "result": result, "layout": layout, "fp8": fp8, "batch": batch, "compute": compute}
    text = product(m, n, draw(EXTENTS), **options, schedule="")
    is_large, is_dynamic = m in ("dynamic", 60_000), m == "dynamic"
    return Gemm(text, is_large=is_large, is_computed="maximum" in compute, is_dynamic=is_dynamic)


def instruction_of(contraction: Contraction) -> WgmmaInstruction:
    a, b = (operand.array.dtype.name for operand in contraction.operands)
    instruction = instruction_for(a, b, contraction.reductions[0].dtype.name, tf32=True)
    assert instruction is not None
    return instruction


@settings(max_examples=examples(40))
@given(gemms(), st.data())
def test_every_config_fits_a_multiprocessor(gemm: Gemm, data: st.DataObject) -> None:
    """The shared memory of its kernel, and the registers that its threads need."""
    contraction = contraction_of(gemm.text)
    config = data.draw(st.sampled_from(list(configs(contraction, instruction_of(contraction)))))
    kernel = (StreamKWgmmaKernel if config.stream_k else WgmmaKernel)(contraction, config).kernel()
    shared = kernel.shared_bytes + kernel.dynamic_shared_bytes
    has_wide_offsets = gemm.is_large and not stores_by_tma(contraction)
    registers = registers_of(
        config,
        has_wide_offsets=has_wide_offsets,
        is_computed=gemm.is_computed,
        is_dynamic=gemm.is_dynamic,
        has_doubles=False,
    )
    assert kernel.threads == config.block_threads
    assert shared <= SM_90A.shared_opt_in
    assert registers <= SM_90A.registers_per_thread
    if config.gives_registers:
        given = (max_registers(SM_90A, kernel.threads) - PRODUCER_REGISTERS) * WARPGROUP
        registers -= given // config.consumer_threads
    assert occupancy(SM_90A, kernel.threads, registers, shared).blocks_per_sm >= 1


# Tiles and parts of K


class Tile(NamedTuple):
    """A block's work: the origin of an output tile, and its range of K."""

    batch: int
    m: int
    n: int
    k: int
    k_end: int


def kernel_of(text: str) -> Kernel:
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
    (kernel,) = make_plan(spec).kernels
    assert kernel.family == "wgmma"
    return kernel


def nodes_of(nodes: tuple[Node, ...], inside: str = "") -> Iterator[tuple[str, Node]]:
    """All nodes, in source order, with the names of the section round them."""
    for node in nodes:
        yield inside, node
        match node:
            case Section():
                yield from nodes_of(node.body, node.name)
            case For():
                yield from nodes_of(node.body, inside)
            case If():
                yield from nodes_of(node.then, inside)
                yield from nodes_of(node.orelse, inside)


def tiles_of(kernel: Kernel, sizes: dict[str, int]) -> list[Tile]:
    """What the blocks compute, as the kernel's own expressions have it; their values are within their ranges."""
    nodes = list(nodes_of(kernel.sections))
    values: dict[sympy.Symbol, Any] = {symbol(name): value for name, value in sizes.items()}
    for index in (node.index for section, node in nodes if section == "sizes" and isinstance(node, Define)):
        values[index.symbol] = evaluated(index.definition, values)
    blocks = values[symbol("blockIdx.x")] = np.arange(int(evaluated(kernel.grid[0], values)))
    for loop in (node.loop for _, node in nodes if isinstance(node, For) and node.loop.index.name == "tile"):
        stop = int(evaluated(loop.stop, values))
        tiles = [np.arange(start, stop, loop.step) for start in evaluated(loop.start, values)]
        values[loop.index.symbol] = np.concatenate(tiles)
        blocks = values[symbol("blockIdx.x")] = np.repeat(blocks, list(map(len, tiles)))
        break  # the consumers' loop is that of the producer
    for index in (node.index for _, node in nodes if isinstance(node, Define) and node.index.name == "rank"):
        values[index.symbol] = evaluated(index.definition, values)
    ranges, named = dict(kernel.ranges), {}
    for index in (node.index for section, node in nodes if section == "tile_coordinates" and isinstance(node, Define)):
        value = np.broadcast_to(evaluated(index.definition, values), blocks.shape)
        low, high = ranges[index.symbol]
        assert low <= value.min()
        assert value.max() <= high
        values[index.symbol] = named[index.name] = value
    zero, k = np.zeros_like(blocks), np.full_like(blocks, sizes["K"])
    begin = named.get("k_offset", zero)
    end = np.minimum(begin + named.get("k_length", k), k)
    columns = (named.get("z", zero), named["m0"], named["n0"], begin, end)
    return [Tile(*map(int, row)) for row in zip(*columns, strict=True)]


def evaluated(expr: Integer, values: dict[sympy.Symbol, Any]) -> Any:
    used = sorted(expr.free_symbols, key=str)
    names = [sympy.Dummy() for _ in used]
    function = sympy.lambdify(names, expr.xreplace(dict(zip(used, names, strict=True))), modules=[FUNCTIONS, "numpy"])
    return function(*(values[name] for name in used))


BLOCKS = [(m, n) for m, n in cross(BLOCK_M, BLOCK_N) if m * n <= 128 * 256]  # whose accumulators fit registers


@settings(max_examples=examples(25))
@given(
    m=st.integers(1, 3000),
    n=st.integers(2, 3000),  # of one column, M and N change roles
    batch=st.integers(0, 5),
    block=st.sampled_from(BLOCKS),
    raster=st.integers(1, 32),
    is_dynamic=st.booleans(),
)
def test_the_raster_visits_every_output_tile_once(
    m: int, n: int, batch: int, block: tuple[int, int], raster: int, is_dynamic: bool
) -> None:
    block_m, block_n = block
    schedule = f"family: wgmma, block: {{m: {block_m}, n: {block_n}}}, raster: {raster}, split_k: 1"
    size = "{range: [0, 3000]}" if is_dynamic else m
    kernel = kernel_of(product(size, n, 64, result="float32", batch=batch, schedule=schedule))
    sizes = {"M": m, "N": n, "K": 64, "Z": batch}
    expected = cross(range(max(batch, 1)), range(0, m, block_m), range(0, n, block_n), [0], [64])
    assert Counter(tiles_of(kernel, sizes)) == Counter(map(Tile._make, expected))


@settings(max_examples=examples(25))
@given(
    m=st.integers(1, 600),
    n=st.integers(1, 600),
    k=st.integers(1, 200),
    split=st.sampled_from(CLUSTER_SIZES),
    batch=st.integers(0, 3),
)
def test_blocks_of_a_cluster_divide_all_of_k(m: int, n: int, k: int, split: int, batch: int) -> None:
    """Each has a k-tile at least, as its first multiplication overwrites the accumulators."""
    k = 64 * (split - 1) + 8 * k
    schedule = f"family: wgmma, block: {{m: 64, n: 64}}, split_k: {split}"
    kernel = kernel_of(product(m, n, k, result="float32", batch=batch, schedule=schedule))
    tiles = tiles_of(kernel, {"M": m, "N": n, "K": k, "Z": batch})
    assert kernel.cluster == split
    for begin in range(0, len(tiles), split):
        cluster = tiles[begin : begin + split]
        assert len({tile[:3] for tile in cluster}) == 1
        assert [tile.k for tile in cluster] == [0, *(tile.k_end for tile in cluster[:-1])]
        assert cluster[-1].k_end == k
        assert all(tile.k < tile.k_end for tile in cluster)
    expected = cross(range(max(batch, 1)), range(0, m, 64), range(0, n, 64))
    assert Counter(tile[:3] for tile in tiles[::split]) == Counter(expected)


# Compiled plans, whose wgmmas ptxas must neither serialise nor keep waiting for spilled registers


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            product(1024, 256, "{range: [1, 65536], multiple_of: 8}", result="float32", compute=SCALED, schedule=""),
            id="a scale, and K of the launch",
        ),
        pytest.param(
            product(4096, 4096, 4096, dtype="int8", result="float32", compute=SCALED, schedule=""),
            id="int32 sums in float64",
        ),
        pytest.param(product("dynamic", 4096, 4096, compute=SCALED, schedule=""), id="M of the launch"),
        pytest.param(product(4096, 4096, 64, schedule=""), id="one k-tile"),
    ],
)
def test_plans_are_compiled_without_spills(text: str) -> None:
    if not compilers():
        pytest.skip("no CUDA compiler on this machine")
    kernel = generate(load_text(f"cugen: 1\nkernel: k\n{text}")[0], analysis=False)
    assert "wgmma" in {launch.family for launch in kernel.plan.kernels}
    assert compile_cubin(kernel.source, "k", "sm_90a").warnings == ()
