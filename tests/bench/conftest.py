"""A session whose device memory is an array of the host, so that buffers and checks are tested without a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cugen.bench.protocol import Work
from cugen.reference.storage import numpy_dtype
from cugen.spec.types import DTYPES

BASE = 0x1000  # addresses are not offsets


class FakeSession:
    """The part of `cugen.bench.session.Session` that moves and counts bytes."""

    def __init__(self, size: int = 1 << 22, l2_bytes: int = 4096) -> None:
        self.memory = np.zeros(size, np.uint8)
        self.l2_bytes = l2_bytes
        self.used = 0
        self.released: list[int] = []

    def allocate(self, size: int) -> int:
        start = -(-self.used // 512) * 512
        assert start + size <= self.memory.size
        self.used = start + size
        return BASE + start

    def release(self, address: int) -> None:
        self.released.append(address)

    def free_bytes(self) -> int:
        return self.memory.size - self.used

    def synchronize(self) -> None: ...

    def bytes_at(self, address: int, size: int) -> NDArray[np.uint8]:
        return self.memory[address - BASE : address - BASE + size]

    def set_bytes(self, address: int, value: int, size: int) -> None:
        self.bytes_at(address, size)[:] = value

    def copy(self, target: int, source: int, size: int) -> None:
        self.bytes_at(target, size)[:] = self.bytes_at(source, size).copy()

    def upload(self, address: int, content: NDArray[Any]) -> None:
        raw = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
        self.bytes_at(address, raw.size)[:] = raw

    def fetch(self, address: int, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        return self.bytes_at(address, count * dtype.itemsize).copy().view(dtype)

    def fill(self, address: int, dtype: str, count: int, seed: int, span: tuple[int, int], *, whole: bool) -> None:
        source = np.random.default_rng(seed)
        if dtype == "bool":
            span, whole = (0, 1), True
        values = source.integers(span[0], span[1], count, endpoint=True) if whole else source.uniform(*span, count)
        self.upload(address, values.astype(numpy_dtype(DTYPES[dtype])))

    def count_equal(self, address: int, count: int, width: int, pattern: int) -> int:
        return int(np.sum(self.bytes_at(address, count * width).view(f"u{width}") == pattern))

    def count_different(self, address: int, other_address: int, size: int) -> int:
        return int(np.sum(self.bytes_at(address, size) != self.bytes_at(other_address, size)))

    # What only measuring needs: a clock for which everything takes 10 µs.

    device = "a GPU of the tests"
    capability = "sm_90"
    stream = None
    stream_handle = 0
    late = 0

    def read(self, address: int, size: int) -> None:
        self.bytes_at(address, size)

    def times_us(self, works: Sequence[Work]) -> list[float]:
        for work in works:
            if work.before is not None:
                work.before()
            work.run()
        return [10.0] * len(works)

    def captured(self, runs: Sequence[Callable[[], None]]) -> tuple[Callable[[], None], Callable[[], None]]:
        for run in runs:
            run()
        return (lambda: None), (lambda: None)


@pytest.fixture
def fake() -> FakeSession:
    return FakeSession()
