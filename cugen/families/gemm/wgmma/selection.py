"""Which block tile and how many stages a warp-specialised GEMM takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.problem import device_of, problem_of
from cugen.families.gemm.wgmma.config import WgmmaConfig, available_registers, config_of, registers_of
from cugen.families.gemm.wgmma.epilogue import stores_by_tma
from cugen.machine.wgmma import WgmmaInstruction
from cugen.plan.request import Refusal, Tunable
from cugen.spec.model import Schedule

TUNABLES = (
    Tunable("stages", tuple(range(2, 17)), "by shape", "pipeline stages: k-tiles in the circular shared-memory buffer"),
    Tunable(
        "raster", (1, 2, 4, 8, 16), "by shape", "rows of block tiles that are rasterised together, column by column"
    ),
    Tunable("cores", ("tensor", "cuda"), "tensor", "units that multiply", reorders=True),
)
BLOCK_M = (64, 128, 192, 256)
BLOCK_N = (32, 64, 96, 128, 160, 192, 224, 256)
_MAX_STAGES = 16


def configs(contraction: Contraction, instruction: WgmmaInstruction) -> Iterator[WgmmaConfig]:
    """The configs that fit a block and the schedule."""
    target, schedule = contraction.request.target, contraction.request.schedule
    block, tunables = dict(schedule.block), contraction.tunables
    row = 128 // instruction.element_bytes
    for block_m in BLOCK_M:
        for block_n in BLOCK_N:
            if block.get(contraction.m.name, block_m) != block_m or block.get(contraction.n.name, block_n) != block_n:
                continue
            sizes = {True: block_m, False: block_n}
            if any(not o.is_k_major and sizes[o.is_along_m] % row for o in contraction.operands):
                continue
            config = config_of(instruction, block_m, block_n, 2)
            available = available_registers(config, target.registers_per_sm, target.registers_per_thread)
            if registers_of(config) > available:
                continue
            stored = stores_by_tma(contraction)
            output = contraction.context.arrays[contraction.request.group.statements[-1].target]
            fixed = config.shared_bytes(output.dtype.bytes if stored else 0) - 2 * (config.stage_bytes + 16)
            fitting = (target.shared_opt_in - fixed) // (config.stage_bytes + 16)
            stages = int(tunables.get("stages", min(fitting, _MAX_STAGES)))
            if 2 <= stages <= fitting:
                yield config_of(instruction, block_m, block_n, stages, _raster_of(contraction, block_m))


def _raster_of(contraction: Contraction, block_m: int) -> int:
    """Rows of tiles that are rasterised together: the requested number, or the largest divisor up to 16."""
    if "raster" in contraction.tunables:
        return int(contraction.tunables["raster"])
    extent = contraction.context.static_extent(contraction.m)
    if extent is None:
        return 1
    tiles = -(-extent // block_m)
    return next(count for count in (16, 8, 4, 2, 1) if tiles % count == 0)


def cost(contraction: Contraction, config: WgmmaConfig) -> float:
    """Multiply-adds of the busiest multiprocessor, with its padding, at the rate of the tile."""
    problem = problem_of(contraction)
    sms = device_of(contraction.request.target).sms
    tiles = -(-problem.m // config.block_m) * -(-problem.n // config.block_n) * problem.batch
    waves = -(-tiles // sms)
    area = config.block_m * config.block_n
    # Below 64 x 128 per instruction shared memory is the limit: (64 + N) * 32 bytes for N columns (PTX ISA).
    efficiency = min(1.0, config.block_n / (0.78 * (64 + config.block_n))) if config.matrices_m == 1 else 1.0
    return waves * area / efficiency


def choose_config(contraction: Contraction, instruction: WgmmaInstruction) -> WgmmaConfig | Refusal:
    """The fastest config by the model."""
    found = list(configs(contraction, instruction))
    if not found:
        return Refusal(
            "has no tile of this size: M of 64, 128, 192 or 256, N a multiple of 32 up to 256", "schedule.block"
        )
    return min(found, key=lambda config: cost(contraction, config))


def candidates(contraction: Contraction, instruction: WgmmaInstruction) -> Sequence[Schedule]:
    return ()
