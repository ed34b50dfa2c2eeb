"""Many searches on a cluster at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from cugen.cluster.engine import ClusterEngine
from cugen.cluster.sharing import SharedEngine
from cugen.tune.engine import Engine
from cugen.tune.tuner import Outcome

_SEARCHES_PER_GPU = 6  # at once: one times, two are next, others compile or are in their finals (heuristic)


@contextmanager
def searched(engine: ClusterEngine, searches: Sequence[Callable[[Engine], Outcome]]) -> Iterator[list[Future[Outcome]]]:
    """The results of searches, which share the cluster. Each is called in a thread of its own with the engine that it
    has to use. Those that still run at exit are stopped."""
    shared = SharedEngine(engine, len(searches))
    pool = ThreadPoolExecutor(_SEARCHES_PER_GPU * len(engine.gpus), thread_name_prefix="search")
    try:
        yield [pool.submit(search, share) for search, share in zip(searches, shared.shares, strict=True)]
    finally:
        shared.stop()
        pool.shutdown(cancel_futures=True)
