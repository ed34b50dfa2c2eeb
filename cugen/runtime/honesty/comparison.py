"""Comparison of a trace with the predicted access sequence: addresses per access and thread, and statement order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cugen.runtime.cpu.trace import KINDS, Trace
from cugen.runtime.honesty.prediction import PlannedAccess, Prediction

Rows = NDArray[Any]
_AccessKey = tuple[int, str, str, int]  # line, array, kind and bytes


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first difference between the trace and the prediction of an access in one thread.

    Offsets are in bytes; None where the sequence has ended."""

    line: int
    access: str
    launch: int
    block: int
    thread: int  # of the block, x fastest
    predicted: int | None
    traced: int | None
    reason: str = ""

    def __str__(self) -> str:
        what = self.reason or f"predicted {_offset_text(self.predicted)}, traced {_offset_text(self.traced)}"
        thread = f"launch {self.launch}, block {self.block}, thread {self.thread}"
        return f"line {self.line}: {self.access}: {thread}: {what}"


def _offset_text(offset: int | None) -> str:
    return "no access" if offset is None else f"offset {offset}"


@dataclass
class Comparison:
    """`compared` counts traced accesses with a prediction, `unknown` those that depend on unknown data. There is one
    mismatch for each access and thread that differ."""

    compared: int = 0
    unknown: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)

    @property
    def summary(self) -> str:
        return f"{self.compared} accesses compared, {len(self.mismatches)} mismatches, {self.unknown} unknown"


def compare(trace: Trace, prediction: Prediction) -> Comparison:
    """Matches code addresses with planned accesses of the same line, array, kind and width. The sequences of offsets of
    each thread must be equal and, where all are, in the order of the plan's statements.
    """
    return _Comparing(trace, prediction).result()


class _Comparing:
    def __init__(self, trace: Trace, prediction: Prediction) -> None:
        self.trace, self.prediction = trace, prediction
        self.outcome = Comparison()
        threads = np.asarray(prediction.threads, np.int64)
        table = trace.table
        self.traced = np.zeros(len(table), _TRACED)
        self.traced["launch"], self.traced["offset"] = table["launch"], table["offset"]
        self.traced["thread"] = table["block"] * threads[table["launch"]] + table["thread"]
        self.traced["code"] = table["counter"]
        self.records = table

    def result(self) -> Comparison:
        records = self._records_by_key()
        steps = np.full(len(self.records), -1, np.int64)
        planned: dict[_AccessKey, list[int]] = {}
        for number, access in enumerate(self.prediction.accesses):
            planned.setdefault((access.line, access.array, access.kind, access.bytes), []).append(number)
        for key in sorted({*planned, *records}):
            self._compare_key(key, planned.get(key, []), records.get(key, np.zeros(0, np.int64)), steps)
        if not self.outcome.mismatches:
            self._check_order(steps)
        return self.outcome

    def _records_by_key(self) -> dict[_AccessKey, NDArray[np.int64]]:
        """Indices of the records of each key, without arrays that have no planned access (constant scalars)."""
        managed = {access.array for access in self.prediction.accesses}
        names, table = self.trace.arrays, self.records
        keys = np.stack([table[name].astype(np.int64) for name in ("line", "array", "kind", "bytes")])
        records: dict[_AccessKey, NDArray[np.int64]] = {}
        unique, inverse = np.unique(keys, axis=1, return_inverse=True)
        for position, (line, array, kind, size) in enumerate(unique.T.tolist()):
            if names[array] in managed:
                key = (line, names[array], KINDS[kind], size)
                more = np.flatnonzero(inverse.ravel() == position)
                records[key] = np.sort(np.concatenate([records.get(key, more[:0]), more]))
        return records

    def _compare_key(
        self, key: _AccessKey, numbers: list[int], records: NDArray[np.int64], steps: NDArray[np.int64]
    ) -> None:
        predicted = self.prediction.table[np.isin(self.prediction.table["access"], numbers)]
        unknown = self.prediction.unknown[np.isin(self.prediction.unknown["access"], numbers)]
        if len(unknown):
            unknown_threads = np.unique(_thread_keys(unknown))
            known = ~np.isin(_thread_keys(self.traced[records]), unknown_threads)
            self.outcome.unknown += int(np.count_nonzero(~known))
            records = records[known]
            predicted = predicted[~np.isin(_thread_keys(predicted), unknown_threads)]
        self.outcome.compared += len(records)
        unmatched: list[tuple[PlannedAccess, Rows]] = []
        codes = [records[self.traced["code"][records] == code] for code in np.unique(self.traced["code"][records])]
        for number in numbers:
            rows = _sorted(predicted[predicted["access"] == number])
            run = self._matching_codes(codes, rows)
            if run is not None:
                steps[self._merged(codes[run])] = rows["step"]
                del codes[run]
            elif len(rows):
                unmatched.append((self.prediction.accesses[number], rows))
        for access, rows in unmatched:
            self._report(access, rows, self.traced[self._merged(codes[:1])])
            del codes[:1]
        for code in codes:
            self._report(_unplanned(key), predicted[:0], self.traced[self._merged([code])])

    def _matching_codes(self, codes: list[NDArray[np.int64]], rows: Rows) -> slice | None:
        """Consecutive code addresses whose records equal the prediction.

        Mostly one; several where the compiler duplicated a store into both branches of a conditional; none for an
        access that is never executed."""
        for length in range(len(codes) + 1):
            for start in range(len(codes) - length + 1):
                run = slice(start, start + length)
                if sum(map(len, codes[run])) == len(rows) and self._is_equal(rows, self._merged(codes[run])):
                    return run
        return None

    def _merged(self, codes: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Indices of the records of some code addresses, sorted by thread, stable."""
        records = np.sort(np.concatenate([np.zeros(0, np.int64), *codes]))
        return records[np.argsort(_thread_keys(self.traced[records]), kind="stable")]

    def _is_equal(self, rows: Rows, records: NDArray[np.int64]) -> bool:
        traced = self.traced[records]
        return len(rows) == len(traced) and bool(
            (rows["offset"] == traced["offset"]).all() and (_thread_keys(rows) == _thread_keys(traced)).all()
        )

    def _report(self, access: PlannedAccess, rows: Rows, records: Rows) -> None:
        """Adds the first mismatch of each thread whose sequences differ."""
        for key in np.unique(np.concatenate([_thread_keys(rows), _thread_keys(records)])).tolist():
            predicted = rows["offset"][_thread_keys(rows) == key].tolist()
            traced = records["offset"][_thread_keys(records) == key].tolist()
            if predicted != traced:
                pairs = enumerate(zip(predicted, traced, strict=False))
                first = next((n for n, (a, b) in pairs if a != b), min(len(predicted), len(traced)))
                self._mismatch(
                    access,
                    key,
                    predicted[first] if first < len(predicted) else None,
                    traced[first] if first < len(traced) else None,
                )

    def _mismatch(
        self, access: PlannedAccess, key: int, predicted: int | None, traced: int | None, reason: str = ""
    ) -> None:
        launch, thread = key >> 32, key & 0xFFFFFFFF
        block, thread = divmod(thread, self.prediction.threads[launch])
        self.outcome.mismatches.append(
            Mismatch(access.line, access.text, launch, block, thread, predicted, traced, reason)
        )

    def _check_order(self, steps: NDArray[np.int64]) -> None:
        """Each thread must execute its statements in the order of the plan; C doesn't order accesses within one."""
        numbers = np.flatnonzero(steps >= 0)
        numbers = numbers[np.argsort(_thread_keys(self.traced[numbers]), kind="stable")]
        keys, ordered = _thread_keys(self.traced[numbers]), steps[numbers]
        back = np.flatnonzero((keys[1:] == keys[:-1]) & (ordered[1:] < ordered[:-1])) + 1
        for position in back.tolist():
            record = self.records[numbers[position]]
            access = PlannedAccess("", self.trace.arrays[record["array"]], "", "", 0, int(record["line"]))
            offset = int(record["offset"])
            self._mismatch(access, int(keys[position]), None, offset, "executed after a later statement's access")


_TRACED = np.dtype([("launch", "<u4"), ("thread", "<u4"), ("offset", "<i8"), ("code", "<u8")])


def _thread_keys(rows: Rows) -> NDArray[np.int64]:
    return rows["launch"].astype(np.int64) << 32 | rows["thread"].astype(np.int64)


def _sorted(rows: Rows) -> Rows:
    return rows[np.argsort(_thread_keys(rows), kind="stable")]


def _unplanned(key: _AccessKey) -> PlannedAccess:
    line, array, kind, size = key
    return PlannedAccess("", f"no access of the plan: {kind} of {size} bytes of {array}", array, kind, size, line)
