"""Work that several processes share."""

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

_CHUNKS_PER_JOB = 4


def in_processes(make: Callable[[_Item], _Result], items: Sequence[_Item], jobs: int) -> Iterator[_Result]:
    """What `make` gives for the items, in their order, by `jobs` processes."""
    chunk = max(1, len(items) // (jobs * _CHUNKS_PER_JOB))
    with ProcessPoolExecutor(min(jobs, len(items)), initializer=_end_with_the_parent) as pool:
        yield from pool.map(make, items, chunksize=chunk)


def _end_with_the_parent() -> None:
    """In a worker: one whose parent was killed would wait for work for ever."""

    def watch() -> None:
        if parent := multiprocessing.parent_process():
            parent.join()
            os._exit(OWN_FAULT)

    threading.Thread(target=watch, daemon=True).start()
