"""The part of a page that its script reads, as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from cugen.machine.target import Target
from cugen.report.boxes import BoxMap, ChunkMap, PixelMap
from cugen.report.maps import AccessMap
from cugen.report.page import Entry, Launch, Page

_MAPS: dict[type, str] = {AccessMap: "map", BoxMap: "box", PixelMap: "pixels", ChunkMap: "chunks"}


def script_data(page: Page) -> str:
    """JSON text, which may stand in a `<script>` element."""
    text = json.dumps(data(page), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c")


def data(page: Page) -> dict[str, Any]:
    """The rules of the target, the accesses with their maps, and the tiles with their layouts."""
    numbers = {entry.report.access.serial: entry.number for entry in page.entries}
    return {
        "target": target_rules(page.target),
        "accesses": {
            str(entry.number): _entry(entry, launch, position)
            for position, launch in enumerate(page.launches)
            for entry in launch.entries
        },
        "tiles": [_tiles(launch, numbers) for launch in page.launches],
    }


def target_rules(target: Target) -> dict[str, Any]:
    """What the rules of requests depend on."""
    fields = ("banks", "request_lanes", "shared_rule", "global_rule", "global_cache", "global_split")
    return {"bank_bytes": target.bank_modes[0], **{name: getattr(target, name) for name in fields}}


def _entry(entry: Entry, launch: Launch, position: int) -> dict[str, Any]:
    report = entry.report
    return {
        "line": entry.line,
        "launch": position,
        "block": launch.planned.block,
        "text": report.text,
        "unit": report.unit,
        "ideal": report.per_request.worst_ideal if report.per_request else None,
        "worst": report.per_request.worst if report.per_request else None,
        **(
            {"reason": entry.lanes} if isinstance(entry.lanes, str) else {_MAPS[type(entry.lanes)]: asdict(entry.lanes)}
        ),
    }


def _tiles(launch: Launch, numbers: dict[int, int]) -> dict[str, Any]:
    """The tiles of a launch by their C names. An access in the tile that isn't shown has no number."""
    return {
        tile.symbol: {
            "array": tile.array,
            "accesses": [numbers.get(serial) for serial in tile.accesses],
            "layouts": [asdict(layout) for layout in tile.layouts],
        }
        for tile in launch.tiles
    }
