"""Scales of a GEMM's partial sums: which are the same in a block tile, and which differ along its rows or columns.

    c[m, n] = sum(sa[m, k // 128] * sb[n // 128, k // 128] * a[m, k] * b[n, k], k)
in tiles of 128 columns has scales `sa` of rows, and `sb` of the tile. Consumers load them for each k-tile, those of
rows before they wait for it, and multiply the partial sums by them where they add these to others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.scales import Scales, group_lengths
from cugen.families.gemm.config import WARP
from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.wgmma.config import ACCUMULATOR_LANES_M, ACCUMULATOR_LANES_N, WgmmaConfig
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import unrolled
from cugen.plan.lowering.reads import name_reads
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Accumulate, Comment, Declare, Let, Node, Store
from cugen.plan.request import Refusal
from cugen.plan.scopes import Scope
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import Integer
from cugen.rewrite.sums.factors import Factor
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Local, Op, Select, free_indices
from cugen.spec.rewriting import replaced, without_quotients
from cugen.spec.types import BOOL, FLOAT32, INT64

_WIDEST = 16  # bits of operands; tf32 has twice as many k-tiles, whose sums would be promoted
_SPACES = (None, "global", "readonly")  # of arrays that hold scales
_GROUP = "group of k"  # for which no index of a spec stands


@dataclass(frozen=True, slots=True)
class Sides:
    """The scales by what they depend on within a block tile."""

    of_tile: tuple[Factor, ...]
    of_rows: tuple[Factor, ...]
    of_columns: tuple[Factor, ...]

    def registers(self, config: WgmmaConfig, groups: int) -> int:
        """Those that hold a thread's scales of a k-tile, of which the compiler loads all columns at once, and of its
        `groups` those of the next one, or of two, before the sums of one are there (ptxas 13.0, of 2 and 4 groups)."""
        loaded = (groups + 2) // 2
        return loaded * (1 + config.thread_m + config.thread_n * len(self.of_columns))


@lru_cache(maxsize=256)
def sides_of(contraction: Contraction, block_m: int, block_n: int) -> Sides | None:
    """The scales in tiles of this size; None where one differs along rows and along columns."""
    assert contraction.scales is not None
    sides: dict[tuple[bool, bool], list[Factor]] = {}
    for factor in contraction.scales.factors:
        along = tuple(
            _differs(factor, index, size, contraction)
            for index, size in ((contraction.m, block_m), (contraction.n, block_n))
        )
        sides.setdefault((along[0], along[1]), []).append(factor)
    if (True, True) in sides:
        return None
    of_tile, of_rows, of_columns = (tuple(sides.get(s, ())) for s in ((False, False), (True, False), (False, True)))
    return Sides(of_tile, of_rows, of_columns)


def _differs(factor: Factor, index: Index, size: int, contraction: Contraction) -> bool:
    """Whether a factor has several values along an index in a tile of this size, which begins at a multiple of it."""
    if index.name in free_indices(without_quotients(factor.expr)):
        return True
    return any(length % size for length in group_lengths(factor.expr, index.name, contraction.context))


def groups_of(contraction: Contraction, block_k: int) -> int:
    """The groups of a k-tile that have scales of their own."""
    scales = contraction.scales
    return 1 if scales is None or scales.length % block_k == 0 else block_k // scales.length


def scale_refusals(contraction: Contraction, scales: Scales, block_k: int, instruction_k: int) -> Iterator[Refusal]:
    """Why consumers can't multiply the sums of k-tiles, or of groups of their terms, by the scales."""
    if scales.length % block_k and (scales.length <= 0 or block_k % scales.length or scales.length % instruction_k):
        parts = f"{instruction_k} terms that divides {block_k}, or of these"
        yield Refusal(f"has scales of groups of a multiple of {parts}, not of {scales.length}")
    elif scales.length % block_k and (contraction.context.static_extent(contraction.k) or 1) % block_k:
        yield Refusal(f"has scales of groups of {scales.length} terms where K is a multiple of {block_k}")
    if any(operand.array.dtype.bits > _WIDEST for operand in contraction.operands):
        yield Refusal(f"has scales of operands of up to {_WIDEST} bits")
    if any(factor.is_divisor for factor in scales.factors):
        yield Refusal("multiplies by scales, and divides by none: by 0 a sum would differ from that of the quotients")
    names = {index.name for index in contraction.indices}
    if any(not factor.indices <= names for factor in scales.factors):
        yield Refusal("has scales over the indices of the GEMM")
    spec = contraction.context.spec
    for name in dict.fromkeys(read.array for read in scales.reads()):
        if spec.array(name).memory.space not in _SPACES:
            yield Refusal(f"loads the scales {name} from global memory", f"arrays.{name}.memory")


def scale_wavefronts(contraction: Contraction, config: WgmmaConfig) -> int:
    """Wavefronts of L1 in which a block loads the scales of a k-tile: lanes in different rows or columns have different
    lines."""
    if contraction.scales is None:
        return 0
    sides = sides_of(contraction, int(config.block_m), int(config.block_n))
    assert sides is not None
    rows = len(sides.of_rows) * config.thread_m * ACCUMULATOR_LANES_M
    columns = len(sides.of_columns) * config.thread_n * ACCUMULATOR_LANES_N
    groups = groups_of(contraction, int(config.block_k))
    return groups * config.consumer_threads // WARP * (len(sides.of_tile) + rows + columns)


class ScaledSums:
    """What a thread does with the scales of a k-tile whose first term is `k`, of the whole K, or of a `group` of it."""

    def __init__(self, thread: ThreadCoordinates, k: Integer, group: Integer | None = None) -> None:
        contraction, config = thread.contraction, thread.config
        sides = sides_of(contraction, int(config.block_m), int(config.block_n))
        assert sides is not None
        self.thread, self.lowering, self.contraction, self.config = thread, thread.lowering, contraction, config
        self.sides, self.k, self.group = sides, k, group
        reads = tuple(factor.expr for factor in (*sides.of_tile, *sides.of_rows, *sides.of_columns))
        self.lowering.read_names |= name_reads(reads, self.lowering.arrays)
        self.scale: Expr | None = None  # of the tile
        self.row_scales: Array | None = None

    def loads(self, of_what: str) -> tuple[Node, ...]:
        """The scales of the tile and of a thread's rows, as those of the tile times those of a row."""
        scope, lowering, sides = Scope(), self.lowering, self.sides
        if sides.of_tile or sides.of_rows:
            scope.nodes.append(Comment(f"scales of the {of_what}"))
        self.scale = self._product(sides.of_tile, {}, scope)
        if not sides.of_rows:
            if self.scale is not None and not isinstance(self.scale, Local):
                local = Local(lowering.names.allocate("scale"), FLOAT32)
                scope.nodes.append(Let(local, self.scale))
                self.scale = local
            return tuple(scope.nodes)
        self.row_scales = dense_array(
            lowering.names.allocate("row_scales"), FLOAT32, (self.config.thread_m,), "register"
        )
        i, m = self.thread.loop_index("i", self.config.thread_m), self.contraction.m.name
        of_row = Scope()
        row = lowering.define("row", self.thread.tile_origin[m] + self.thread.row(i.symbol), of_row)
        value = _times(self.scale, self._product(sides.of_rows, {m: row}, of_row))
        assert value is not None
        of_row.nodes.append(Store(Access(self.row_scales, (i.symbol,), "store"), value))
        loop = unrolled(i, of_row.nodes, stop=self.config.thread_m)
        return (*scope.nodes, Declare(self.row_scales), loop)

    def promote(self, partials: Array, sums: Array) -> tuple[Node, ...]:
        """Adds partial sums, times their scales, to sums in float32."""
        config, n = self.config, self.contraction.n.name
        i, j = self.thread.loop_index("i", config.thread_m), self.thread.loop_index("j", config.thread_n)
        scale = self.scale
        if self.row_scales is not None:
            scale = Element.of(Access(self.row_scales, (i.symbol,), "load"))
        scope = Scope()
        if self.sides.of_columns:
            column = self.thread.tile_origin[n] + self.thread.column(j.symbol, 1)
            column = self.lowering.define("column", column, scope)
            scale = _times(scale, self._product(self.sides.of_columns, {n: column}, scope))
        partial = Element.of(Access(partials, (i.symbol, j.symbol), "load"))
        value = _times(scale, partial)
        assert value is not None
        add = Accumulate(Access(sums, (i.symbol, j.symbol), "store"), value)
        loop = unrolled(i, (unrolled(j, (add,), stop=config.thread_n),), stop=config.thread_m)
        if self.sides.of_columns:
            loop = unrolled(j, (*scope.nodes, unrolled(i, (add,), stop=config.thread_m)), stop=config.thread_n)
        return Comment("its sums, times their scales, are added in float32"), loop

    def _product(self, factors: tuple[Factor, ...], coordinates: dict[str, Integer], scope: Scope) -> Expr | None:
        """The product of scales at coordinates of rows or columns, else at the origin of the tile; None of none."""
        lowering, contraction = self.lowering, self.contraction
        outside = dict(lowering.symbols)
        lowering.symbols |= {**self.thread.tile_origin, **coordinates, contraction.k.name: self.k}
        if self.group is not None:
            lowering.symbols[_GROUP] = self.group
        product: Expr | None = None
        for factor in factors:
            value = lowering.lower(self._inside(factor), scope)
            if factor.is_divisor:
                value = Op("div", (Const(1.0, FLOAT32), value), FLOAT32)
            product = _times(product, value)
        lowering.symbols = outside
        return product

    def _inside(self, factor: Factor) -> Expr:
        """A scale, or 0 for rows and columns beyond the matrix."""
        value = factor.expr if self.group is None else replaced(factor.expr, self._of_group)
        for index in (self.contraction.n, self.contraction.m):
            if index.name in factor.indices and not self.thread.exact[index.name]:
                inside = Op("lt", (IndexValue(index.name), index.extent), BOOL)
                value = Select(inside, value, Const(0.0, FLOAT32), FLOAT32)
        return value

    def _of_group(self, node: Expr) -> Expr | None:
        """A quotient of k as the one at the first term of the k-tile and that of the group's number, a constant once
        loops are unrolled: all groups are then loaded through one pointer."""
        contraction, block_k = self.contraction, int(self.config.block_k)
        length = block_k // groups_of(contraction, block_k)
        match node:
            case Op(name="floordiv", args=(IndexValue(name=contraction.k.name), divisor)):
                terms = contraction.context.static(to_integer(divisor, contraction.context.symbols))
                if terms is None or block_k % terms:
                    return None  # the same for all groups of a k-tile
                number: Expr = IndexValue(_GROUP)
                if terms > length:
                    number = Op("floordiv", (number, Const(terms // length, INT64)), INT64)
                return Op("add", (node, number), INT64)
        return None


def _times(left: Expr | None, right: Expr | None) -> Expr | None:
    if left is None or right is None:
        return right if left is None else left
    return Op("mul", (left, right), FLOAT32)
