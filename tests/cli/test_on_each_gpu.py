"""Work on every GPU: each has a process that sees no other one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cugen.abi.errors import RunError
from cugen.cli.parallel.gpus import on_each_gpu
from cugen.tune.timing.gpus import Gpu

GPUS = tuple(Gpu("a GPU of the tests", "sm_90", f"GPU-{n}") for n in range(2))


def seen(item: str) -> tuple[str, str]:
    if item == "wrong":
        raise RunError("CG5011", "no GPU")
    return item, os.environ["CUDA_VISIBLE_DEVICES"]


def test_each_item_is_done_on_every_gpu_and_faults_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # from where the processes import this module
    results = on_each_gpu(GPUS, seen, lambda gpu: ["a", "b", "wrong"])
    assert next(results) == (("a", "GPU-0"), ("a", "GPU-1"))
    assert next(results) == (("b", "GPU-0"), ("b", "GPU-1"))
    with pytest.raises(RunError, match="CG5011"):
        next(results)
