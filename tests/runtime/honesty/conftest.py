"""The gallery at small sizes, and what a kernel's trace says of its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from cugen.kernel import Kernel, generate
from cugen.runtime.honesty import Comparison, check_honesty, small_params
from cugen.schedule.planner import make_plan
from cugen.spec.load import load, load_text
from cugen.toolchain import host
from cugen.toolchain.errors import ToolMissing

ROOT = Path(__file__).parents[3]
Check = Callable[[Kernel, Mapping[str, int]], Comparison]


@pytest.fixture(scope="session", autouse=True)
def compiler() -> None:
    try:
        host.compiler()
    except ToolMissing as error:
        pytest.skip(f"NO C++ COMPILER, THE PLAN IS NOT COMPARED WITH WHAT RUNS: {error}")


@dataclass(frozen=True)
class Small:
    """A kernel at sizes near its tiles, and the values of its dynamic params."""

    kernel: Kernel
    dynamic: Mapping[str, int]


@pytest.fixture(scope="session")
def small() -> Callable[[str, str, int], Small]:
    """A kernel of a file of the gallery, `beyond` (1 or -1) its tiles."""

    def make(file: str, name: str, beyond: int) -> Small:
        path = ROOT / "specs" / file
        full = load(path, kernel=name)
        params = small_params(full, make_plan(full), beyond)
        kernel = generate(load(path, params, kernel=name), analysis=False)
        return Small(kernel, {p.name: params[p.name] for p in full.params if p.is_dynamic})

    return make


@pytest.fixture(scope="session")
def made() -> Callable[[str], Kernel]:
    """The generated kernel of a spec's text, whose first two lines may be missing."""

    def make(text: str) -> Kernel:
        (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
        return generate(spec)

    return make


@pytest.fixture(scope="session")
def check() -> Check:
    """Traces a kernel and compares; the summary shows with `pytest -rP`."""

    def compare(kernel: Kernel, dynamic: Mapping[str, int]) -> Comparison:
        lines = kernel.access_lines()
        comparison = check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, lines, dynamic)
        print(f"{kernel.name}: {comparison.summary}")
        return comparison

    return compare
