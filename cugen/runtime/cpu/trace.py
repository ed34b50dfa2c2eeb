"""Traces: the memory accesses of a run, with thread, array, offset and line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

KINDS = ("read", "write", "atomic")

# Layout of `Record` in runtime/trace.h.
RECORD = np.dtype(
    [
        ("counter", "<u8"),
        ("offset", "<u8"),
        ("launch", "<u4"),
        ("block", "<u4"),
        ("thread", "<u4"),
        ("interval", "<u4"),
        ("array", "<u2"),
        ("kind", "u1"),
        ("bytes", "u1"),
        ("line", "<u4"),
    ]
)


class TraceRecord(NamedTuple):
    """One access. `block` and `thread` are linear (x fastest), `offset` is in bytes from the array's start,
    `interval` counts the block barriers before; `kind` is read, write or atomic."""

    launch: int
    block: int
    thread: int
    interval: int
    kind: str
    array: str
    offset: int
    bytes: int
    line: int  # of the .cu, 0 where unknown


@dataclass(frozen=True, eq=False)
class Trace(Sequence[TraceRecord]):
    """The records in the order of execution; those of one thread are in program order.

    `table` has them as columns (dtype `RECORD`; `array` is an index into `arrays`, `kind` into `KINDS`, and
    `counter` the code address, which distinguishes accesses of one line)."""

    table: NDArray[Any]
    arrays: tuple[str, ...]
    shared: tuple[bool, ...]  # whether arrays[i] is shared memory

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, index: int) -> TraceRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Trace: ...
    def __getitem__(self, index: int | slice) -> TraceRecord | Trace:
        if isinstance(index, slice):
            return Trace(self.table[index], self.arrays, self.shared)
        return self._record(self.table[index].item())

    def __iter__(self) -> Iterator[TraceRecord]:
        return map(self._record, self.table.tolist())

    def of(self, array: str) -> Trace:
        """The accesses to one array."""
        numbers = [number for number, name in enumerate(self.arrays) if name == array]
        return Trace(self.table[np.isin(self.table["array"], numbers)], self.arrays, self.shared)

    def _record(self, row: tuple[int, ...]) -> TraceRecord:
        _, offset, launch, block, thread, interval, array, kind, size, line = row
        return TraceRecord(launch, block, thread, interval, KINDS[kind], self.arrays[array], offset, size, line)


def read_table(path: Path, load_offset: int) -> NDArray[Any]:
    """The child's records, code addresses relative to the file, without lines."""
    table = np.fromfile(path, RECORD)
    table["counter"] -= np.uint64(load_offset)
    return table


def fill_lines(table: NDArray[Any], lines: Mapping[int, int]) -> None:
    """Fills in the lines of the records' code addresses."""
    counters, inverse = np.unique(table["counter"], return_inverse=True)
    known = np.array([lines.get(int(counter), 0) for counter in counters], dtype=np.uint32)
    table["line"] = known[inverse]
