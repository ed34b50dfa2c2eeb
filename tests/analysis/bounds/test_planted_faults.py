"""Faults planted in the gallery's plans: an access that is seen outside of its array is never proved inside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from cugen.analysis.bounds.proof import prove_bounds
from cugen.plan.context import Context
from cugen.plan.kernel import Plan
from cugen.schedule.planner import make_plan
from tests.analysis.bounds.executed import executed
from tests.analysis.bounds.faults import planted
from tests.gallery.specs import gallery

_FAULTS = 40  # of one kernel, evenly among all
_TYPICAL = (1, 37, 100)  # of sizes that are known at launch, or the next that the spec allows


def _sizes(context: Context) -> Iterator[dict[str, int]]:
    """Values of all params by their names in C."""
    params = context.spec.params
    for typical in _TYPICAL if any(param.is_dynamic for param in params) else (0,):
        sizes = {}
        for param in params:
            nearest = max(param.minimum, min(param.maximum, typical))
            multiple = -(-nearest // param.multiple_of) * param.multiple_of
            sizes[context.symbols[param.name].name] = multiple if param.value is None else param.value
        yield sizes


def _verdicts(plan: Plan) -> Iterator[tuple[str, str]]:
    """The fault and the verdict, of each access that a planted fault moves out of its array."""
    sizes = list(_sizes(plan.context))
    for launch in plan.kernels:
        faults = list(planted(launch))
        for name, changed in faults[:: max(1, len(faults) // _FAULTS)]:
            outside = {serial: text for each in sizes for serial, text in executed(changed, each).items()}
            for claim in prove_bounds(changed, plan.context) if outside else ():
                if text := outside.get(claim.access.serial):
                    yield f"{launch.name}, {name}: {text}", claim.verdict


@pytest.mark.sampled(62)
@pytest.mark.parametrize("name", gallery())
def test_an_access_that_is_seen_outside_is_never_proved_inside(name):
    plan = make_plan(gallery()[name])
    for launch in plan.kernels:
        assert [executed(launch, sizes) for sizes in _sizes(plan.context)].count({}) == len(list(_sizes(plan.context)))
    wrong = [fault for fault, verdict in _verdicts(plan) if verdict in ("proved", "enumerated")]
    assert not wrong


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "seen"), [("matmul_tiled", 30), ("jacobi2d", 25), ("rms_norm_dynamic", 12)])
def test_many_planted_faults_are_seen_so_that_the_test_above_can_fail(name, seen):
    verdicts = Counter(verdict for _, verdict in _verdicts(make_plan(gallery()[name])))
    assert verdicts["refuted"] + verdicts["unknown"] >= seen
    assert verdicts["refuted"] > 0
