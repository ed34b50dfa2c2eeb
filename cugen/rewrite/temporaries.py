"""Statements that store intermediate results in temporaries of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cugen.machine import Device
from cugen.machine.latency import STORING_LAUNCH_SECONDS
from cugen.plan.context import make_context
from cugen.plan.request import Request, Single, Steps
from cugen.spec.expressions import Expr, Index, IndexValue, Read, walk
from cugen.spec.model import Array, Memory, Statement
from cugen.spec.resolve.statements import dense_strides
from cugen.spec.rewriting import rename

MAX_TEMPORARY_BYTES = 1 << 29  # of an operand, or of partial results, that a rewriting stores (heuristic)
MAX_OPERAND_BYTES = 1 << 31  # where a thread would loop over the terms of a result without it (heuristic)
MIN_MULTIPLY_ADDS = 1 << 21  # below, the second launch costs more than it saves (heuristic)
_COPY_EFFICIENCY = 0.8  # of the memory bandwidth


@dataclass(frozen=True, slots=True)
class Temporary:
    """A dense array, the statement that computes it, and the read of its element at the statement's indices."""

    array: Array
    statement: Statement
    read: Read

    def read_of(self, value: Expr, indices: Mapping[str, Index]) -> Read | None:
        """The read that gives another value, if that is this one over other indices, by name in `indices`."""
        names_here, names_there = (
            dict.fromkeys(node.name for node in walk(expr) if isinstance(node, IndexValue))
            for expr in (self.statement.value, value)
        )
        names = {a: b for a, b in zip(names_here, names_there, strict=False) if a != b}
        if any(b not in indices or indices[a].extent != indices[b].extent for a, b in names.items() if a in indices):
            return None
        if rename(self.statement.value, names) != value:
            return None
        return replace(self.read, subscripts=tuple(rename(sub, names) for sub in self.read.subscripts))


def temporary(
    name: str, indices: tuple[Index, ...], value: Expr, what: str, source: Statement, *, is_stored: bool = False
) -> Temporary:
    """`value` for all `indices`; `what` describes it, a part of the statement `source`. Unless it `is_stored`, it may
    be computed in the kernel that reads it."""
    shape, memory = tuple(index.extent for index in indices), Memory("scratch" if is_stored else None)
    array = Array(name, shape, value.dtype, "temporary", dense_strides(shape), memory=memory, is_temporary=True)
    subscripts = tuple(IndexValue(index.name) for index in indices)
    subscripted = f"[{', '.join(index.name for index in indices)}]" if indices else ""
    text = f"{name}{subscripted} = {what}"
    statement = Statement(name, subscripts, indices, value, text=text, span=source.span)
    return Temporary(array, statement, Read(name, subscripts, value.dtype))


def steps_of(
    temporaries: Sequence[Temporary],
    last: Statement,
    *,
    tuned: tuple[str, ...] = (),
    again: bool = False,
    splits_last: bool = False,
) -> Steps:
    """The steps that compute temporaries, all but the `tuned` ones by any family, and then the `last` statement. Those
    of temporaries may be split `again`, and with `splits_last` so may that, as a long sum of stored operands."""
    arrays = tuple(stored.array for stored in temporaries)
    open_ = tuple(array.name for array in arrays if array.name not in tuned)
    statements = (*(stored.statement for stored in temporaries), last)
    split = (*(open_ if again else ()), *((last.target,) if splits_last else ()))
    return Steps(statements, arrays, open_, tuned, again=split)


def storing_seconds(copied_bytes: int, device: Device) -> float:
    """Seconds of a further launch that reads and writes so many bytes each."""
    return STORING_LAUNCH_SECONDS + 2 * copied_bytes / (_COPY_EFFICIENCY * device.bandwidth)


def first_request(single: Single, steps: Steps) -> Request:
    """The first of the steps as a kernel of its own."""
    return replace(last_single(single, steps), statement=steps.statements[0]).request(steps.open)


def last_request(single: Single, steps: Steps) -> Request:
    """The last of the steps as a kernel of its own."""
    return last_single(single, steps).request(steps.open)


def last_single(single: Single, steps: Steps) -> Single:
    """The last of the steps as a statement of its own."""
    spec = single.context.spec
    context = make_context(replace(spec, arrays=(*spec.arrays, *steps.temporaries)))
    return replace(single, context=context, statement=steps.statements[-1])
