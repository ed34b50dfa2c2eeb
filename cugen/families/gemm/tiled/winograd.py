"""Convolutions by Winograd's algorithm, where the spec allows that and the cost models expect it to be faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

from cugen.families import direct
from cugen.families.gemm import family as gemm
from cugen.families.gemm.tiled.launches import copy_seconds
from cugen.families.gemm.wgmma import family as wgmma
from cugen.families.map import family as elementwise
from cugen.families.staged import family as staged
from cugen.families.stencil import family as stencil
from cugen.plan.context import make_context
from cugen.plan.request import Group, Request, Single, Steps
from cugen.rewrite.stored.winograd import with_winograd
from cugen.rewrite.stored_operands import with_stored_operands
from cugen.spec.expressions import Index, Reduce
from cugen.spec.model import Statement


def with_faster_winograd(single: Single, is_taken: Callable[[Request], bool]) -> Steps | None:
    """The steps; None where the spec doesn't allow them, or they aren't faster."""
    steps = with_winograd(single) if single.allows_winograd else ""
    return None if isinstance(steps, str) or not are_faster(steps, single, is_taken) else steps


def are_faster(steps: Steps, single: Single, is_taken: Callable[[Request], bool]) -> bool:
    """Whether the products are a GEMM that is tiled, and the steps are predicted to be faster than the convolution: as
    it is, or of operands that are stored; and whether their launches honour the placements of the spec."""
    spaces = {array.memory.space for array in single.request().touched()}
    if not spaces <= {None, "global", "scratch"} and not all(map(_is_honoured, _maps(single, steps))):
        return False
    seconds = _seconds(single, steps)
    direct = tuple(_direct_seconds(single, is_taken))
    return seconds is not None and len(direct) > 0 and seconds < min(direct)


def _direct_seconds(single: Single, is_taken: Callable[[Request], bool]) -> Iterator[float]:
    """The predicted times of the ways to compute the convolution itself."""
    request = single.request()
    outputs = prod(map(single.context.max_extent, single.statement.indices))
    predicted = [wgmma.predicted_seconds(request), gemm.predicted_seconds(request), stencil.predict(request, outputs)]
    copied = [split(single) for family in (wgmma.FAMILY, gemm.FAMILY) if (split := family.split) is not None]
    if not gemm.FAMILY.takes(request):
        copied.append(with_stored_operands(single, is_taken))
    predicted += [_seconds(single, steps) for steps in copied if steps is not None]
    yield from (seconds for seconds in predicted if seconds is not None)


def _seconds(single: Single, steps: Steps) -> float | None:
    """The predicted time of the steps; None where neither `wgmma` nor `gemm` takes a sum."""
    total = sum(map(copy_seconds, _maps(single, steps)))
    for request in _launches(single, steps):
        if Reduce not in request.node_kinds():
            continue
        seconds = wgmma.predicted_seconds(request)
        if seconds is None and gemm.FAMILY.takes(request):
            seconds = gemm.predicted_seconds(request)
        if seconds is None:
            return None
        total += seconds
    return total


def _is_honoured(request: Request) -> bool:
    """Whether a family takes the launch of a transform, with the placements of what it reads."""
    return any(family.takes(request) for family in (stencil.FAMILY, staged.FAMILY, elementwise.FAMILY, direct.FAMILY))


def _maps(single: Single, steps: Steps) -> Iterator[Request]:
    """The launches that transform or copy elements."""
    return (request for request in _launches(single, steps) if Reduce not in request.node_kinds())


def _launches(single: Single, steps: Steps) -> Iterator[Request]:
    """The launches of the steps: the statements over the same indices are one."""
    spec = single.context.spec
    context = make_context(replace(spec, arrays=(*spec.arrays, *steps.temporaries)))
    launches: dict[tuple[Index, ...], list[Statement]] = {}
    for statement in steps.statements:
        launches.setdefault(statement.indices, []).append(statement)
    temporaries = (array.name for array in steps.temporaries if array.memory.space == "scratch")
    stored = (single.statement.target, *temporaries)  # rows of transforms stay in registers
    for statements in launches.values():
        request = replace(single, statement=statements[0], context=context).request()
        yield replace(request, group=Group(tuple(statements)), stored=stored)
