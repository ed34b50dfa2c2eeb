"""A Dask worker whose GPU isn't there: `gpu_worker.py SCHEDULER NAME UUID PLAN`; without UUID a CPU worker.

PLAN is the file of `tests/tune/fake_worker.py`, which times in place of the GPU; its key `state` has the GPU's state.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from distributed import Worker

from cugen.cluster import beside_gpu
from cugen.tune.devices import DeviceState
from cugen.tune.timing import gpus, workers
from cugen.tune.timing.gpus import Gpu

FAKE = Path(__file__).parents[1] / "tune" / "fake_worker.py"


async def serve(scheduler: str, name: str, uuid: str, plan: str) -> None:
    def state(uuid: str, own_processes: int) -> DeviceState:
        return DeviceState(**json.loads(Path(plan).read_text()).get("state", {}).get(uuid, {}))

    gpus.identified_gpus = lambda: (Gpu("NVIDIA H200", "sm_90", uuid),)
    workers.COMMAND = (sys.executable, str(FAKE), plan)
    beside_gpu.gpu_state = state
    resources = {"GPU": 1} if uuid else {}
    async with Worker(scheduler, nthreads=1, name=name, resources=resources, dashboard=False) as worker:
        await worker.finished()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
