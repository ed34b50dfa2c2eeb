"""`<name>.h` and `<name>.hpp` of a kernel's variants: C++ launchers that choose one by the sizes of a call, the limits
of the device, and what a block costs (`cugen.abi.choice`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from cugen.abi import wording
from cugen.abi.choice import BlockCost
from cugen.abi.codes import OVER_A_LIMIT, PARAM_REFUSED
from cugen.abi.demand import UNITS, Demand, demand
from cugen.abi.manifest import Manifest, ParamArgument
from cugen.emit.describe import harmless
from cugen.emit.environment import environment
from cugen.emit.host.apis import RUNTIME, Api
from cugen.emit.host.c_sizes import SizePrinter
from cugen.emit.host.launcher import c_names, make_launcher
from cugen.emit.host.sentences import terms
from cugen.emit.host.typed import Typed, make_typed, size_names
from cugen.emit.layout import tidy
from cugen.plan.context import Context
from cugen.plan.kernel import Plan
from cugen.plan.names import Names
from cugen.spec.expressions import ParamValue
from cugen.spec.model import Param, Spec
from cugen.spec.siblings import Siblings
from cugen.version import __version__

# C++ variables of the device limits, by resource.
_VARIABLES = {"threads": "threads", "static": "shared", "dynamic": "shared_opt_in"}
_LOCALS = ("device", "reason", "refused", "variant", "bytes", "sms", "candidates")
_WORKSPACE = "void* workspace"
_UNBOUNDED = Param("", None)
_LARGEST = "the largest of these variants, per block, that fits the current device"
_FASTEST = "of these variants the one that takes least on the current device, by what its resident blocks can move"
_RULE_OF_SIZES = "the first of these variants that matches the sizes of the call and fits the current device"
_FASTEST_OF_SIZES = (
    "of the first of these variants that match the sizes of the call and fit the current device the one that takes "
    "least, by what its resident blocks can move"
)


@dataclass(frozen=True, slots=True)
class GridCost:
    """What a block costs, and the number of `blocks` in C++, from these `sizes` of the call."""

    block: BlockCost
    blocks: str
    sizes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One variant: C declarations and names of its arrays and scalars, its params with their C names, its C++ launcher,
    its demand, and what its grid costs, if that is known."""

    name: str
    arguments: tuple[tuple[str, str], ...]
    params: tuple[tuple[str, Param], ...]
    typed: Typed
    extents: tuple[tuple[str, str], ...]  # params that are extents of spans: name, and the extent's expression
    has_workspace: bool
    notes: tuple[str, ...]
    demand: Demand
    cost: GridCost | None = None


@dataclass(frozen=True, slots=True)
class VariantsHeaders:
    """Texts of the two files."""

    header: str
    typed_header: str


@dataclass(frozen=True, slots=True)
class _Case:
    """Variants for the same sizes, largest first. `condition` is that of the sizes, "" where there is one case.
    `is_modelled`: whether what they cost is compared, as `candidates`; else the first that fits is taken."""

    condition: str
    entries: tuple[Entry, ...]
    is_modelled: bool = False
    attempts: tuple[tuple[str, int], ...] = ()  # device limits required, and the variant's index
    candidates: tuple[str, ...] = ()  # initialisers in C++
    shortage: str = ""  # C++ message: demand of the smallest variant, and the device limits


@dataclass(frozen=True, slots=True)
class _Call:
    """A case of the switch over the variants."""

    label: str
    text: str


def make_entry(context: Context, plan: Plan, manifest: Manifest, cost: BlockCost | None = None) -> Entry:
    """The entry of this variant in the common launcher. `cost`: `cugen.kernel_choice.block_cost`."""
    launcher = make_launcher(context, plan)
    names = c_names(context)
    sizes = {names[param.name] for param in context.spec.params}
    arguments = [(text, _declared(text)) for text in launcher.parameters if text != _WORKSPACE]
    return Entry(
        launcher.name,
        tuple((text, name) for text, name in arguments if name not in sizes),
        tuple((names[param.name], param) for param in context.spec.params),
        make_typed(manifest, names),
        tuple(_extents(context.spec, names)),
        _WORKSPACE in launcher.parameters,
        launcher.notes,
        demand(manifest),
        _grid_cost(manifest, names, cost) if cost is not None and launcher.block_threads else None,
    )


def _grid_cost(manifest: Manifest, names: Mapping[str, str], block: BlockCost) -> GridCost | None:
    """The cost of the grid; None for one that C++ operators alone don't give."""
    printer = SizePrinter(size_names(manifest, names), wide=True)
    (launch,) = manifest.launches
    fixed = prod(extent for extent in launch.grid if isinstance(extent, int))
    open_extents = [extent for extent in launch.grid if isinstance(extent, str)]
    text = " * ".join([*(f"({extent})" for extent in open_extents), *([str(fixed)] if fixed != 1 else [])]) or "1"
    blocks = printer.print(text)
    if printer.helpers:
        return None
    params = [argument.name for argument in manifest.arguments if isinstance(argument, ParamArgument)]
    return GridCost(block, blocks, tuple(names[name] for name in wording.mentioned(text, params)))


def _extents(spec: Spec, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for array in spec.arrays:
        if array.role in ("input", "output", "inout"):
            for dimension, extent in enumerate(array.shape):
                if isinstance(extent, ParamValue):
                    yield names[extent.name], f"{names[array.name]}.extents[{dimension}]"


def variants_headers(siblings: Siblings, entries: Sequence[Entry], api: Api = RUNTIME) -> VariantsHeaders:
    """Texts of the headers. `entries` are those of the siblings, in their order.

    Variants for fewer sizes are tried first. Of those for the same sizes the one that takes least is used; where the
    cost of one is unknown the largest that fits, of equal ones the first in the document."""
    launcher, env = _CommonLauncher(siblings, entries, api), environment()
    shared = launcher.shared()
    return VariantsHeaders(
        tidy(env.get_template("variants.h.j2").render(shared | launcher.header())),
        tidy(env.get_template("variants.hpp.j2").render(shared | launcher.typed_header())),
    )


class _CommonLauncher:
    """The launcher that chooses among variants, and the variables of its templates."""

    def __init__(self, siblings: Siblings, entries: Sequence[Entry], api: Api) -> None:
        self._siblings, self._entries, self._api = siblings, entries, api
        self._choosing, self._parameters = _choosing(entries), _size_parameters(entries)
        self._cases = _cases(entries, self._choosing)
        self._ordered = [entry for case in self._cases for entry in case.entries]
        modelled = (entry for case in self._cases if case.is_modelled for entry in case.entries)
        self._costs = [entry.cost for entry in modelled if entry.cost is not None]
        chosen_by = {*self._choosing, *(size for cost in self._costs for size in cost.sizes)}
        self._given = [size for size in self._parameters if size in chosen_by]  # sizes that decide the variant
        names = Names()
        for argument in (*(name for _, name in entries[0].arguments), *self._parameters):
            names.allocate(argument)
        self._local = {name: names.allocate(name) for name in _LOCALS}
        resources = [key for key in UNITS if any(key in entry.demand.amounts() for entry in self._ordered)]
        self._limits = {key: names.allocate(_VARIABLES[key]) for key in resources}
        self._has_workspace = any(entry.has_workspace for entry in entries)
        self._last = [*([_WORKSPACE] if self._has_workspace else []), f"{api.stream_type} stream"]
        self._choice = [*self._given, f"&{self._local['variant']}"]

    def shared(self) -> dict[str, Any]:
        """Variables of both headers."""
        spec = self._siblings.specs[0]
        return {
            "api": self._api,
            "name": self._siblings.name,
            "origin": harmless(spec.file) or "a spec",
            "version": __version__,
            "target": spec.target,
            "includes": [entry.name for entry in self._entries],
            **self._local,
        }

    def header(self) -> dict[str, Any]:
        """Variables of the C header, which defines the choice."""
        cases, local, by_size = self._cases, self._local, bool(self._choosing)
        sizes, reason = [f"int {size}" for size in self._parameters], f"std::string* {local['reason']}"
        texts, costs = [text for text, _ in self._entries[0].arguments], self._costs
        choosing = [*(f"long long {size}" for size in self._given), f"int* {local['variant']}", reason]
        queries = [(variable, self._api.limits[key]) for key, variable in self._limits.items()]
        with_workspace = [(case, entry) for case in cases for entry in case.entries if entry.has_workspace]
        smallest = [case.entries[0] for case in cases]
        return {
            "rule": _rule(cases, by_size=by_size),
            "lines": [f"{entry.name}: {_sizes_of(entry, self._choosing)}{entry.demand}" for entry in self._ordered],
            "choosing_parameters": ", ".join(choosing),
            "queries": [*queries, *([(local["sms"], self._api.sms)] if costs else [])],
            "headers": [*(["algorithm"] if self._has_workspace or costs else []), "string"],
            "is_modelled": bool(costs),
            "saturating": _double(costs[0].block.saturating) if costs else "",  # of one target, so the same for all
            "by_size": by_size,
            "cases": [_completed(case, self._ordered, self._limits) for case in cases],
            "no_variant": _no_variant(self._siblings.name, self._choosing, smallest) if by_size else "",
            "size_parameters": ", ".join(sizes) or "void",
            "workspaces": [(case.condition, _size_call(entry)) for case, entry in with_workspace],
            "notes": list(dict.fromkeys(note for entry in self._entries for note in entry.notes)),
            "parameters": ", ".join([*texts, *sizes, *self._last, f"{reason} = nullptr"]),
            "choice": ", ".join(self._choice),
            "calls": _labelled(_call(entry, [name for _, name in entry.arguments]) for entry in self._ordered),
        }

    def typed_header(self) -> dict[str, Any]:
        """Variables of the C++ header, whose spans have the sizes that are extents."""
        first, parameters = self._entries[0], self._parameters
        deduced = {name: extent for name, extent in reversed(first.extents) if name in parameters}
        spans = [text for text in first.typed.parameters if _declared(text) not in parameters]
        open_sizes = [f"long long {size}" for size in parameters if size not in deduced]
        return {
            "typed_parameters": ", ".join([*spans, *open_sizes, *self._last]),
            "typed_sizes": [(size, deduced[size]) for size in self._given if size in deduced],
            "choice_of_spans": ", ".join([*self._choice, f"&{self._local['reason']}"]),
            "typed_calls": _labelled(_typed_call(entry) for entry in self._ordered),
            "codes": {"param": PARAM_REFUSED, "limit": OVER_A_LIMIT},
        }


def _choosing(entries: Sequence[Entry]) -> list[str]:
    """C names of the params that differ among the variants."""
    columns = zip(*(entry.params for entry in entries), strict=True)
    return [column[0][0] for column in columns if len({param for _, param in column}) > 1]


def _size_parameters(entries: Sequence[Entry]) -> list[str]:
    """C names of the params that are parameters of the launcher."""
    dynamic = {name for entry in entries for name, param in entry.params if param.is_dynamic}
    choosing = _choosing(entries)
    return [name for name, _ in entries[0].params if name in dynamic or name in choosing]


def _cases(entries: Sequence[Entry], choosing: Sequence[str]) -> list[_Case]:
    """Variants grouped by their sizes, those for the fewest sizes first."""
    groups: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.demand.size, reverse=True):
        condition = " && ".join(c for name, param in entry.params if name in choosing for c in _conditions(name, param))
        groups.setdefault(condition, []).append(entry)
    cases = [_case(condition, group) for condition, group in groups.items()]
    return sorted(cases, key=lambda case: prod(_count(p) for name, p in case.entries[0].params if name in choosing))


def _case(condition: str, ordered: Sequence[Entry]) -> _Case:
    if len(ordered) > 1 and all(entry.cost is not None for entry in ordered):
        return _Case(condition, tuple(ordered), is_modelled=True)
    return _Case(condition, tuple(_reachable(ordered)))


def _rule(cases: Sequence[_Case], *, by_size: bool) -> str:
    if any(case.is_modelled for case in cases):
        return _FASTEST_OF_SIZES if by_size else _FASTEST
    return _RULE_OF_SIZES if by_size else _LARGEST


def _count(param: Param) -> int:
    """Number of values in the param's range."""
    return (param.maximum - param.minimum) // param.multiple_of + 1 if param.is_dynamic else 1


def _conditions(name: str, param: Param) -> list[str]:
    if param.value is not None:
        return [f"{name} == {param.value}"]
    conditions = [f"{name} >= {param.minimum}"]
    if param.maximum < _UNBOUNDED.maximum:
        conditions.append(f"{name} <= {param.maximum}")
    if param.multiple_of > 1:
        conditions.append(f"{name} % {param.multiple_of} == 0")
    return conditions


def _values(name: str, param: Param) -> str:
    if param.value is not None:
        return f"{name} = {param.value}"
    multiples = f" in multiples of {param.multiple_of}" if param.multiple_of > 1 else ""
    if param.maximum < _UNBOUNDED.maximum:
        return f"{name} = {param.minimum} .. {param.maximum}{multiples}"
    return (f"{name} from {param.minimum} on" if param.minimum else f"any {name}") + multiples


def _sizes_of(entry: Entry, choosing: Sequence[str]) -> str:
    text = ", ".join(_values(name, param) for name, param in entry.params if name in choosing)
    return f"{text}; " if text else ""


def _no_variant(name: str, choosing: Sequence[str], entries: Sequence[Entry]) -> str:
    """C++ message for sizes without a variant."""
    sentence = wording.NO_VARIANT.format(
        name=name,
        values=", ".join(f"{size} = {{{size}}}" for size in choosing),
        sizes="; ".join(_sizes_of(entry, choosing).rstrip("; ") for entry in entries),
    )
    return " + ".join(terms(sentence, {size: f"std::to_string({size})" for size in choosing}))


def _reachable(ordered: Sequence[Entry]) -> list[Entry]:
    """Without entries whose demand is at least that of an earlier one: they would never be chosen."""
    reachable: list[Entry] = []
    for entry in ordered:
        if not any(earlier.demand.fits(entry.demand.amounts()) for earlier in reachable):
            reachable.append(entry)
    return reachable


def _completed(case: _Case, ordered: Sequence[Entry], limits: Mapping[str, str]) -> _Case:
    attempts = tuple((_allows(entry, limits), ordered.index(entry)) for entry in case.entries)
    candidates = tuple(
        f"{number}, {condition}, double({cost.blocks}), {cost.block.moved:g}, {cost.block.in_flight:g}, "
        f"::{entry.name}_blocks_per_sm"
        for (condition, number), entry in zip(attempts, case.entries, strict=True)
        if case.is_modelled and (cost := entry.cost) is not None
    )
    smallest = case.entries[-1]
    keys = list(smallest.demand.amounts())
    allowed = " and ".join(f"{{{key}}} {UNITS[key]}" for key in keys)
    sentence = wording.OVER_A_LIMIT.format(
        name=smallest.name, needed=smallest.demand, device="the device", allowed=allowed
    )
    shortage = " + ".join(terms(sentence, {key: f"std::to_string({limits[key]})" for key in keys}))
    return replace(case, attempts=attempts, candidates=candidates, shortage=shortage)


def _allows(entry: Entry, limits: Mapping[str, str]) -> str:
    return " && ".join(f"{limits[key]} >= {amount}" for key, amount in entry.demand.amounts().items())


def _double(number: float) -> str:
    """A literal of C++."""
    text = f"{number:g}"
    return text if "." in text or "e" in text else f"{text}.0"


def _labelled(calls: Iterable[str]) -> list[_Call]:
    """Cases of a switch, the last one `default`, so that every path returns."""
    texts = list(calls)
    return [
        _Call(f"case {number}" if number < len(texts) - 1 else "default", text) for number, text in enumerate(texts)
    ]


def _call(entry: Entry, arguments: Sequence[str]) -> str:
    """Call qualified with `::`, so that no argument hides the function."""
    workspace = ["workspace"] if entry.has_workspace else []
    return f"::{entry.name}_launch({', '.join([*arguments, *_dynamic(entry), *workspace, 'stream'])})"


def _typed_call(entry: Entry) -> str:
    arguments = [_declared(text) for text in entry.typed.parameters]
    workspace = ["workspace"] if entry.has_workspace else []
    return f"::{entry.name}_launch({', '.join([*arguments, *workspace, 'stream'])})"


def _size_call(entry: Entry) -> str:
    return f"::{entry.name}_workspace_bytes({', '.join(_dynamic(entry))})"


def _dynamic(entry: Entry) -> list[str]:
    return [name for name, param in entry.params if param.is_dynamic]


def _declared(parameter: str) -> str:
    """Name declared by a parameter."""
    return parameter.rpartition(" ")[2].lstrip("*")
