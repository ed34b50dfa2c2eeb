"""Fixtures of the families' tests: kernels of a spec's text, and verified runs on the CPU device."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path

import pytest

from cugen.families.registry import families
from cugen.kernel import Kernel, generate
from cugen.machine import target
from cugen.plan.context import make_context
from cugen.plan.kernel import Kernel as PlannedKernel
from cugen.plan.request import Refusal, Refusals, Request
from cugen.rewrite.grouping import group_statements
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_all, load_text
from cugen.spec.model import Param, Schedule, Spec
from cugen.toolchain.cuda import compile_cubin, compilers

Generate = Callable[[str], Kernel]
Planned = Callable[[str], PlannedKernel]
Reasons = Callable[[str, str], tuple[Refusal, ...]]
Prove = Callable[..., None]
Check = Callable[[Kernel, CpuDevice], None]

_SIZES = ((0, 0, 0), (1, 1, 1), (37, 37, 37), (64, 3, 20))  # of dynamic params, as far as their ranges allow


@cache
def _files() -> dict[str, Path]:
    """The file of each hand-picked spec by its kernel's name, which are known before any is loaded."""
    paths = sorted((Path(__file__).parent / "statements").glob("*.yaml"))
    return {name: path for path in paths for name in re.findall(r"^kernel: (\w+)$", path.read_text(), re.MULTILINE)}


@cache
def _specs(path: Path) -> dict[str, Spec]:
    return {spec.kernel: spec for spec in load_all(path)}


@cache
def _generated(name: str) -> Kernel:
    return generate(_specs(_files()[name])[name], analysis=False)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrises tests with a `statement` over the specs of `statements/`."""
    if "statement_name" in metafunc.fixturenames:
        metafunc.parametrize("statement_name", list(_files()))


@pytest.fixture
def statement(statement_name: str) -> Kernel:
    return _generated(statement_name)


@pytest.fixture
def statements() -> Mapping[str, Spec]:
    """Every hand-picked spec by its kernel's name."""
    specs = {name: spec for path in dict.fromkeys(_files().values()) for name, spec in _specs(path).items()}
    assert specs.keys() == _files().keys()
    return specs


@pytest.fixture(scope="session")
def check() -> Check:
    """Verifies a kernel against the reference, at several sizes if it is dynamic."""

    def checked(kernel: Kernel, device: CpuDevice) -> None:
        for params in _some_params(kernel.spec.params):
            run = verify(kernel.spec, kernel.source, kernel.manifest, device, params=params)
            assert run.verification.passed, "\n".join([f"at {params}:", *run.verification.messages, kernel.source])

    return checked


def _some_params(params: tuple[Param, ...]) -> Iterator[dict[str, int]]:
    dynamic = [param for param in params if param.is_dynamic]
    for sizes in _SIZES if dynamic else ((),):
        yield {param.name: _allowed(size, param) for param, size in zip(dynamic, sizes, strict=False)}


def _allowed(size: int, param: Param) -> int:
    return max(param.minimum, min(param.maximum, size * param.multiple_of))


@lru_cache(maxsize=256)
def _made(text: str) -> Kernel:
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
    return generate(spec, analysis=False)


@pytest.fixture(scope="session")
def made() -> Generate:
    """The generated kernel of a spec's text, whose format line may be missing. Without analysis, which changes comments
    alone; generated once for all tests of the same text."""
    return _made


@pytest.fixture(scope="session")
def planned(made: Generate) -> Planned:
    """The plan of a spec that makes one kernel."""

    def plan(text: str) -> PlannedKernel:
        (kernel,) = made(text).plan.kernels
        return kernel

    return plan


@pytest.fixture(scope="session")
def reasons() -> Reasons:
    """Why a family refuses the first group of a spec's statements."""

    def refusals_of(family: str, text: str) -> tuple[Refusal, ...]:
        (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
        grouping = group_statements(spec)
        schedule = dict(spec.schedules).get("", Schedule())
        context = make_context(spec)
        request = Request("k", grouping.groups[0], context, schedule, target(spec.target), grouping.stored)
        (match,) = [f for f in families() if f.name == family]
        answer = match.answer(request)
        return answer.reasons if isinstance(answer, Refusals) else ()

    return refusals_of


@pytest.fixture(scope="session")
def prove(made: Generate) -> Prove:
    """Fails unless the CPU device's results equal the reference's. With `races` it also fails where a value is
    read that nobody wrote."""

    def check(
        text: str, params: Mapping[str, int] | None = None, *, sanitize: bool = False, races: bool = False
    ) -> None:
        kernel = made(text)
        device = CpuDevice(sanitize=sanitize, races=races, uninitialised=races, workers=1, shuffle=7)
        run = verify(kernel.spec, kernel.source, kernel.manifest, device, params=params)
        assert run.verification.passed, "\n".join(run.verification.messages) + kernel.source

    return check


@pytest.fixture(scope="session")
def compiled(made: Generate) -> Generate:
    """The kernel of a spec's text, after NVRTC compiled it without warnings for old and new targets."""

    def compile_all(text: str) -> Kernel:
        if not compilers():
            pytest.skip("no CUDA compiler on this machine")
        kernel = made(text)
        for name in ("sm_75", "sm_90"):
            assert compile_cubin(kernel.source, "k", name).warnings == ()
        return kernel

    return compile_all
