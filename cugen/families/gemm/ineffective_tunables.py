"""Words of a schedule that change nothing about a shape: who asks for one is told so, and a shape that nobody asked for
doesn't have it."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.contraction.recognition import Contraction
from cugen.families.gemm.config import COPIES, JOIN, SPLIT, STREAM, Shape
from cugen.pieces.grid import divides
from cugen.plan.request import Refusal
from cugen.plan.subscripts import to_integer
from cugen.plan.symbols import bounds


def without_idle(found: Contraction, shape: Shape) -> Shape:
    """The shape as its kernel is: where copies can't go among the products they are begun before these."""
    return replace(shape, copies="first") if shape.copies == "apart" and _why_not_apart(found, shape) else shape


def idle_word(found: Contraction, shape: Shape) -> Refusal | None:
    """A word of the schedule that says nothing about the shape."""
    asked = dict(found.request.schedule.tunables)
    if JOIN.name in asked and not shape.is_shared and not asked.get(STREAM.name):
        cure = f"leave it out, or ask for a `{SPLIT.name}` of 2 or more"
        reason = f"no blocks share a sum, and `{JOIN.name}` says where its parts meet; {cure}"
        return Refusal(reason, f"schedule.{JOIN.name}")
    if asked.get(COPIES.name) == "apart" and (reason := _why_not_apart(found, shape)):
        return Refusal(f"{reason}; leave `{COPIES.name}: apart` out", f"schedule.{COPIES.name}")
    return None


def _why_not_apart(found: Contraction, shape: Shape) -> str:
    """Why copies can't go among the products. They do so without a branch, which takes a whole step that can be copied
    again behind the end of the sum; and the first one isn't whole where it is filled up."""
    context = found.request.context
    depth = to_integer(found.k.extent, context.symbols)
    low, high = bounds(depth, dict(context.ranges))
    is_filled_up = not divides(shape.step, depth, context)
    fewest, most = (-(-low // shape.step) if low == high else low // shape.step), -(-high // shape.step)
    if shape.split > 1:
        fewest, most = fewest // shape.split, -(-most // shape.split)
    elif shape.stream:
        fewest = min(fewest, 1)
    if most < shape.stages:
        return f"all copies of {_steps(most)} are begun before the products in a ring of {shape.stages} stages"
    needed = 2 if is_filled_up else 1
    if fewest < needed:
        first = ", the first of them filled up" if is_filled_up else ""
        return f"copies go among products of {_steps(needed)} or more of {shape.step}{first}; here may be {fewest}"
    return ""


def _steps(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"
