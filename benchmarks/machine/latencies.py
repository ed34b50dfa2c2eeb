"""Latencies of the memories of a GPU, by chases of pointers, and what a sector of a row costs by the pitch of the rows.

    python -m benchmarks.machine.latencies [--output docs/results/latencies_h100.json]
    python -m benchmarks.generator.options_page

A chase is one thread that loads the address of its next load, in an order drawn at random over so many bytes; it is
warmed where a cache holds them. For device memory L2 is flushed after that, as `bench` does it, and for comparison by
loads whose lines are evicted first. Each figure is the median of five. Sectors are read once, with cold caches, a
warp's lanes in 32 rows; rows are 2^20 for every pitch. The second line renders the page from the file.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing.figures import about, save
from cugen.abi.textures import TextureMemory
from cugen.bench.protocol import Contender, Plan, measure
from cugen.bench.session import Session, session
from cugen.runtime.cuda.libcuda import Driver, driver
from cugen.toolchain.cuda import compile_cubin

SOURCE = Path(__file__).with_suffix(".cu")
KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
LINE = 128  # bytes between the elements of a chase
SETS = {"l1": (16 * KB, 64 * KB, 128 * KB), "l2": (1 * MB, 8 * MB, 16 * MB)}
FLUSHED, FAR = (1 * MB, 16 * MB), GB
CONSTANTS = (1 * KB, 16 * KB, 64 * KB)
MAX_STEPS, REPEATS = 4096, 5
ROWS = 1 << 20
PITCHES = (32, 64, 128, 256, 512, 1024, 1056, 2048, 2080, 4096, 4128, 8192, 8224, 16384, 16416)


class Probes:
    """The kernels of `latencies.cu` in a session."""

    def __init__(self, opened: Session, cuda: Driver) -> None:
        self.opened, self.cuda = opened, cuda
        self._module = cuda.load(compile_cubin(SOURCE.read_text(), "latencies", opened.capability).image)
        self._found = opened.allocate(24)

    def launch(self, name: str, blocks: int, threads: int, *arguments: Any) -> None:
        function = self.cuda.function(self._module, name)
        content = [bytes(argument) for argument in arguments]
        self.cuda.launch(function, (blocks, 1, 1), (threads, 1, 1), 0, self.opened.stream_handle, content)

    def chase(self, unit: str, size: int, warm: int, steps: int, *arguments: Any) -> dict[str, Any]:
        """The cycles of a step, and the clock in MHz."""
        return median(unit, size, [self.once(unit, warm, steps, *arguments) for _ in range(REPEATS)])

    def once(self, unit: str, warm: int, steps: int, *arguments: Any) -> tuple[float, float]:
        counts = (*map(ctypes.c_int, (warm, steps)), ctypes.c_uint64(self._found))
        self.launch(f"chase_{unit}", 1, 1, *arguments, *counts)
        cycles, nanoseconds, _ = self.opened.fetch(self._found, 3, np.dtype(np.uint64))
        return float(cycles) / steps, float(cycles) / float(nanoseconds) * 1e3

    def read_evicted_first(self, address: int, size: int) -> None:
        arguments = (ctypes.c_uint64(address), ctypes.c_uint64(size // 16), ctypes.c_uint64(self._found))
        self.launch("read_evicted_first", 16 * self.opened.sms, 256, *arguments)

    def set_constants(self, content: NDArray[np.uint32]) -> None:
        self.opened.upload(self.cuda.symbol(self._module, "constants"), content)


def median(unit: str, size: int, figures: list[tuple[float, float]]) -> dict[str, Any]:
    cycles, clocks = (statistics.median(column) for column in zip(*figures, strict=True))
    return {"unit": unit, "bytes": size, "cycles": cycles, "mhz": clocks}


def random_order(count: int, seed: int = 1) -> NDArray[np.int64]:
    """So many elements in random order, from element 0 on."""
    return np.concatenate(([0], 1 + np.random.default_rng(seed).permutation(count - 1)))


def cycle(count: int) -> NDArray[np.int64]:
    """The successor of each of so many elements on the cycle through all of them in random order."""
    order, following = random_order(count), np.empty(count, np.int64)
    following[order] = np.roll(order, -1)
    return following


def chases(probes: Probes) -> Iterator[dict[str, Any]]:
    """A figure for each memory and size."""
    opened = probes.opened
    yield probes.chase("registers", 4, MAX_STEPS, 16 * MAX_STEPS, ctypes.c_float(0.5), ctypes.c_float(1.0))
    yield probes.chase("shared", 4 * KB, 1024, MAX_STEPS)
    for size in CONSTANTS:
        elements = np.zeros((size // 64, 16), np.uint32)  # 64 bytes apart
        elements[:, 0] = cycle(len(elements)) * 64
        probes.set_constants(elements)
        yield probes.chase("constant", size, 2 * len(elements), MAX_STEPS)
    address = opened.allocate(FAR)
    indices = np.zeros((16 * KB // LINE, LINE // 4), np.int32)
    indices[:, 0] = cycle(len(indices)) * (LINE // 4)
    opened.upload(address, indices)
    texture = probes.cuda.create_texture(address, TextureMemory("int32", indices.size))
    yield probes.chase("texture", 16 * KB, 2 * len(indices), MAX_STEPS, ctypes.c_uint64(texture))
    probes.cuda.destroy_texture(texture)
    for level, sizes in SETS.items():
        for size in sizes:
            lines = upload_pointers(opened, address, size)
            yield probes.chase(level, size, 2 * lines, MAX_STEPS, ctypes.c_uint64(address))
    yield from device_memory(probes, address)
    opened.release(address)


def device_memory(probes: Probes, address: int) -> Iterator[dict[str, Any]]:
    """Chases that L2 doesn't hold any more, and one that it can't hold."""
    opened, flushed_bytes = probes.opened, 3 * probes.opened.l2_bytes
    flushed = opened.allocate(flushed_bytes)
    flushes: dict[str, Callable[[int, int], None]] = {
        "dram": opened.read,
        "evicted first": probes.read_evicted_first,
    }
    for size in FLUSHED:
        lines = upload_pointers(opened, address, size)
        for unit, flush in flushes.items():
            figures = []
            for _ in range(REPEATS):
                probes.once("l2", 2 * lines, 1, ctypes.c_uint64(address))
                flush(flushed, flushed_bytes)
                figures.append(probes.once("l2", 0, MAX_STEPS, ctypes.c_uint64(address)))
            yield median(unit, size, figures)
    order = random_order(upload_pointers(opened, address, FAR))
    opened.read(flushed, flushed_bytes)
    starts = [int(order[2 * MAX_STEPS * repeat]) * LINE for repeat in range(REPEATS)]  # no line is read twice
    yield median("dram", FAR, [probes.once("l2", 0, MAX_STEPS, ctypes.c_uint64(address + start)) for start in starts])
    opened.release(flushed)


def upload_pointers(opened: Session, address: int, size: int) -> int:
    """Fills memory with a chase through all of its lines, whose number is returned."""
    pointers = np.zeros((size // LINE, LINE // 8), np.uint64)
    pointers[:, 0] = address + cycle(len(pointers)) * LINE
    opened.upload(address, pointers)
    return len(pointers)


def sectors(probes: Probes) -> Iterator[dict[str, Any]]:
    """Cold medians of reading a sector of each row, by the pitch of the rows in bytes."""
    opened = probes.opened
    size = ROWS * max(PITCHES)
    rows, flushed, never = (opened.allocate(bytes_) for bytes_ in (size, 3 * opened.l2_bytes, 4))
    opened.fill(rows, "uint32", size // 4, 0, (0, 2**31), whole=True)

    def contender(pitch: int) -> Contender:
        arguments = (*map(ctypes.c_uint64, (rows, pitch, never)),)
        return Contender(str(pitch), lambda _: probes.launch("sectors", ROWS // 256, 256, *arguments))

    plan = Plan(1, lambda: opened.read(flushed, 3 * opened.l2_bytes), samples=40)
    cold = measure([contender(pitch) for pitch in PITCHES], opened, plan)["cold"]
    for pitch in PITCHES:
        us = cold[str(pitch)].median
        yield {"pitch": pitch, "cold_us": us, "gb_per_s": ROWS * 32 / us / 1e3}
    for address in (rows, flushed, never):
        opened.release(address)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, metavar="FILE", help="JSON file of the figures")
    args = parser.parse_args()
    figures: dict[str, list[dict[str, Any]]] = {"chases": [], "sectors": []}
    with session() as opened:
        probes = Probes(opened, driver())
        for row in chases(probes):
            figures["chases"].append(row)
            print(
                f"{row['unit']:13} {row['bytes']:14,} bytes  {row['cycles']:7.1f} cycles at {row['mhz']:.0f} MHz",
                flush=True,
            )
        for row in sectors(probes):
            figures["sectors"].append(row)
            print(
                f"a sector of each {row['pitch']:6} bytes  {row['cold_us']:8.2f} us  {row['gb_per_s']:7.1f} GB/s",
                flush=True,
            )
        device = opened.device
    if args.output:
        save(args.output, about(device) | figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
