"""One function over many items on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from itertools import takewhile
from typing import Any, TypeVar

from cugen.cluster.connection import Cluster, gpu_options, pool_options
from cugen.cluster.errors import ClusterError

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_ITEMS_AHEAD = 2000  # tasks that the scheduler knows at once (heuristic: it takes some KB for each)


def mapped(
    cluster: Cluster, make: Callable[[_Item], _Result], items: Sequence[_Item], *, gpu_workers: Sequence[str] = ()
) -> Iterator[_Result]:
    """Results of `make` for the items, in order, computed by the CPU workers, or by these GPU workers, each of which
    takes one item at a time.

    An item whose worker died is computed by another. Raises ClusterError if workers die at it again and again, or the
    scheduler was lost; exceptions of `make` are propagated."""
    from distributed import KilledWorker

    options = gpu_options(*gpu_workers) if gpu_workers else pool_options(cluster)
    waiting, pending = iter(items), list[Any]()

    def submit(count: int) -> None:
        chunk = [item for _, item in zip(range(count), waiting, strict=False)]
        if chunk:
            pending.extend(cluster.client.map(make, chunk, **options))

    submit(_ITEMS_AHEAD)
    position = 0
    while position < len(pending):
        try:
            results = [pending[position].result()]
            with suppress(KilledWorker):  # one is lost since: its turn comes
                results += cluster.client.gather(_finished(pending[position + 1 :]))
        except KilledWorker as error:
            raise ClusterError(
                f"workers died at item {position + 1} of {len(items)}, the last one was {error.last_worker.address}",
                "look into the workers' logs; too little memory is the usual reason",
            ) from error
        except (CancelledError, OSError):
            cluster.require()
            raise
        for result in results:
            pending[position] = None  # the cluster forgets the result
            position += 1
            if position % (_ITEMS_AHEAD // 2) == 0:
                submit(_ITEMS_AHEAD // 2)
            yield result


def _finished(futures: Sequence[Any]) -> list[Any]:
    """The first of the futures that have results. Taken together they cost the scheduler one request."""
    return list(takewhile(lambda future: future.status == "finished", futures))
