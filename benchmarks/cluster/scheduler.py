"""What Dask's scheduler costs for each task of cugen, by the number of workers, which are simulated.

    python -m benchmarks.cluster.scheduler docs/results/scheduler.json [--tasks 10000] [--most-tasks 100000]

The scheduler is a process of its own, as on a cluster. This process plays the workers: each registers, takes one task
at a time, says after `--seconds` that it is done, and gives up tasks that the scheduler moves to another worker. The
tasks are those of `cugen.cluster.mapping.mapped`, as `generate` submits them, and do nothing. What counts is the CPU
time of the scheduler's process. It has one thread: the number of workers that it keeps busy is the time of a task
divided by its cost.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from operator import neg
from pathlib import Path
from threading import Thread
from typing import Any

import distributed
import psutil
from distributed import Client
from distributed.batched import BatchedSend
from distributed.comm import connect
from distributed.core import Server, Status
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps

import cugen
from benchmarks.timing.figures import command, save
from cugen.cluster.connection import Cluster
from cugen.cluster.mapping import mapped

SCHEDULER = """
import asyncio
from distributed import Scheduler

async def serve():
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()

asyncio.run(serve())
"""
WORKERS = (10, 30, 100, 300, 1000)
JOBS_S = {"compile a GEMM": 2.0, "time a candidate": 0.3}  # typical, for the workers that one scheduler keeps busy


class SimulatedWorker(Server):
    """A worker as the scheduler sees it. `seconds`: duration of each task."""

    def __init__(self, name: str, seconds: float, resources: Mapping[str, float]) -> None:
        super().__init__({"get_data": self.get_data}, needs_workdir=False)
        self._name, self._seconds, self._resources = name, seconds, dict(resources)
        self._free_at = 0.0
        self._waiting: dict[Any, asyncio.TimerHandle] = {}
        self._stream = BatchedSend("2ms", loop=self.loop)
        self._reading: asyncio.Task[None] | None = None

    async def join(self, scheduler: str) -> None:
        """Registers with the scheduler."""
        await self.listen("tcp://127.0.0.1:0")
        comm = await connect(scheduler)
        words = {"op": "register-worker", "reply": False, "address": self.address, "status": "running", "nthreads": 1}
        words |= {
            "name": self._name,
            "now": time.time(),
            "resources": self._resources,
            "memory_limit": 8 << 30,
            "services": {},
        }
        words |= {"local_directory": "", "nanny": "", "pid": os.getpid(), "versions": {}, "metrics": _metrics()}
        await comm.write(words | {"extra": {}, "stimulus_id": "join", "server_id": self.id})
        assert (await comm.read())["status"] == "OK"
        self._stream.start(comm)
        self._reading = asyncio.create_task(self._serve(comm))

    async def get_data(self, comm: Any, keys: list[Any], **_: Any) -> Status:
        """Sends the results of tasks."""
        await comm.write({"status": "OK", "data": {key: to_serialize(0) for key in keys}})
        assert await comm.read() == "OK"
        return Status.dont_reply

    async def _serve(self, comm: Any) -> None:
        while True:
            for message in await comm.read():
                if message["op"] == "compute-task":
                    self._take(message)
                elif message["op"] == "steal-request":
                    handle = self._waiting.pop(message["key"], None)
                    if handle is not None:
                        handle.cancel()
                    state = "executing" if handle is None else "ready"
                    answer = {"op": "steal-response", "key": message["key"], "state": state}
                    self._stream.send(answer | {"stimulus_id": message["stimulus_id"]})

    def _take(self, message: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        self._free_at = max(self._free_at, loop.time()) + self._seconds
        self._waiting[message["key"]] = loop.call_at(self._free_at, self._finish, message)

    def _finish(self, message: dict[str, Any]) -> None:
        del self._waiting[message["key"]]
        now = time.time()
        times = {"action": "compute", "start": now - self._seconds, "stop": now}
        done = {"op": "task-finished", "status": "OK", "key": message["key"], "run_id": message["run_id"], "nbytes": 28}
        done |= {"type": _INT, "typename": "int", "metadata": {}, "thread": 1, "startstops": [times]}
        self._stream.send(done | {"stimulus_id": f"task-finished-{now}"})


_INT = dumps(int)


def _metrics() -> dict[str, Any]:
    """What a worker says of itself when it registers."""
    bandwidth = {"total": 100e6, "workers": {}, "types": {}}
    unused = {"managed_bytes": 0, "memory": 100 << 20, "cpu": 0.0, "executing": {}, "task_counts": {}}
    spilled = {"memory": 0, "disk": 0}
    return {"bandwidth": bandwidth, "spilled_bytes": spilled, "digests_total_since_heartbeat": {}, **unused}


@contextmanager
def simulated(workers: int, gpu_workers: int, seconds: float) -> Iterator[tuple[Cluster, psutil.Process]]:
    """A cluster of simulated workers, and the scheduler's process."""
    environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "null"}  # they have no heartbeat
    words = [sys.executable, "-c", SCHEDULER]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def join() -> list[SimulatedWorker]:
        made = [SimulatedWorker(f"cpu-{number}", seconds, {}) for number in range(workers)]
        made += [SimulatedWorker(f"gpu-{number}", seconds, {"GPU": 1}) for number in range(gpu_workers)]
        for worker in made:
            await worker.join(address)
        return made

    kept = asyncio.run_coroutine_threadsafe(join(), loop).result()
    assert len(kept) == workers + gpu_workers
    client = Client(address, set_as_default=False)
    try:
        yield Cluster(client, address), psutil.Process(process.pid)
    finally:
        client.close(timeout=2)
        process.kill()
        process.wait()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def measured(workers: int, gpu_workers: int, tasks: int, seconds: float) -> dict[str, Any]:
    """Cost of the tasks on so many CPU workers, beside GPU workers that don't take them."""
    with simulated(workers, gpu_workers, seconds) as (cluster, scheduler):
        begun, used = time.perf_counter(), _cpu_seconds(scheduler)
        done = sum(1 for _ in mapped(cluster, neg, range(tasks)))
        took, used = time.perf_counter() - begun, _cpu_seconds(scheduler) - used
        megabytes = scheduler.memory_info().rss / 2**20
    assert done == tasks
    cost_ms = used / tasks * 1e3
    print(
        f"{workers:5} CPU and {gpu_workers} GPU workers, {tasks:7,} tasks: {took:7.1f} s, {cost_ms:.2f} ms of the "
        f"scheduler for each, {megabytes:.0f} MB",
        flush=True,
    )
    row = {"workers": workers, "gpu_workers": gpu_workers, "tasks": tasks, "seconds": took}
    return row | {"scheduler_ms_per_task": cost_ms, "scheduler_mb": megabytes}


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--most-tasks", type=int, default=100_000, help="on the most workers, at the end")
    parser.add_argument("--seconds", type=float, default=0.0, help="duration of a task")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    rows: list[dict[str, Any]] = []
    sizes = [*((count, 0, options.tasks) for count in WORKERS), (WORKERS[-1], 1, options.tasks)]
    for workers, gpu_workers, tasks in [*sizes, (WORKERS[-1], 0, options.most_tasks)]:
        rows.append(measured(workers, gpu_workers, tasks, options.seconds))
        cost_s = rows[-1]["scheduler_ms_per_task"] / 1e3
        busy = {job: round(seconds / cost_s) for job, seconds in JOBS_S.items()}
        content = {
            "date": datetime.date.today().isoformat(),
            "cugen": cugen.__version__,
            "distributed": distributed.__version__,
            "python": platform.python_version(),
            "processor": _processor(),
            "command": command(),
            "rows": rows,
            "workers_kept_busy": busy,
        }
        save(options.output, content)
    for job, count in busy.items():
        print(f"to {job} takes {JOBS_S[job]:g} s: one scheduler keeps {count:,} workers busy")
    return 0


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    sys.exit(main())
