"""Parallel map over processes."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from cugen.cli.failures import OWN_FAULT

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_CHUNKS_PER_JOB = 4  # balances uneven work (heuristic)


def in_processes(make: Callable[[_Item], _Result], items: Sequence[_Item], jobs: int) -> Iterator[_Result]:
    """Results of `make` for the items, in order, computed by `jobs` processes."""
    chunk = max(1, len(items) // (jobs * _CHUNKS_PER_JOB))
    with ProcessPoolExecutor(min(jobs, len(items)), initializer=_end_with_the_parent) as pool:
        yield from pool.map(make, items, chunksize=chunk)


def _end_with_the_parent() -> None:
    """Initialises a worker process: without it, a worker would outlive a killed parent."""

    def watch() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
            os._exit(OWN_FAULT)

    threading.Thread(target=watch, daemon=True).start()
