"""The tiles of an output, and the warps and a thread of its first tile."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cugen.machine.requests.warp import WARP_SIZE
from cugen.report.output_tiles import Axis, OutputTiles

COLOURS = 4  # of warps, in turn
_WIDTH, _HEIGHT = 400, 260  # of the output, at most
_CELL, _MIN_SIDE = 10.0, 28.0  # pixels of an element, and of a whole side
_MIN_TILE = 3.0  # pixels between lines
_MAX_REGIONS = 600  # of warps that are drawn
_LABEL_WIDTH, _LABEL_HEIGHT = 24, 12


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels. `label` is a warp's number, where there is room for it, `colour` one of COLOURS."""

    x: float
    y: float
    width: float
    height: float
    colour: int = 0
    label: str = ""


@dataclass(frozen=True, slots=True)
class TilesChart:
    """An output of `width` × `height` pixels: lines between tiles, edges of tiles at the edge, and the first tile."""

    tiles: OutputTiles
    width: float
    height: float
    columns: tuple[float, ...]
    rows: tuple[float, ...]
    edge: tuple[Box, ...]
    first: Box


@dataclass(frozen=True, slots=True)
class ThreadsChart:
    """The first tile: regions of warps, and the elements of thread 0. No regions where they are too many."""

    tiles: OutputTiles
    width: float
    height: float
    warps: tuple[Box, ...]
    thread: tuple[Box, ...]


def tiles_chart(tiles: OutputTiles) -> TilesChart:
    """The chart of a plane of an output."""
    columns, rows = tiles.columns, tiles.rows
    scale = min(_WIDTH / columns.extent, _HEIGHT / rows.extent)
    across, down = _scale(columns.extent, scale, _WIDTH), _scale(rows.extent, scale, _HEIGHT)
    width, height = _pixel(columns.extent * across), _pixel(rows.extent * down)
    edges = [Box(x, 0, w, height) for x, w in _edges(columns, across)]
    edges += [Box(0, y, width, h) for y, h in _edges(rows, down)]
    (left, right), (top, bottom) = columns.intervals[0], rows.intervals[0]
    first = Box(
        _pixel(left * across), _pixel(top * down), _pixel((right - left) * across), _pixel((bottom - top) * down)
    )
    return TilesChart(tiles, width, height, _lines(columns, across), _lines(rows, down), tuple(edges), first)


def threads_chart(tiles: OutputTiles) -> ThreadsChart | None:
    """The chart of the first tile; None if TMA stores it."""
    if not tiles.stored:
        return None
    rows, columns = tiles.owners.shape
    across, down = _scale(columns, _CELL, _WIDTH), _scale(rows, _CELL, _HEIGHT)
    warps = np.where(tiles.owners < 0, -1, tiles.owners // WARP_SIZE)
    seen: set[int] = set()
    boxes = []
    regions = _regions(warps)
    for warp, top, left, height, width in regions if len(regions) <= _MAX_REGIONS else ():
        box = _box(top, left, height, width, across, down)
        is_labelled = warp not in seen and box.width >= _LABEL_WIDTH and box.height >= _LABEL_HEIGHT
        if is_labelled:
            seen.add(warp)
        boxes.append(Box(box.x, box.y, box.width, box.height, warp % COLOURS, f"warp {warp}" if is_labelled else ""))
    thread = [
        _box(top, left, height, width, across, down)
        for _, top, left, height, width in _regions(np.where(tiles.owners == 0, 0, -1))
    ]
    return ThreadsChart(tiles, _pixel(columns * across), _pixel(rows * down), tuple(boxes), tuple(thread))


def _scale(extent: int, scale: float, maximum: int) -> float:
    """Pixels per element of a side, which is neither too short to see nor too long."""
    return min(max(scale * extent, _MIN_SIDE), maximum) / extent


def _edges(axis: Axis, scale: float) -> list[tuple[float, float]]:
    """Start and width of the tiles at the edge."""
    return [
        (_pixel(start * scale), max(_pixel((stop - start) * scale), 1.0))
        for position, (start, stop) in enumerate(axis.intervals)
        if axis.is_at_edge(position)
    ]


def _lines(axis: Axis, scale: float) -> tuple[float, ...]:
    """Where tiles start after the first; none if they are too close to tell apart."""
    if axis.tile * scale < _MIN_TILE:
        return ()
    return tuple(_pixel(start * scale) for start, _ in axis.intervals[1:])


def _regions(owners: NDArray[np.int64]) -> list[tuple[int, int, int, int, int]]:
    """Rectangles of one owner: (owner, top, left, height, width). Equal runs of adjacent rows are one."""
    finished: list[tuple[int, int, int, int, int]] = []
    open_: dict[tuple[int, int, int], int] = {}  # (owner, left, width): top
    for row in range(len(owners) + 1):
        runs = _runs(owners[row]) if row < len(owners) else set()
        for run in [run for run in open_ if run not in runs]:
            top = open_.pop(run)
            finished.append((run[0], top, run[1], row - top, run[2]))
        for run in runs:
            open_.setdefault(run, row)
    return sorted(finished, key=lambda region: region[1:])


def _runs(row: NDArray[np.int64]) -> set[tuple[int, int, int]]:
    """(owner, start, length) of equal adjacent elements with an owner."""
    starts = [0, *(np.flatnonzero(row[1:] != row[:-1]) + 1).tolist(), len(row)]
    return {(int(row[a]), a, b - a) for a, b in pairwise(starts) if row[a] >= 0}


def _box(top: int, left: int, height: int, width: int, across: float, down: float) -> Box:
    return Box(_pixel(left * across), _pixel(top * down), _pixel(width * across), _pixel(height * down))


def _pixel(value: float) -> float:
    return round(value, 1)
