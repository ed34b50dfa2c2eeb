"""A Dask worker in a process of its own, whose GPU is not there: `process_worker.py SCHEDULER NAME UUID PLAN`.

UUID is empty for a CPU worker. PLAN is the file of `tests/tune/fake_worker.py`, which times in place of the GPU.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from distributed import Worker

from cugen.tune.timing import gpus, workers
from cugen.tune.timing.gpus import Gpu

FAKE = Path(__file__).parents[1] / "tune" / "fake_worker.py"


async def serve(scheduler: str, name: str, uuid: str, plan: str) -> None:
    gpus.identified_gpus = lambda: (Gpu("NVIDIA H200", "sm_90", uuid),)
    workers.COMMAND = (sys.executable, str(FAKE), plan)
    resources = {"GPU": 1} if uuid else {}
    async with Worker(scheduler, nthreads=1, name=name, resources=resources, dashboard=False) as worker:
        await worker.finished()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
