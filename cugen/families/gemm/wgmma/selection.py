"""Which block tile and how many stages a GEMM by wgmma takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from cugen.families.contraction.contraction import Contraction
from cugen.families.gemm.config import STREAM_K_VALUES
from cugen.families.gemm.problem import device_of, problem_of
from cugen.families.gemm.wgmma.clusters import (
    CLUSTER_SIZES,
    MULTICAST_SIZES,
    clusters_of,
    multicasts,
    refused_multicast,
)
from cugen.families.gemm.wgmma.config import (
    BLOCK_ID_BYTES,
    MULTICASTS,
    STMATRIX,
    WgmmaConfig,
    available_registers,
    config_of,
    registers_of,
)
from cugen.families.gemm.wgmma.cost_model import predict
from cugen.families.gemm.wgmma.epilogues.rows import has_unaligned_rows, row_buffer_bytes, stores_rows
from cugen.families.gemm.wgmma.epilogues.tensor_store import has_wide_offsets, stores_by_tma
from cugen.families.gemm.wgmma.operands.pixels import k_tiles_of
from cugen.families.gemm.wgmma.operands.scales import groups_of, sides_of
from cugen.families.gemm.wgmma.operands.tiles import stage_bytes
from cugen.families.gemm.wgmma.split.cluster_epilogue import partials_bytes
from cugen.families.gemm.wgmma.split.work_units import requested_waves, searched_waves, stream_k_schedule_of
from cugen.families.gemm.wgmma.swapped_operands import as_computed, with_swapped_operands
from cugen.machine.wgmma import MAX_WGMMA_N, WgmmaInstruction
from cugen.plan.request import Refusal, Tunable
from cugen.spec.expressions import Reduce, free_indices, walk
from cugen.spec.model import Schedule
from cugen.spec.types import FLOAT64

BLOCK_M = (64, 128, 192, 256)
SWAPPED_BLOCK_N = range(8, MAX_WGMMA_N + 1, 8)  # rows of the output, of swapped operands
# Of 208 and 240 columns, which TMA stores 16 at a time, tiles were slower than of 192, 224 or 256 (on an H100).
BLOCK_N = (*range(32, 193, 16), 224, 256)
_MIN_STAGES, _MAX_STAGES = 2, 16
_MAX_RASTER = 32
NO_PRODUCER = "none"
SHARING = ("split_k", "stream_k", *MULTICASTS)  # tunables by which blocks share the work of a tile, or its copies
_GIVEN_CONSUMERS = 2  # that may take registers of the producer
TUNABLES = (
    Tunable("stages", tuple(range(2, 17)), "by shape", "pipeline stages: k-tiles in the circular shared-memory buffer"),
    Tunable(
        "raster",
        tuple(range(1, _MAX_RASTER + 1)),
        "by shape",
        "rows of block tiles that are rasterised together, column by column",
    ),
    Tunable(
        "split_k", (1, *CLUSTER_SIZES), "by shape", "blocks of a cluster that split the K of a tile", reorders=True
    ),
    Tunable(
        "stream_k",
        STREAM_K_VALUES,
        "0",
        "last waves of tiles whose k-tiles are distributed evenly over the resident blocks (stream-K)",
        reorders=True,
    ),
    Tunable("multicast", (1, *MULTICAST_SIZES), "by shape", "blocks of a cluster that share tiles of B, along M"),
    Tunable("multicast_n", (1, *MULTICAST_SIZES), "by shape", "blocks of a cluster that share tiles of A, along N"),
    Tunable(
        "producer",
        ("warp", NO_PRODUCER),
        "warp",
        "what copies k-tiles: a warp of its own (warp specialisation), or a thread of those that multiply, behind "
        "barriers of the block, which has one output tile",
    ),
    Tunable(
        "epilogue",
        ("pairs", STMATRIX),
        "pairs",
        "how results of 16 bits are written to the tiles that TMA stores: a lane's two columns, or matrices of 8 x 8",
    ),
    Tunable(
        "swap_ab",
        (False, True),
        "by shape",
        "whether C is computed transposed, as Bᵀ·Aᵀ: tiles have 64, 128, 192 or 256 columns, and rows by any multiple "
        "of 8 up to 256",
    ),
    Tunable("cores", ("tensor", "cuda"), "tensor", "units that multiply", reorders=True),
)


def configs(
    contraction: Contraction, instruction: WgmmaInstruction, *, is_search: bool = False
) -> Iterator[WgmmaConfig]:
    """The configs that fit a block and the schedule; for a search also those with stream-K and without a producer.
    Operands are swapped unasked for matrices: of 24 convolutions with swapped operands a third were slower than
    predicted (on an H200). Where the epilogue loads a matrix, as a residual, only a search swaps, unless a warp loads
    rows of it: a lane has no two elements of a row to load at once. Offsets of 64 bits, one for each of its rows, take
    too many registers."""
    swaps, swapped = contraction.tunables.get("swap_ab"), with_swapped_operands(contraction)
    if not swaps:
        yield from _configs(contraction, instruction, is_search=is_search)
    leaves_it = swaps is None and not {"split_k", "epilogue"} & contraction.tunables.keys()
    has_images = any(operand.window for operand in contraction.operands)
    loads_elements = _loads_matrix(contraction) and not has_unaligned_rows(swapped)
    is_choice = leaves_it and not has_images and (is_search or not loads_elements)
    if swaps or (is_choice and not has_wide_offsets(swapped)):
        yield from _configs(swapped, instruction.swapped, is_search=is_search)


def _loads_matrix(contraction: Contraction) -> bool:
    """Whether the epilogue loads elements that differ along M and N."""
    names, request = {contraction.m.name, contraction.n.name}, contraction.request
    accumulates = any(statement.accumulate for statement in request.group.statements)
    return accumulates or any(names <= free_indices(read) for read in request.reads())


def _configs(contraction: Contraction, instruction: WgmmaInstruction, *, is_search: bool) -> Iterator[WgmmaConfig]:
    if contraction.tunables.get("producer") == NO_PRODUCER:
        yield from _without_producer(contraction, instruction)
        return
    if is_search and not {"producer", *SHARING} & contraction.tunables.keys():
        yield from _without_producer(contraction, instruction)
    for block_m, block_n, gives_registers in _block_tiles(contraction, instruction):
        for split_k, multicast, multicast_n in clusters_of(contraction, block_m, block_n, instruction):
            config = config_of(
                instruction,
                block_m,
                block_n,
                _MIN_STAGES,
                raster=_raster_of(contraction, block_m * multicast, block_n * multicast_n),
                split_k=split_k,
                promotes=promotes(contraction, instruction),
                multicast=multicast,
                multicast_n=multicast_n,
                gives_registers=gives_registers,
                swaps_ab=contraction.is_swapped,
            )
            waves_of_config = [*requested_waves(contraction, config)]
            waves_of_config += searched_waves(contraction, config) if is_search else ()
            for waves in waves_of_config:
                yield from _with_stages(contraction, _with_stream_k(config, waves) if waves else config)


def _without_producer(contraction: Contraction, instruction: WgmmaInstruction) -> Iterator[WgmmaConfig]:
    """The configs whose blocks have no producer, which a block tile of any number of warpgroups may have."""
    for block_m, block_n in _requested_tiles(contraction, instruction):
        config = config_of(
            instruction,
            block_m,
            block_n,
            _MIN_STAGES,
            swaps_ab=contraction.is_swapped,
            raster=_raster_of(contraction, block_m, block_n),
            promotes=promotes(contraction, instruction),
            has_producer=False,
        )
        if _fits_registers(contraction, config):
            yield from _with_stages(contraction, config)


def _with_stream_k(config: WgmmaConfig, waves: int) -> WgmmaConfig:
    """The config with stream-K. Consumers take registers of the producer, if they may: partial sums of other blocks are
    loaded beside the accumulators, as many at once as there is room for."""
    return replace(config, stream_k=waves, gives_registers=config.consumers == _GIVEN_CONSUMERS)


def _with_stages(contraction: Contraction, config: WgmmaConfig) -> Iterator[WgmmaConfig]:
    """The config with as many stages as fit, if enough do."""
    if stages := _stages_of(contraction, config):
        stores_matrices = contraction.tunables.get("epilogue") == STMATRIX
        config = replace(config, stages=stages, stores_matrices=stores_matrices)
        at_once = replace(config, stores_at_once=True)
        yield at_once if _stores_at_once(contraction, at_once) else config


def _stores_at_once(contraction: Contraction, config: WgmmaConfig) -> bool:
    """Whether there is a buffer for each part of a tile that is stored by TMA, beside as many stages: up to 5 % faster
    then, and slower with fewer stages (measured on an H100)."""
    stores = stores_by_tma(contraction) and config.split_k == 1 and config.chunks > 1
    return stores and _stages_of(contraction, config) == config.stages


def promotes(contraction: Contraction, instruction: WgmmaInstruction) -> bool:
    """Whether partial sums are added in float32: they have scales, or the instruction keeps fewer bits, and the spec
    doesn't allow that."""
    if contraction.scales is not None:
        return True
    return instruction.sum_bits > 0 and not contraction.context.spec.precision.is_fp8_fast


def _block_tiles(contraction: Contraction, instruction: WgmmaInstruction) -> Iterator[tuple[int, int, bool]]:
    """The block tiles that the schedule allows, whose accumulators fit registers, and whether the consumers need those
    take those of the producer for them."""
    for block_m, block_n in _requested_tiles(contraction, instruction):
        config = config_of(
            instruction,
            block_m,
            block_n,
            _MIN_STAGES,
            promotes=promotes(contraction, instruction),
            swaps_ab=contraction.is_swapped,
        )
        allocations = (replace(config, gives_registers=gives) for gives in _may_give_registers(config))
        if fitting := next((c for c in allocations if _fits_registers(contraction, c)), None):
            yield block_m, block_n, fitting.gives_registers


def _may_give_registers(config: WgmmaConfig) -> tuple[bool, ...]:
    """Whether the producer gives registers to the consumers, in order of preference. One consumer has as many as a
    thread can have. Four warpgroups are launched with 128, too few for wide instructions (ptxas, C7602). Consumers that
    promote sums are faster with more (10 % of a tile of 128 x 128, on an H100)."""
    if config.consumers != _GIVEN_CONSUMERS:
        return (False,)
    return (True,) if config.promotes else (False, True)


def _requested_tiles(contraction: Contraction, instruction: WgmmaInstruction) -> Iterator[tuple[int, int]]:
    block = dict(contraction.request.schedule.block)
    m, n = contraction.m.name, contraction.n.name
    widths = [n for n in SWAPPED_BLOCK_N if instruction.has_columns(n)] if contraction.is_swapped else list(BLOCK_N)
    widths = [width for width in widths if block.get(n, width) == width]
    if contraction.is_swapped and n not in block:
        widths = list(_fitting(widths, problem_of(contraction).n))
    yield from product((height for height in BLOCK_M if block.get(m, height) == height), widths)


def _fitting(widths: Sequence[int], extent: int) -> Iterator[int]:
    """The least width of those that divide an extent into the same number of tiles."""
    counts: set[int] = set()
    for width in widths:
        count = -(-extent // width)
        if count not in counts:
            yield width
        counts.add(count)


def _fits_registers(contraction: Contraction, config: WgmmaConfig) -> bool:
    of_scales = 0
    if contraction.scales is not None:
        sides = sides_of(contraction, int(config.block_m), int(config.block_n))
        if sides is None:
            return False
        # Of the next groups the compiler may load scales later: a tile of the schedule is tried.
        is_requested = bool(contraction.request.schedule.block)
        of_scales = sides.registers(config, 1 if is_requested else groups_of(contraction, int(config.block_k)))
    target, context = contraction.request.target, contraction.context
    needed = registers_of(
        config,
        has_wide_offsets=has_wide_offsets(contraction),
        is_computed=_is_computed(contraction),
        is_dynamic=None in map(context.static_extent, (contraction.m, contraction.n)),
        has_doubles=_has_doubles(contraction),
    )
    return needed + of_scales <= available_registers(config, target.registers_per_sm, target.registers_per_thread)


def _is_computed(contraction: Contraction) -> bool:
    """Whether the results are other values than the sums."""
    return any(not isinstance(s.value, Reduce) or s.accumulate for s in contraction.request.group.statements)


def _has_doubles(contraction: Contraction) -> bool:
    """Whether the results are computed in float64, as products of int32 and float32 are."""
    return any(node.dtype == FLOAT64 for s in contraction.request.group.statements for node in walk(s.value))


def _stages_of(contraction: Contraction, config: WgmmaConfig) -> int:
    """The requested stages, or as many as fit; 0 if there aren't enough."""
    epilogue = _epilogue_bytes(contraction, config) + (BLOCK_ID_BYTES if config.stream_k else 0)
    fitting = (contraction.request.target.shared_opt_in - epilogue) // (
        stage_bytes(contraction.operands, config) + config.barrier_bytes
    )
    stages = int(contraction.tunables.get("stages", min(fitting, _MAX_STAGES, _fills(contraction, config))))
    if config.split_k > 1:  # the partial sums are in the memory of the stages, or need more
        barriers = stages * config.barrier_bytes
        if partials_bytes(contraction, config) + barriers > contraction.request.target.shared_opt_in:
            return 0
    return stages if _MIN_STAGES <= stages <= fitting else 0


def _epilogue_bytes(contraction: Contraction, config: WgmmaConfig) -> int:
    """Shared memory of an epilogue beside the stages."""
    if stores_rows(contraction, config):
        return row_buffer_bytes(contraction, config)
    if config.split_k > 1 or not stores_by_tma(contraction):
        return 0
    output = contraction.context.arrays[contraction.request.group.statements[-1].target]
    return config.store_bytes(output.dtype.bytes)


def _fills(contraction: Contraction, config: WgmmaConfig) -> int:
    """K-tiles of the block with most of them, at least as many as the fewest stages."""
    if config.stream_k:
        schedule = stream_k_schedule_of(contraction, config)
        return max(schedule.whole_tiles_per_block * schedule.k_tiles + schedule.k_tiles_per_block, _MIN_STAGES)
    problem, sms = problem_of(contraction), device_of(contraction.request.target).sms
    tiles = -(-problem.m // config.block_m) * -(-problem.n // config.block_n) * problem.batch
    k_tiles = -(-k_tiles_of(contraction, problem.k, int(config.block_k)) // config.split_k)
    waves = -(-tiles * config.split_k // sms) if config.has_producer else 1
    return max(waves * k_tiles, _MIN_STAGES)


def _raster_of(contraction: Contraction, block_m: int, block_n: int) -> int:
    """Rows of tiles that are rasterised together: the requested number, or so many that the tiles of all
    multiprocessors are about a square, which reads the fewest rows and columns. A divisor of all rows comes first."""
    if "raster" in contraction.tunables:
        return int(contraction.tunables["raster"])
    sms = device_of(contraction.request.target).sms
    square = min(max(round(math.sqrt(sms * block_n / block_m)), 1), _MAX_RASTER)
    extent = contraction.context.static_extent(contraction.m)
    if extent is None:
        return square
    tiles = -(-extent // block_m)
    near = (count for count in range(square, square * 3 // 4 - 1, -1) if count and tiles % count == 0)
    return min(next(near, square), tiles)


def choose_config(contraction: Contraction, instruction: WgmmaInstruction) -> WgmmaConfig | Refusal:
    """The fastest config by the model."""
    fitting = list(configs(contraction, instruction))
    if not fitting:
        return _refusal(contraction, instruction)
    return min(fitting, key=lambda config: predict(contraction, config))


def _refusal(contraction: Contraction, instruction: WgmmaInstruction) -> Refusal:
    """The first condition that leaves no config."""
    if contraction.tunables.get("swap_ab"):
        contraction, instruction = with_swapped_operands(contraction), instruction.swapped
    requested = list(_requested_tiles(contraction, instruction))
    tiles = list(_block_tiles(contraction, instruction))
    if not requested:
        widths = f"a multiple of 16 from {BLOCK_N[0]} to 192, 224 or {BLOCK_N[-1]}"
        if contraction.is_swapped:
            widths = f"a multiple of {16 if instruction.is_integer else 8} up to {SWAPPED_BLOCK_N[-1]}"
        sizes = f"{contraction.side_m} of {', '.join(map(str, BLOCK_M))}, and {contraction.side_n} {widths}"
        return Refusal(f"has tiles with {sizes}", "schedule.block")
    if contraction.scales is not None and all(sides_of(contraction, *tile) is None for tile in requested):
        return Refusal("has scales that differ along rows or columns of a tile, not along both", "schedule.block")
    if not tiles:
        return Refusal("has accumulators in registers, and too few for this tile", "schedule.block")
    if not any(
        pair for block_m, block_n, _ in tiles for pair in clusters_of(contraction, block_m, block_n, instruction)
    ):
        return refused_multicast(contraction)
    return Refusal("has too little shared memory for so many stages of this tile", "schedule.stages")


def candidates(contraction: Contraction, instruction: WgmmaInstruction) -> Iterator[Schedule]:
    """Schedules to time, by predicted time."""
    searched = configs(contraction, instruction, is_search=True)
    for config in sorted(searched, key=lambda config: predict(contraction, config)):
        yield schedule_of(contraction, config)


def schedule_of(contraction: Contraction, config: WgmmaConfig) -> Schedule:
    """The schedule that requests a config."""
    contraction = as_computed(contraction, config)
    written = contraction.request.schedule
    clusters = dict(zip(multicasts(contraction), (config.multicast, config.multicast_n), strict=True))
    tunables: dict[str, int | str] = {
        "stages": int(config.stages),
        "raster": int(config.raster),
        "split_k": config.split_k,
        **{name: clusters[name] for name in MULTICASTS},
    }
    tunables |= {"stream_k": config.stream_k} if config.stream_k else {}
    tunables |= {} if config.has_producer else {"producer": NO_PRODUCER}
    tunables |= {"epilogue": STMATRIX} if config.stores_matrices else {}
    tunables |= {"swap_ab": True} if config.swaps_ab else {}
    sizes = ((contraction.m.name, int(config.block_m)), (contraction.n.name, int(config.block_n)))
    return replace(written, family="wgmma", block=sizes, tunables=tuple(tunables.items()))
