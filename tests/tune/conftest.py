"""GPUs that aren't there, workers that make up times, and a spec with few candidates."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.tune.timing.gpus import Gpu
from cugen.tune.tuner import Options

from .scale import FAKE, FOUR, SCALAR, SCALE, TWO

H200 = Gpu("NVIDIA H200", "sm_90")


@pytest.fixture(autouse=True)
def own_cache(unshared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUGEN_CACHE_DIR", os.fspath(unshared_cache))


@pytest.fixture
def scale() -> Spec:
    (spec,) = load_text(SCALE)
    return spec


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., tuple[str, ...]]:
    """The command of a worker that behaves as it is told."""

    def command(**plan: Any) -> tuple[str, ...]:
        file = tmp_path / "plan.json"
        file.write_text(json.dumps(plan))
        return (sys.executable, str(FAKE), str(file))

    return command


@pytest.fixture
def options(fake: Callable[..., tuple[str, ...]]) -> Callable[..., Options]:
    """Options of a search that starts over on one GPU, by default; the rest is the worker's."""

    def made(
        *,
        gpus: tuple[Gpu, ...] = (H200,),
        patience_s: float = 20.0,
        resume: bool = False,
        strategy: str = "exhaustive",
        jobs: int = 1,
        budget_s: float = 60.0,
        **plan: Any,
    ) -> Options:
        plan = {"times": [[TWO, 5.0], [SCALAR, 20.0], [FOUR, 10.0]], **plan}
        return Options(budget_s, strategy, 0, jobs, resume, gpus, fake(**plan), patience_s)

    return made
