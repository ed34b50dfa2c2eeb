"""`<name>.h` for variants that compute the same: C++ launchers that choose among them by the sizes of a call and by
what the device allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from cugen.abi import wording
from cugen.abi.codes import OVER_A_LIMIT, PARAM_REFUSED
from cugen.abi.demand import WORDS, Demand, demand
from cugen.abi.manifest import Manifest
from cugen.emit.describe import harmless
from cugen.emit.environment import environment
from cugen.emit.host.apis import RUNTIME, Api
from cugen.emit.host.launcher import c_names, make_launcher
from cugen.emit.host.sentences import terms
from cugen.emit.host.typed import Typed, make_typed
from cugen.emit.layout import tidy
from cugen.plan.context import Context
from cugen.plan.kernel import Plan
from cugen.plan.names import Names
from cugen.spec.expressions import ParamValue
from cugen.spec.model import Param, Spec
from cugen.spec.siblings import Siblings
from cugen.version import __version__

# The variables that hold what the device allows of each part of a demand.
_VARIABLES = {"threads": "threads", "static": "shared", "dynamic": "shared_on_request"}
_WORKSPACE = "void* workspace"
_ANY = Param("", None)
_RULE = "the largest of these variants that the current device allows, per block"
_RULE_OF_SIZES = (
    "the first of these variants that is for the sizes of the call and that the current device allows, per block"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One variant: its arrays and scalars as C declares them, each with its name, its params with theirs, what its C++
    launcher takes, and what its blocks ask for."""

    name: str
    arguments: tuple[tuple[str, str], ...]
    params: tuple[tuple[str, Param], ...]
    typed: Typed
    extents: tuple[tuple[str, str], ...]  # for a param that is an array's extent, where its span has it
    has_workspace: bool
    notes: tuple[str, ...]
    demand: Demand


@dataclass(frozen=True, slots=True)
class _Case:
    """The variants for the same sizes, the largest first. `condition` is empty where all variants are for the same."""

    condition: str
    entries: tuple[Entry, ...]
    attempts: tuple[tuple[str, int], ...] = ()  # what the device must allow, and the variant's number
    lack: str = ""  # C++: what the smallest needs, and what the device allows


@dataclass(frozen=True, slots=True)
class _Call:
    """One label of the switch over the variants."""

    label: str
    text: str


def make_entry(context: Context, plan: Plan, manifest: Manifest) -> Entry:
    """What the others' launcher must know of this variant."""
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
    )


def _extents(spec: Spec, names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for array in spec.arrays:
        if array.role in ("input", "output", "inout"):
            for dimension, extent in enumerate(array.shape):
                if isinstance(extent, ParamValue):
                    yield names[extent.name], f"{names[array.name]}.extents[{dimension}]"


def variants_header(siblings: Siblings, entries: Sequence[Entry], api: Api = RUNTIME) -> str:
    """The text of the header. `entries` are those of the siblings, in their order. Those made for fewer sizes are
    tried first, then the larger ones; of equals there is only that which the document has first."""
    first, spec = entries[0], siblings.specs[0]
    choosing, taken = _choosing(entries), _taken(entries)
    cases = _cases(entries, choosing)
    ordered = [entry for case in cases for entry in case.entries]
    told = {name: extent for name, extent in reversed(first.extents) if name in taken}
    workspace = any(entry.has_workspace for entry in entries)
    names = Names()
    for argument in (*(name for _, name in first.arguments), *taken):
        names.allocate(argument)
    own = {name: names.allocate(name) for name in ("device", "reason", "refused", "variant", "bytes")}
    asked = [key for key in WORDS if any(key in entry.demand.parts() for entry in ordered)]
    limits = {key: names.allocate(_VARIABLES[key]) for key in asked}
    chosen = [*choosing, f"&{own['variant']}"]
    sizes = [f"int {size}" for size in taken]
    text = (
        environment()
        .get_template("variants.h.j2")
        .render(
            api=api,
            name=siblings.name,
            first=first.name,
            rule=_RULE_OF_SIZES if choosing else _RULE,
            lines=[f"{entry.name}: {_made_for(entry, choosing)}{entry.demand}" for entry in ordered],
            origin=harmless(spec.file) or "a spec",
            version=__version__,
            target=spec.target,
            includes=[entry.name for entry in entries],
            choosing=choosing,
            queries=[(limits[key], api.limits[key]) for key in asked],
            by_size=bool(choosing),
            cases=[_completed(case, ordered, limits) for case in cases],
            unmade=_unmade(siblings.name, choosing, [case.entries[0] for case in cases]) if choosing else "",
            size_parameters=", ".join(sizes) or "void",
            workspaces=[
                (case.condition, _size_call(entry)) for case in cases for entry in case.entries if entry.has_workspace
            ],
            notes=list(dict.fromkeys(note for entry in entries for note in entry.notes)),
            parameters=[*(text for text, _ in first.arguments), *sizes, *([_WORKSPACE] if workspace else [])],
            choice=", ".join(chosen),
            calls=_labelled(_call(entry, [name for _, name in entry.arguments]) for entry in ordered),
            typed_parameters=[
                *(text for text in first.typed.parameters if _declared(text) not in taken),
                *(f"long long {size}" for size in taken if size not in told),
                *([_WORKSPACE] if workspace else []),
            ],
            typed_sizes=[(size, told[size]) for size in choosing if size in told],
            choice_of_spans=", ".join([*chosen, f"&{own['reason']}"]),
            typed_calls=_labelled(_typed_call(entry) for entry in ordered),
            codes={"param": PARAM_REFUSED, "limit": OVER_A_LIMIT},
            **own,
        )
    )
    return tidy(text)


def _choosing(entries: Sequence[Entry]) -> list[str]:
    """The C names of the params by which variants are chosen."""
    columns = zip(*(entry.params for entry in entries), strict=True)
    return [column[0][0] for column in columns if len({param for _, param in column}) > 1]


def _taken(entries: Sequence[Entry]) -> list[str]:
    """The C names of the params that are arguments of the launcher."""
    dynamic = {name for entry in entries for name, param in entry.params if param.is_dynamic}
    choosing = _choosing(entries)
    return [name for name, _ in entries[0].params if name in dynamic or name in choosing]


def _cases(entries: Sequence[Entry], choosing: Sequence[str]) -> list[_Case]:
    """The variants by the sizes that they are for, those for fewest first."""
    groups: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.demand.size, reverse=True):
        condition = " && ".join(c for name, param in entry.params if name in choosing for c in _conditions(name, param))
        groups.setdefault(condition, []).append(entry)
    found = [_Case(condition, tuple(_reachable(group))) for condition, group in groups.items()]
    return sorted(found, key=lambda case: prod(_count(p) for name, p in case.entries[0].params if name in choosing))


def _count(param: Param) -> int:
    """How many values the param can have."""
    return (param.maximum - param.minimum) // param.multiple_of + 1 if param.is_dynamic else 1


def _conditions(name: str, param: Param) -> list[str]:
    if param.value is not None:
        return [f"{name} == {param.value}"]
    found = [f"{name} >= {param.minimum}"]
    if param.maximum < _ANY.maximum:
        found.append(f"{name} <= {param.maximum}")
    if param.multiple_of > 1:
        found.append(f"{name} % {param.multiple_of} == 0")
    return found


def _values(name: str, param: Param) -> str:
    if param.value is not None:
        return f"{name} = {param.value}"
    multiples = f" in multiples of {param.multiple_of}" if param.multiple_of > 1 else ""
    if param.maximum < _ANY.maximum:
        return f"{name} = {param.minimum} .. {param.maximum}{multiples}"
    return (f"{name} from {param.minimum} on" if param.minimum else f"any {name}") + multiples


def _made_for(entry: Entry, choosing: Sequence[str]) -> str:
    text = ", ".join(_values(name, param) for name, param in entry.params if name in choosing)
    return f"{text}; " if text else ""


def _unmade(name: str, choosing: Sequence[str], entries: Sequence[Entry]) -> str:
    """C++: that no variant is for the sizes of a call, and which there are."""
    sentence = wording.NO_VARIANT.format(
        name=name,
        values=", ".join(f"{size} = {{{size}}}" for size in choosing),
        made="; ".join(_made_for(entry, choosing).rstrip("; ") for entry in entries),
    )
    return " + ".join(terms(sentence, {size: f"std::to_string({size})" for size in choosing}))


def _reachable(ordered: Sequence[Entry]) -> list[Entry]:
    """Without those that ask for all that one before them asks for: they would never be taken."""
    kept: list[Entry] = []
    for entry in ordered:
        if not any(before.demand.fits(entry.demand.parts()) for before in kept):
            kept.append(entry)
    return kept


def _completed(case: _Case, ordered: Sequence[Entry], limits: Mapping[str, str]) -> _Case:
    attempts = tuple((_allows(entry, limits), ordered.index(entry)) for entry in case.entries)
    smallest = case.entries[-1]
    keys = list(smallest.demand.parts())
    has = " and ".join(f"{{{key}}} {WORDS[key]}" for key in keys)
    sentence = wording.OVER_A_LIMIT.format(name=smallest.name, needed=smallest.demand, device="the device", has=has)
    lack = " + ".join(terms(sentence, {key: f"std::to_string({limits[key]})" for key in keys}))
    return replace(case, attempts=attempts, lack=lack)


def _allows(entry: Entry, limits: Mapping[str, str]) -> str:
    return " && ".join(f"{limits[key]} >= {amount}" for key, amount in entry.demand.parts().items())


def _labelled(calls: Iterable[str]) -> list[_Call]:
    """The last one is the default: a compiler sees that all ways return."""
    texts = list(calls)
    return [
        _Call(f"case {number}" if number < len(texts) - 1 else "default", text) for number, text in enumerate(texts)
    ]


def _call(entry: Entry, arguments: Sequence[str]) -> str:
    """In the global scope, where no argument can hide the function."""
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
    """The name that a parameter declares."""
    return parameter.rpartition(" ")[2].lstrip("*")
