"""The wait for an answer of a timing process ends with its worker, whenever that is lost."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cugen.cluster.connection import Cluster
from cugen.cluster.timing import RemoteProcess
from cugen.tune.timing.gpus import Gpu
from cugen.tune.timing.workers import Interrupted

GPU = Gpu("NVIDIA H200", "sm_90", "GPU-0")


class Done:
    """A future of a task that is done, whose result doesn't come: of a task of `status`."""

    def __init__(self, status: str) -> None:
        self.status, self.is_cancelled = status, False

    def add_done_callback(self, function: Callable[[Any], None]) -> None:
        function(self)

    def result(self, timeout: float | None = None) -> None:
        assert timeout is not None, "would wait forever"
        raise TimeoutError("of the task")

    def cancel(self) -> None:
        self.is_cancelled = True


def process_that_gets(future: Done) -> RemoteProcess:
    """A process on a cluster that has no worker any more."""
    client = SimpleNamespace(submit=lambda *arguments, **options: future)
    cluster = SimpleNamespace(client=client, workers=lambda: ())
    return RemoteProcess(cast(Cluster, cluster), GPU, lambda gpu: "tcp://gpu-0")


def test_a_worker_may_be_lost_between_the_end_of_a_task_and_its_answer() -> None:
    future = Done("finished")
    with pytest.raises(Interrupted, match="the worker of GPU-0 was lost"):
        process_that_gets(future).ask({})
    assert future.is_cancelled


def test_a_task_that_ran_out_of_time_says_so() -> None:
    with pytest.raises(Interrupted, match="of the task"):
        process_that_gets(Done("error")).ask({})
