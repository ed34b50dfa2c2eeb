"""The modules of `benchmarks/`, which are installed nowhere."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


def benchmark(name: str) -> ModuleType:
    """The module of that name, such as `gemm.products`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        return import_module(f"benchmarks.{name}")
