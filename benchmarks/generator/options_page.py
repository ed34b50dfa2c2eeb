"""Renders the sections of `docs/measurements.md` on options and on latencies from the files of `options.py` and
`latencies.py`.

    python -m benchmarks.generator.options_page [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing.page_parts import Row, replaced, us, write
from cugen.machine import device, target
from cugen.machine.latency import memory_latency
from cugen.machine.unit_latency import UNITS, unit_latency

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "measurements.md"
OPTIONS, LATENCIES = (ROOT / "docs" / "results" / name for name in ("options_h200.json", "latencies_h100.json"))
WITHOUT = "without"
WORDS = {
    "registers": "a multiply-add",
    "shared": "shared memory",
    "constant": "constant memory",
    "texture": "texture, in L1",
    "l1": "global memory, in L1",
    "l2": "global memory, in L2",
    "dram": "device memory",
    "evicted first": "the same after a flush by loads that are evicted first",
}


def head(content: Row) -> str:
    return f"{content['device']}; {content['date']}; cugen {content['cugen']}; `{content['command']}`"


def options_part(content: Row) -> str:
    """A table of all variants, by their time over that without the option."""
    lines = [
        head(content),
        "",
        "| option | kernel | params | without, µs | with: µs (÷ without) |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(_case, content["cases"])]) + "\n"


def _case(row: Row) -> str:
    times = {name: timed["median"] for name, timed in row["cold_us"].items()}
    params = ", ".join(f"{name} = {value:,}" for name, value in row["params"].items())
    option = f"`{row['option']}`{' of ' + ' and '.join(row['arrays']) if row['arrays'] else ''}"
    cells = [option, f"`{row['kernel']}`", params, us(times[WITHOUT])]
    return f"| {' | '.join(cells)} | {'; '.join(_variants(row, times))} |"


def _variants(row: Row, times: dict[str, float]) -> Iterator[str]:
    for name, time in times.items():
        if name != WITHOUT:
            taken = ", taken by the launcher" if row.get("taken") == name else ""
            yield f"`{name}` {us(time)} ({time / times[WITHOUT]:.2f}{taken})"
    for name, earlier in row["same"].items():
        yield f"`{name}` the same code as {'without' if earlier == WITHOUT else f'`{earlier}`'}"
    for name, message in row["wrong"].items():
        yield f"`{name}` wrong: {message}"


def latencies_part(content: Row) -> str:
    """Latencies beside the figures that the analysis has, and sectors by the pitch of rows."""
    lines = [
        head(content),
        "",
        "| a load of, or the result of | bytes | cycles | MHz | cugen takes |",
        "|---|---|---|---|---|",
    ]
    known = _known()
    for row in content["chases"]:
        said = known.pop(row["unit"], "") if row["unit"] in known else ""
        lines.append(f"| {WORDS[row['unit']]} | {row['bytes']:,} | {row['cycles']:.1f} | {row['mhz']:.0f} | {said} |")
    lines += ["", "| a sector of each row, pitch in bytes | cold µs | GB/s of the sectors |", "|---|---|---|"]
    lines += [f"| {row['pitch']:,} | {us(row['cold_us'])} | {row['gb_per_s']:,.0f} |" for row in content["sectors"]]
    return "\n".join(lines) + "\n"


def _known() -> dict[str, str]:
    """The figures of the analysis for this GPU, each with its source."""
    row, gpu = target("sm_90"), device("H100")
    units = {unit: unit_latency(unit, row) for unit in UNITS}
    figures = {unit: f"{known.cycles:g} ({known.source})" for unit, known in units.items() if known.cycles is not None}
    memory = memory_latency(gpu)
    return figures | {"dram": f"{memory.cycles} ({memory.source})"}


def main() -> int:
    page = PAGE.read_text()
    page = replaced(page, "options", "end options", options_part(json.loads(OPTIONS.read_text())))
    page = replaced(page, "latencies", "end latencies", latencies_part(json.loads(LATENCIES.read_text())))
    return write({PAGE: page}, __doc__)


if __name__ == "__main__":
    sys.exit(main())
