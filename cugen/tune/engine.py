"""Engines of a search: where its candidates are prepared and timed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import ParamSpec, Protocol, TypeVar

from cugen.tune.timing.gpus import Gpu
from cugen.tune.timing.orphans import serve_parent
from cugen.tune.timing.search_gpus import GpuSource
from cugen.tune.timing.workers import Process, TimingProcess

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


class Engine(GpuSource, Protocol):
    """Where a search prepares and times candidates. `jobs` candidates are prepared in parallel. The final comparison is
    repeated on `final_gpus` of the GPUs."""

    @property
    def jobs(self) -> int: ...
    @property
    def final_gpus(self) -> int: ...

    def begin(
        self, function: Callable[_Given, _Result], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> Callable[[], _Result]:
        """Begins a function that needs much time of a CPU core, if another one than the caller's is for that. Returns
        what waits for its result."""
        ...

    def pool(self) -> Executor:
        """Executor that prepares candidates."""
        ...

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Calls `changed`, in any thread, when other GPUs are assigned or announced."""
        ...

    def release(self) -> None:
        """Gives back all GPUs, before the final comparison."""
        ...

    def require(self) -> None:
        """Raises an exception if the engine can't go on."""
        ...


class Exclusive:
    """The part of an engine whose GPUs a search has for itself."""

    gpus: Sequence[Gpu]
    announced: Sequence[Gpu] = ()

    @property
    def assigned(self) -> Sequence[Gpu]:
        """All GPUs."""
        return self.gpus

    def subscribe(self, changed: Callable[[], None]) -> None: ...

    def refuse(self, gpu: Gpu) -> None: ...

    def release(self) -> None: ...


@dataclass(frozen=True)
class Machine(Exclusive):
    """The cores and GPUs of this machine. `command` starts a timing process, `patience_s` is the time until a missing
    answer counts as a hang. `preparing`: processes, 0 for one per core."""

    gpus: Sequence[Gpu]
    command: Sequence[str]
    patience_s: float
    preparing: int = 0
    final_gpus: int = 1
    depth: int = 1

    @property
    def jobs(self) -> int:
        return self.preparing or len(os.sched_getaffinity(0))

    def begin(
        self, function: Callable[_Given, _Result], *args: _Given.args, **kwargs: _Given.kwargs
    ) -> Callable[[], _Result]:
        return partial(function, *args, **kwargs)

    def pool(self) -> Executor:
        if self.jobs == 1:
            return ThreadPoolExecutor(1)
        return ProcessPoolExecutor(self.jobs, get_context("spawn"), initializer=serve_parent)

    def start(self, gpu: Gpu) -> TimingProcess:
        return Process(self.command, gpu, self.patience_s)

    def require(self) -> None: ...
