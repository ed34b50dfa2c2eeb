"""Other layouts of arrays in global memory: each was planned and analysed before it is proposed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from cugen.analysis.limits.fixes import Planner, State, figures_of, representative, state_of
from cugen.plan.subscripts import NotAnInteger, to_integer
from cugen.plan.symbols import Integer, integer
from cugen.spec.diagnostics import SpecError
from cugen.spec.expressions import Const, Expr
from cugen.spec.model import Array, Spec
from cugen.spec.prove.affine import text_of
from cugen.spec.resolve.keys.layout import dense_strides
from cugen.spec.types import INT64

MAX_TRIED_ARRAYS = 4  # of a spec; bounds the time of a check
MAX_SHARE = 0.95  # of the sectors, after a change that is advised (heuristic)
_ROW_BYTES = 128  # alignment of the rows that are tried: a cache line


@dataclass(frozen=True)
class Sectors:
    """Sectors of all accesses to global memory, of all launches."""

    moved: int
    ideal: int


@dataclass(frozen=True)
class LayoutProposal:
    """Another layout of one array, and the sectors before and after, at some `sizes` of dynamic params.

    Callers would have to store the array so: it is no change that leaves a program as it is."""

    array: str
    change: str  # in YAML: `layout: column`
    before: Sectors
    after: Sectors
    sizes: Mapping[str, int]


def propose_layouts(specs: Sequence[Spec], plan: Planner, params: Mapping[str, int]) -> tuple[LayoutProposal, ...]:
    """For each array with accesses that move more sectors than their ideal, the layout with the fewest sectors.

    specs: a single spec, or the variants of a document. Arrays are tried in turn, each on top of the previous
    proposals. SpecError if a spec can't be planned."""
    sizes = comparable_sizes(specs, params)
    state = state_of(specs, plan, sizes)
    proposals: list[LayoutProposal] = []
    for array in _wasteful_arrays(state)[:MAX_TRIED_ARRAYS]:
        tried = (
            (text, state_with(changed, array, state, plan, sizes)) for text, changed in _common(state.specs, array)
        )
        helpful = [(new, text) for text, new in tried if new is not None and moves_fewer_sectors(new, state)]
        if helpful:
            families = state.families
            best, text = min(helpful, key=lambda item: (item[0].sectors, item[0].families != families))
            proposals.append(LayoutProposal(array, text, _sectors(state), _sectors(best), sizes))
            state = best
    return tuple(proposals)


def comparable_sizes(specs: Sequence[Spec], params: Mapping[str, int]) -> dict[str, int]:
    """Values of all dynamic params: sectors of worst requests don't tell how many there are."""
    dynamic = (param for spec in specs for param in spec.params if param.is_dynamic)
    return {param.name: params.get(param.name, representative(param)) for param in dynamic}


def layout_changes(array: Array, spec: Spec) -> Iterator[tuple[str, Array]]:
    """Other layouts of an array, with the lines of the spec that ask for them."""
    if len(array.shape) < 2:
        return
    row_major, column_major = dense_strides(array.shape), dense_strides(array.shape, column=True)
    is_column = array.strides == column_major
    yield (
        f"layout: {'row' if is_column else 'column'}",
        replace(array, strides=row_major if is_column else column_major),
    )
    if array.strides != row_major:
        return
    if len(array.shape) > 2:  # the last index selects one of several dense arrays
        size, *strides = dense_strides((array.shape[0], *array.shape[:-1]))
        listed = ", ".join(map(text_of, (*strides, size)))
        yield f"layout: {{strides: [{listed}]}}", replace(array, strides=(*strides, size))
    row, unit = _static(array.shape[-1], spec), _ROW_BYTES // array.dtype.bytes
    if row is not None and row % unit:
        pitch = Const(-(-row // unit) * unit, INT64)
        yield f"pitch: {{align: {_ROW_BYTES}}}", replace(array, strides=dense_strides(array.shape, pitch=pitch))


def state_with(
    changed: Sequence[Array], name: str, state: State, plan: Planner, params: Mapping[str, int]
) -> State | None:
    """The state with another declaration of an array in each spec; None if one can't be planned so."""
    specs = []
    for spec, array in zip(state.specs, changed, strict=True):
        arrays = tuple(array if declared.name == name else declared for declared in spec.arrays)
        specs.append(replace(spec, arrays=arrays))
    try:
        return state_of(specs, plan, params)
    except SpecError:
        return None


def moves_fewer_sectors(new: State, old: State) -> bool:
    """Whether it moves so many fewer that a change pays, and is known as well."""
    return _unknown(new) <= _unknown(old) and new.sectors <= MAX_SHARE * old.sectors


def _common(specs: Sequence[Spec], name: str) -> Iterator[tuple[str, list[Array]]]:
    """The changes of an array's declaration that all specs have."""
    changes = [dict(layout_changes(array, spec)) for spec in specs for array in spec.arrays if array.name == name]
    for text in changes[0]:
        if len(changes) == len(specs) and all(text in spec_changes for spec_changes in changes):
            yield text, [spec_changes[text] for spec_changes in changes]


def _wasteful_arrays(state: State) -> list[str]:
    """The arguments with accesses that move more sectors than their ideal."""
    arguments = {array.name for spec in state.specs for array in spec.arrays if not array.is_temporary}
    reports = (report for launch in state.launches for report in launch.accesses if report.space == "global")
    wasteful = (report.access.array.name for report in reports if report.cost > report.ideal)
    return [name for name in dict.fromkeys(wasteful) if name in arguments]


def _sectors(state: State) -> Sectors:
    reports = [r for launch in state.launches for r in launch.accesses if r.space == "global"]
    return Sectors(state.sectors, sum(figures_of(report)[1] for report in reports))


def _static(extent: Expr, spec: Spec) -> int | None:
    """An extent, if it is fixed."""
    values: dict[str, Integer] = {param.name: integer(param.value) for param in spec.params if param.value is not None}
    try:
        return int(to_integer(extent, values))
    except NotAnInteger:
        return None


def _unknown(state: State) -> int:
    return sum(report.verdict == "unknown" for launch in state.launches for report in launch.accesses)
