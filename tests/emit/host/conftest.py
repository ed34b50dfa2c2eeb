"""The kernels of `launchers.yaml`, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from cugen.kernel import Kernel, generate
from cugen.spec.load import load_all


@pytest.fixture(scope="session")
def kernel_named() -> Callable[[str], Kernel]:
    """A kernel of `launchers.yaml`, without the analysis, which no launcher depends on."""
    specs = {spec.kernel: spec for spec in load_all(Path(__file__).parent / "launchers.yaml")}
    return cache(lambda name: generate(specs[name], analysis=False))
