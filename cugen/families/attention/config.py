"""Tiles of attention: rows of q of a block, keys of a step of its main loop, and what they take of a multiprocessor."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.attention.recognition import Attention
from cugen.machine import Target
from cugen.machine.requests.banks import WAVEFRONT_BYTES
from cugen.machine.requests.warp import WARP_SIZE
from cugen.plan.request import Request, Tunable
from cugen.spec.types import FLOAT32

MMA_M, MMA_N = 16, 8  # accumulators of one instruction
MATRIX = 16  # rows and columns of the fragments that one ldmatrix loads (PTX ISA: four matrices of 8 x 8)
MATRIX_ROW = 8  # elements of a row of a matrix: 16 bytes
MAX_WIDTH = 256  # of a row of q or k
STAGES = 2  # of the tiles of k and v
ELEMENT_BYTES = 2
# Registers of a thread by those of its accumulators: of 12 kernels for sm_90 ptxas 13.0 took 0.9 to 1.1 times as many.
_REGISTERS_OF_SUM, _REGISTERS_OF_SCORE, _FURTHER_REGISTERS = 1.9, 2.0, 25
_MAX_SUMS, _MAX_ACCUMULATORS = 96, 112  # of a thread; with more ptxas spilt some

ROWS = Tunable("rows", (16, 32), 16, "rows of q that a warp multiplies", reorders=False)
KEYS = Tunable("keys", (16, 32, 64), 64, "rows of k and v of a step of the main loop", reorders=True)
WARPS = Tunable("warps", (2, 4, 8), 4, "warps of a block", reorders=False)
TUNABLES = (ROWS, KEYS, WARPS)


@dataclass(frozen=True, slots=True)
class AttentionConfig:
    """Sizes of tiles: `rows` of a warp, `keys` of a step. `depth` and `columns` are the padded widths of the rows of q
    and k, and of those of v."""

    rows: int
    keys: int
    warps: int
    depth: int
    columns: int

    @property
    def block_rows(self) -> int:
        return self.rows * self.warps

    @property
    def threads(self) -> int:
        return self.warps * WARP_SIZE

    @property
    def instructions(self) -> int:
        """Instructions along the rows of a warp."""
        return self.rows // MMA_M

    @property
    def shared_bytes(self) -> int:
        depth, columns = (width + pad_of(width) for width in (self.depth, self.columns))
        of_q, of_keys = self.block_rows * depth, STAGES * self.keys * (depth + columns)
        return ELEMENT_BYTES * (of_q + of_keys)

    def has_dynamic_tiles(self, target: Target) -> bool:
        """Whether tiles, and what warps exchange, need more than the static shared memory of a block."""
        return self.shared_bytes + self.exchanged_bytes > target.shared_per_block

    @property
    def exchanged_bytes(self) -> int:
        """Shared memory of the sums of masked keys."""
        return self.warps * self.columns * FLOAT32.bytes

    @property
    def sums(self) -> int:
        """A thread's sums of columns of v."""
        return self.rows * self.columns // WARP_SIZE

    @property
    def scores(self) -> int:
        """A thread's scores of a step."""
        return self.rows * self.keys // WARP_SIZE

    @property
    def registers(self) -> int:
        """An estimate of a thread's."""
        return round(_REGISTERS_OF_SUM * self.sums + _REGISTERS_OF_SCORE * self.scores + _FURTHER_REGISTERS)

    @property
    def fits_registers(self) -> bool:
        return self.sums <= _MAX_SUMS and self.sums + self.scores <= _MAX_ACCUMULATORS


def pad_of(width: int) -> int:
    """The elements by which rows of a tile are padded, so that rows of a matrix are in different banks; 0 of those that
    fill all banks, which are swizzled: copies to padded ones would straddle lines of 128 bytes."""
    return MATRIX_ROW if width * ELEMENT_BYTES % WAVEFRONT_BYTES else 0


def padded(extent: int) -> int:
    """The elements of a row of a tile: whole matrices."""
    return -(-extent // MATRIX) * MATRIX


def choices(attention: Attention) -> list[AttentionConfig]:
    """The configs that the schedule allows and a block of the target can have."""
    request, context = attention.request, attention.context
    depth, columns = (padded(context.max_extent(index)) for index in (attention.depth, attention.column))
    limits = request.target
    candidates = (
        AttentionConfig(rows, keys, warps, depth, columns)
        for rows in _values(request, ROWS)
        for keys in _values(request, KEYS)
        for warps in _values(request, WARPS)
    )
    return [c for c in candidates if c.shared_bytes + c.exchanged_bytes <= limits.shared_opt_in and c.fits_registers]


def _values(request: Request, tunable: Tunable) -> tuple[int, ...]:
    """The values of a tunable that are tried: the schedule's, or all."""
    chosen = dict(request.schedule.tunables).get(tunable.name)
    return tuple(int(value) for value in ((chosen,) if chosen is not None else tunable.values))
