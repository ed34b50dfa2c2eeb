"""Transposed convolutions as convolutions of their phases, where tensor cores are faster by the cost models."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from cugen.families.gemm import family as gemm
from cugen.families.gemm.tiled.launches import copy_seconds
from cugen.families.gemm.wgmma import family as wgmma
from cugen.families.stencil import family as stencil
from cugen.plan.context import make_context
from cugen.plan.request import Request, Single, Steps
from cugen.rewrite.transposed.stored_phases import with_stored_phases
from cugen.spec.expressions import Reduce

_MIN_SPEEDUP = 1.7  # predicted; windows took 0.6 to 1.4 of the predicted time (seven cases, measured on an H100)
# Measured over predicted time of windows by `mma.sync`: as for channels that `wgmma` pads.
_PREDICTED_TOO_SHORT = 1.45


def with_faster_phases(single: Single) -> Steps | None:
    """The steps; None where the statement has no phases, tensor cores don't take all of them, or register windows may
    be faster."""
    steps = with_stored_phases(single)
    seconds = None if steps is None else _seconds(single, steps)
    if seconds is None:
        return None
    outputs = prod(map(single.context.max_extent, single.statement.indices))
    windows = stencil.predict(single.request(), outputs)
    return steps if windows is None or _MIN_SPEEDUP * seconds < windows else None


def _seconds(single: Single, steps: Steps) -> float | None:
    """The predicted time of the steps; None where a convolution isn't one for tensor cores."""
    spec = single.context.spec
    context = make_context(replace(spec, arrays=(*spec.arrays, *steps.temporaries)))
    total = 0.0
    for statement in steps.statements:
        request = replace(single, statement=statement, context=context).request(steps.open)
        if Reduce not in request.node_kinds():
            total += copy_seconds(request)
        elif (seconds := _convolution_seconds(request)) is not None:
            total += seconds
        else:
            return None
    return total


def _convolution_seconds(request: Request) -> float | None:
    if (seconds := wgmma.predicted_seconds(request)) is not None:
        return seconds
    seconds = gemm.tensor_core_seconds(request) if gemm.FAMILY.takes(request) else None
    return None if seconds is None else _PREDICTED_TOO_SHORT * seconds
