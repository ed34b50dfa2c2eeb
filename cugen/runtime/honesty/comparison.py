"""A trace against a prediction: each access's sequence of addresses in each thread, and the order of statements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cugen.runtime.cpu.trace import KINDS, Trace
from cugen.runtime.honesty.prediction import Place, Prediction

Rows = NDArray[Any]
_Where = tuple[int, str, str, int]  # line, array, kind and bytes: what a record tells of the place that made it


@dataclass(frozen=True, slots=True)
class Mismatch:
    """What one thread did at one line other than predicted. Offsets are in bytes; None: no (further) access there."""

    line: int
    access: str
    launch: int
    block: int
    thread: int  # of the block, x fastest
    expected: int | None
    found: int | None
    reason: str = ""

    def __str__(self) -> str:
        what = self.reason or f"predicted {_at(self.expected)}, found {_at(self.found)}"
        place = f"launch {self.launch}, block {self.block}, thread {self.thread}"
        return f"line {self.line}: {self.access}: {place}: {what}"


def _at(offset: int | None) -> str:
    return "nothing" if offset is None else f"offset {offset}"


@dataclass
class Comparison:
    """`compared` counts the traced accesses that the prediction speaks of, `unknown` those that it leaves open,
    since data decides about them. There is one mismatch for each access and thread that differ."""

    compared: int = 0
    unknown: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)

    @property
    def summary(self) -> str:
        return f"{self.compared} accesses compared, {len(self.mismatches)} mismatches, {self.unknown} unknown"


def compare(trace: Trace, prediction: Prediction) -> Comparison:
    """Fits each place in the machine's code to an access of the plan on the same line, with the same array, kind and
    width. Each thread's sequence of offsets at each place must agree, and, where all do, the order of its statements.
    """
    return _Comparing(trace, prediction).result()


class _Comparing:
    def __init__(self, trace: Trace, prediction: Prediction) -> None:
        self.trace, self.prediction = trace, prediction
        self.outcome = Comparison()
        threads = np.asarray(prediction.threads, np.int64)
        table = trace.table
        self.found = np.zeros(len(table), _FOUND)
        self.found["launch"], self.found["offset"] = table["launch"], table["offset"]
        self.found["thread"] = table["block"] * threads[table["launch"]] + table["thread"]
        self.found["code"] = table["counter"]
        self.records = table

    def result(self) -> Comparison:
        by_where = self._records_by_where()
        steps = np.full(len(self.records), -1, np.int64)
        planned: dict[_Where, list[int]] = {}
        for number, place in enumerate(self.prediction.places):
            planned.setdefault((place.line, place.array, place.kind, place.bytes), []).append(number)
        for where in sorted({*planned, *by_where}):
            self._one_line(where, planned.get(where, []), by_where.get(where, np.zeros(0, np.int64)), steps)
        if not self.outcome.mismatches:
            self._check_order(steps)
        return self.outcome

    def _records_by_where(self) -> dict[_Where, NDArray[np.int64]]:
        """Numbers of the records of each line, array, kind and width; constant scalars and the like left out."""
        managed = {place.array for place in self.prediction.places}
        names, table = self.trace.arrays, self.records
        keys = np.stack([table[name].astype(np.int64) for name in ("line", "array", "kind", "bytes")])
        found: dict[_Where, NDArray[np.int64]] = {}
        unique, inverse = np.unique(keys, axis=1, return_inverse=True)
        for position, (line, array, kind, size) in enumerate(unique.T.tolist()):
            if names[array] in managed:
                where = (line, names[array], KINDS[kind], size)
                more = np.flatnonzero(inverse.ravel() == position)
                found[where] = np.sort(np.concatenate([found.get(where, more[:0]), more]))
        return found

    def _one_line(
        self, where: _Where, numbers: list[int], records: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> None:
        expected = self.prediction.table[np.isin(self.prediction.table["place"], numbers)]
        undecided = self.prediction.unknown[np.isin(self.prediction.unknown["place"], numbers)]
        if len(undecided):
            open_threads = np.unique(_thread_keys(undecided))
            known = ~np.isin(_thread_keys(self.found[records]), open_threads)
            self.outcome.unknown += int(np.count_nonzero(~known))
            records = records[known]
            expected = expected[~np.isin(_thread_keys(expected), open_threads)]
        self.outcome.compared += len(records)
        left: list[tuple[Place, Rows]] = []
        codes = [records[self.found["code"][records] == code] for code in np.unique(self.found["code"][records])]
        for number in numbers:
            rows = _sorted(expected[expected["place"] == number])
            run = self._run_of(codes, rows)
            if run is not None:
                own = self._merged(codes[run])
                steps[own] = rows["step"]
                del codes[run]
            elif len(rows):
                left.append((self.prediction.places[number], rows))
        for place, rows in left:
            self._report(place, rows, self.found[self._merged(codes[:1])])
            del codes[:1]
        for own in codes:
            self._report(_unplanned(where), expected[:0], self.found[self._merged([own])])

    def _run_of(self, codes: list[NDArray[np.int64]], rows: Rows) -> slice | None:
        """The code that did just what an access was to do: mostly one place, but a compiler puts a store of what a
        choice yields into both its branches. A run of none for an access that never runs."""
        for length in range(len(codes) + 1):
            for start in range(len(codes) - length + 1):
                run = slice(start, start + length)
                if sum(map(len, codes[run])) == len(rows) and self._same(rows, self._merged(codes[run])):
                    return run
        return None

    def _merged(self, codes: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Numbers of the records of some places in the code, thread by thread in their order."""
        own = np.sort(np.concatenate([np.zeros(0, np.int64), *codes]))
        return own[np.argsort(_thread_keys(self.found[own]), kind="stable")]

    def _same(self, rows: Rows, own: NDArray[np.int64]) -> bool:
        found = self.found[own]
        return len(rows) == len(found) and bool(
            (rows["offset"] == found["offset"]).all() and (_thread_keys(rows) == _thread_keys(found)).all()
        )

    def _report(self, place: Place, rows: Rows, found: Rows) -> None:
        """One mismatch for each thread whose sequences differ: the first position at which they do."""
        for key in np.unique(np.concatenate([_thread_keys(rows), _thread_keys(found)])).tolist():
            expected = rows["offset"][_thread_keys(rows) == key].tolist()
            seen = found["offset"][_thread_keys(found) == key].tolist()
            if expected != seen:
                at = next((n for n, (a, b) in enumerate(zip(expected, seen, strict=False)) if a != b), -1)
                at = at if at >= 0 else min(len(expected), len(seen))
                self._mismatch(
                    place,
                    key,
                    expected[at] if at < len(expected) else None,
                    seen[at] if at < len(seen) else None,
                )

    def _mismatch(self, place: Place, key: int, expected: int | None, found: int | None, reason: str = "") -> None:
        launch, thread = key >> 32, key & 0xFFFFFFFF
        block, thread = divmod(thread, self.prediction.threads[launch])
        self.outcome.mismatches.append(Mismatch(place.line, place.text, launch, block, thread, expected, found, reason))

    def _check_order(self, steps: NDArray[np.int64]) -> None:
        """Each thread must have run its statements in the order of the plan; C orders nothing within one."""
        numbers = np.flatnonzero(steps >= 0)
        numbers = numbers[np.argsort(_thread_keys(self.found[numbers]), kind="stable")]
        keys, ordered = _thread_keys(self.found[numbers]), steps[numbers]
        back = np.flatnonzero((keys[1:] == keys[:-1]) & (ordered[1:] < ordered[:-1])) + 1
        for at in back.tolist():
            record = self.records[numbers[at]]
            place = Place("", self.trace.arrays[record["array"]], "", "", 0, int(record["line"]))
            self._mismatch(place, int(keys[at]), None, int(record["offset"]), "made after a later statement's")


_FOUND = np.dtype([("launch", "<u4"), ("thread", "<u4"), ("offset", "<i8"), ("code", "<u8")])


def _thread_keys(rows: Rows) -> NDArray[np.int64]:
    return rows["launch"].astype(np.int64) << 32 | rows["thread"].astype(np.int64)


def _sorted(rows: Rows) -> Rows:
    return rows[np.argsort(_thread_keys(rows), kind="stable")]


def _unplanned(where: _Where) -> Place:
    line, array, kind, size = where
    return Place("", f"no access of the plan: {kind} of {size} bytes of {array}", array, kind, size, line)
