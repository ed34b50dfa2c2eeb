"""What the families' tests share: a spec's text to its kernels, and a verified run of them on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from cugen.families.base import Refusal, Request
from cugen.families.registry import families
from cugen.kernel import Kernel, generate
from cugen.plan import ir
from cugen.plan.context import make_context
from cugen.plan.grouping import group_statements
from cugen.run.cpu import CpuDevice
from cugen.run.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Schedule
from cugen.targets import target
from cugen.toolchain.cuda import compile_cubin, compilers

Generate = Callable[[str], Kernel]
Planned = Callable[[str], ir.Kernel]
Reasons = Callable[[str, str], tuple[Refusal, ...]]
Prove = Callable[..., None]


@pytest.fixture(scope="session")
def made() -> Generate:
    """The generated kernel of a spec's text, whose format line may be missing."""

    def make(text: str) -> Kernel:
        (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
        return generate(spec)

    return make


@pytest.fixture(scope="session")
def planned(made: Generate) -> Planned:
    """The plan of a spec that makes one kernel."""

    def plan(text: str) -> ir.Kernel:
        (kernel,) = made(text).plan.kernels
        return kernel

    return plan


@pytest.fixture(scope="session")
def reasons() -> Reasons:
    """Why a family refuses the first group of a spec's statements."""

    def ask(family: str, text: str) -> tuple[Refusal, ...]:
        (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
        grouping = group_statements(spec)
        schedule = dict(spec.schedules).get("", Schedule())
        context = make_context(spec)
        request = Request("k", grouping.groups[0], context, schedule, target(spec.target), grouping.stored)
        (found,) = [f for f in families() if f.name == family]
        return found.refusals(request)

    return ask


@pytest.fixture(scope="session")
def prove(made: Generate) -> Prove:
    """Fails unless the CPU device's results are those of the reference."""

    def check(
        text: str, params: Mapping[str, int] | None = None, *, sanitize: bool = False, races: bool = False
    ) -> None:
        kernel = made(text)
        device = CpuDevice(sanitize=sanitize, races=races, workers=1, shuffle=7)
        run = verify(kernel.spec, kernel.source, kernel.manifest, device, params=params)
        assert run.verification.passed, "\n".join(run.verification.messages) + kernel.source

    return check


@pytest.fixture(scope="session")
def compiled(made: Generate) -> Generate:
    """The kernel of a spec's text, after NVRTC took it without a word for old and new targets."""

    def compile_all(text: str) -> Kernel:
        if not compilers():
            pytest.skip("no CUDA compiler on this machine")
        kernel = made(text)
        for name in ("sm_75", "sm_80", "sm_90"):
            assert compile_cubin(kernel.source, "k", name).warnings == ()
        return kernel

    return compile_all
