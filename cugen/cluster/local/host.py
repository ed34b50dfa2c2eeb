"""A process of `--scheduler local`, which has the scheduler or starts workers.

`python -m cugen.cluster.local.host MODULE`: the workers are forks of one process that has imported MODULE.

Protocol: one JSON line on standard input, `{"scheduler": ADDRESS, "workers": [OPTIONS, …], "needed": N}`; an empty
ADDRESS starts a scheduler, whose address is a line on standard output. Another line follows once N of the workers are
there. The end of standard input, which is that of the parent, however it ends, ends the process and its workers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from contextlib import AsyncExitStack
from itertools import islice
from multiprocessing import forkserver
from threading import Thread
from time import sleep
from typing import Any

import dask.config
from distributed import Nanny, Scheduler
from distributed.utils import get_mp_context

HOST = "127.0.0.1"  # nothing listens on the network
_CLOSING_S = 2.0  # seconds until a worker is killed
_ENDING_S = 10.0  # seconds until that of all is given up
# Hundreds of small looks per second at the workers of one machine would take a core that has better things to do.
_CONFIGURATION = {
    "distributed.worker.multiprocessing-method": "forkserver",  # workers start within a second, with all modules
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.admin.system-monitor.gil.enabled": False,
}


def main() -> None:
    (module,) = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed
    logging.getLogger("distributed").setLevel(logging.ERROR)
    with dask.config.set(_CONFIGURATION):
        get_mp_context().set_forkserver_preload([module])
        forkserver.ensure_running()  # it imports while there is no scheduler yet
        if line := sys.stdin.readline():
            asyncio.run(_serve(json.loads(line), answers))


async def _serve(request: dict[str, Any], answers: Any) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def watch() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)
        sleep(_ENDING_S)
        os._exit(1)  # with it its workers end

    Thread(target=watch, name="watch the parent", daemon=True).start()
    async with AsyncExitStack() as stack:
        address = request["scheduler"]
        if not address:
            scheduler = Scheduler(host=HOST, port=0, dashboard_address=f"{HOST}:0")
            address = (await stack.enter_async_context(scheduler)).address
            answers.write(f"{address}\n")
        nannies = [Nanny(address, **options) for options in request["workers"]]
        stack.push_async_callback(_close, nannies)
        starting = [asyncio.ensure_future(nanny.start()) for nanny in nannies]
        for started in islice(asyncio.as_completed(starting), request["needed"]):
            await started
        answers.write("started\n")
        await ended.wait()
        logging.getLogger("distributed").setLevel(logging.CRITICAL)


async def _close(nannies: list[Nanny]) -> None:
    await asyncio.gather(*(nanny.close(timeout=_CLOSING_S) for nanny in nannies), return_exceptions=True)


if __name__ == "__main__":
    main()
