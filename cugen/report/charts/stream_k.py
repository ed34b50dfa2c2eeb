"""The k-tiles of the output tiles that several blocks compute: a row for each tile, a box for each block's part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from cugen.plan.kernel import WorkUnits
from cugen.report.charts.output import COLOURS
from cugen.report.output_tiles import TilePart

_WIDTH, _ROW, _LEFT = 640, 20, 64  # pixels
_MAX_ROWS, _MAX_PARTS = 32, 600  # that are drawn
_MIN_LABEL = 24


@dataclass(frozen=True, slots=True)
class PartBox:
    """The part of a block in pixels; `label` is the block, where there is room for it."""

    part: TilePart
    x: float
    width: float
    colour: int
    label: str


@dataclass(frozen=True, slots=True)
class TileRow:
    tile: int
    y: int
    boxes: tuple[PartBox, ...]


@dataclass(frozen=True, slots=True)
class StreamKChart:
    """Rows of the first tiles with several parts. `whole` tiles have one block each, `divided` ones several."""

    units: WorkUnits
    whole: int
    divided: int
    rows: tuple[TileRow, ...]
    left: int = _LEFT
    width: int = _LEFT + _WIDTH + 2
    box: int = _ROW - 4

    @property
    def height(self) -> int:
        return _ROW * len(self.rows)


def stream_k_chart(parts: Sequence[TilePart], units: WorkUnits) -> StreamKChart | None:
    """The chart of the parts of all tiles; None if they are unknown."""
    tiles = [tuple(group) for _, group in groupby(parts, key=lambda part: part.tile)]
    if not tiles:
        return None
    divided = [tile for tile in tiles if len(tile) > 1]
    rows: list[TileRow] = []
    drawn = 0
    for tile in divided[:_MAX_ROWS]:
        drawn += len(tile)
        if drawn > _MAX_PARTS:
            break
        rows.append(TileRow(tile[0].tile, _ROW * len(rows), tuple(_box(part, units.k_tiles) for part in tile)))
    return StreamKChart(units, len(tiles) - len(divided), len(divided), tuple(rows))


def _box(part: TilePart, k_tiles: int) -> PartBox:
    scale = _WIDTH / k_tiles
    width = round((part.end - part.begin) * scale, 1)
    label = str(part.block) if width >= _MIN_LABEL else ""
    return PartBox(part, round(_LEFT + part.begin * scale, 1), width, part.block % COLOURS, label)
