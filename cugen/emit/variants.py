"""`<name>.h` for variants that compute the same: a C++ launcher that takes the largest that the device allows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from cugen.emit.describe import harmless
from cugen.emit.environment import environment
from cugen.emit.launcher import make_launcher
from cugen.emit.layout import tidy
from cugen.plan.context import Context
from cugen.plan.demand import WORDS, Demand, demand
from cugen.plan.ir import Plan
from cugen.plan.manifest import Manifest
from cugen.plan.names import Names
from cugen.spec.siblings import Siblings
from cugen.version import __version__

# For each part of a demand, the device's attribute and the variable that holds it.
_ATTRIBUTES = {
    "threads": ("cudaDevAttrMaxThreadsPerBlock", "threads"),
    "static": ("cudaDevAttrMaxSharedMemoryPerBlock", "shared"),
    "dynamic": ("cudaDevAttrMaxSharedMemoryPerBlockOptin", "shared_on_request"),
}
_WORKSPACE = "void* workspace"


@dataclass(frozen=True, slots=True)
class Entry:
    """One variant's launcher: its parameters without the stream, as C declares them, and what its blocks ask for."""

    name: str
    parameters: tuple[str, ...]
    size_parameters: str
    size_arguments: str
    notes: tuple[str, ...]
    demand: Demand

    @property
    def has_workspace(self) -> bool:
        return _WORKSPACE in self.parameters


def make_entry(context: Context, plan: Plan, manifest: Manifest) -> Entry:
    """What the others' launcher must know of this variant."""
    launcher = make_launcher(context, plan)
    return Entry(
        launcher.name,
        launcher.parameters,
        launcher.size_parameters,
        launcher.size_arguments,
        launcher.notes,
        demand(manifest),
    )


def variants_header(siblings: Siblings, entries: Sequence[Entry]) -> str:
    """The text of the header. `entries` are those of the siblings, in their order; the largest is tried first, and of
    equals there is only that which the document has first."""
    ordered = _reachable(sorted(entries, key=lambda entry: entry.demand.size, reverse=True))
    parameters = [text for text in entries[0].parameters if text != _WORKSPACE]
    arguments = [re.split(r"[ *]", text)[-1] for text in parameters]
    with_workspace = [entry for entry in entries if entry.has_workspace]
    if with_workspace:
        parameters.append(_WORKSPACE)
    names = Names()
    for argument in arguments:
        names.allocate(argument)
    asked = [key for key in WORDS if any(key in entry.demand.parts() for entry in ordered)]
    limits = {key: names.allocate(_ATTRIBUTES[key][1]) for key in asked}
    smallest = ordered[-1]
    spec = siblings.specs[0]
    text = (
        environment()
        .get_template("variants.h.j2")
        .render(
            name=siblings.name,
            origin=harmless(spec.file) or "a spec",
            version=__version__,
            target=spec.target,
            entries=ordered,
            includes=[entry.name for entry in entries],
            parameters=parameters,
            notes=list(dict.fromkeys(note for entry in entries for note in entry.notes)),
            workspaces=[f"{entry.name}_workspace_bytes({entry.size_arguments})" for entry in with_workspace],
            size_parameters=entries[0].size_parameters,
            device=names.allocate("device"),
            reason=names.allocate("reason"),
            queries=[(limits[key], _ATTRIBUTES[key][0]) for key in asked],
            attempts=[(_condition(entry, limits), _call(entry, arguments)) for entry in ordered],
            smallest=smallest,
            allowed=_allowed(smallest, limits),
        )
    )
    return tidy(text)


def _reachable(ordered: Sequence[Entry]) -> list[Entry]:
    """Without those that ask for all that one before them asks for: they would never be taken."""
    kept: list[Entry] = []
    for entry in ordered:
        if not any(before.demand.fits(entry.demand.parts()) for before in kept):
            kept.append(entry)
    return kept


def _condition(entry: Entry, limits: dict[str, str]) -> str:
    return " && ".join(f"{limits[key]} >= {amount}" for key, amount in entry.demand.parts().items())


def _call(entry: Entry, arguments: Sequence[str]) -> str:
    """In the global scope, where no argument can hide the function."""
    workspace = ["workspace"] if entry.has_workspace else []
    return f"::{entry.name}_launch({', '.join([*arguments, *workspace, 'stream'])})"


def _allowed(entry: Entry, limits: dict[str, str]) -> list[str]:
    """C++ terms whose sum says what the device allows of all that `entry` asks for."""
    keys = list(entry.demand.parts())
    ends = [" and "] * (len(keys) - 1) + [""]
    return [f'std::to_string({limits[key]}) + " {WORDS[key]}{end}"' for key, end in zip(keys, ends, strict=True)]
