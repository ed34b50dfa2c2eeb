"""Work on every GPU of this machine at once, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from cugen.tune.timing.gpus import Gpu

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def on_each_gpu(
    gpus: Sequence[Gpu], make: Callable[[_Item], _Result], items_of: Callable[[Gpu], Sequence[_Item]]
) -> Iterator[tuple[_Result, ...]]:
    """Results of `make` for the items of each GPU, item by item, in the order of the GPUs. Each GPU has a process that
    sees no other one and takes one item at a time; all work at once. Exceptions of `make` are propagated."""
    with ExitStack() as stack:
        results = []
        for gpu in gpus:
            pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _pin, (gpu.uuid,))
            stack.callback(partial(pool.shutdown, cancel_futures=True))
            results.append(pool.map(make, items_of(gpu)))
        yield from zip(*results, strict=True)


def _pin(uuid: str) -> None:
    """Runs in the process before it loads the driver."""
    from cugen.tune.timing.orphans import serve_parent

    serve_parent()
    os.environ["CUDA_VISIBLE_DEVICES"] = uuid
