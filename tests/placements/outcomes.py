"""What a request for a placement gives: a plan as good as without it, a costly one, or a refusal of some kind."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from cugen.analysis.launches.facts import facts
from cugen.kernel_price import MAX_RATIO
from cugen.plan.kernel import Plan
from cugen.schedule.planner import make_plan
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from tests.gallery import specs

ROOT = Path(__file__).parents[2]

# The keys of an array that request each placement.
PLACEMENTS: Mapping[str, Mapping[str, Any]] = {
    "shared": {"memory": "shared"},
    "shared padded": {"memory": {"space": "shared", "pad": 1}},
    "swizzled": {"memory": {"space": "shared", "swizzle": "xor"}},
    "constant": {"memory": "constant"},
    "readonly": {"memory": "readonly"},
    "texture": {"memory": "texture"},
    "register": {"memory": "register"},
    "pitched": {"pitch": {"align": 128}},
}
HONOURED, COSTLY = "honoured", "costly"

# Kinds of refusals by what their reasons say, the first that fits.
KINDS: Mapping[str, str] = {
    "writes": r"can't be written|statements write|is never read",
    "single use": r"reads an element of it once|would stage of|is a single (element|row)|read in the epilogue",
    "capacity": r"constant memory holds|hold at most|bytes of shared memory|size must be known|shape must be fixed",
    "element type": r"of type|element type",
    "tensor map": r"\bTMA\b",
    "alignment": r"breaks the alignment of (vector|matrix) loads of \d+ elements",
}
UNEXPLAINED = "unexplained"


@dataclass(frozen=True, order=True)
class Requested:
    """A placement of an input of a kernel."""

    kernel: str
    array: str
    placement: str


@dataclass(frozen=True)
class Outcome:
    """What a request gives: `honoured`, `costly` beyond MAX_RATIO of the traffic without it (or of traffic that the
    analysis can't count), or a kind of refusal.

    figure: the ratio of the traffic, or the reason of the refusal."""

    kind: str
    figure: str = ""

    @property
    def is_planned(self) -> bool:
        return self.kind in (HONOURED, COSTLY)


@cache
def gallery() -> Mapping[str, tuple[Path, int, Spec]]:
    """Each kernel with its file, the number of its document, and its spec."""
    found = {}
    for kernel, spec in specs.gallery().items():
        path, (document, _, _) = ROOT / "specs" / spec.file, kernel.partition("__")  # before the name of a variant
        number = [document["kernel"] for document in _documents(path)].index(document)
        found[kernel] = path, number, spec
    return found


def requested(kernel: str) -> Iterator[Requested]:
    """The requests for the inputs of a kernel, but for filtered textures, which no other memory can replace; rows have
    a pitch in arrays of two dimensions and more."""
    for array in gallery()[kernel][2].arrays:
        if array.role in ("input", "inout") and not array.is_filtered:
            for name, keys in PLACEMENTS.items():
                if "pitch" not in keys or len(array.shape) > 1:
                    yield Requested(kernel, array.name, name)


def placed(request: Requested) -> Spec:
    """The spec with the placement. SpecError if it is refused."""
    return _changed(request, PLACEMENTS[request.placement])


def outcome(request: Requested) -> Outcome:
    without = make_plan(_changed(request, {}))
    try:
        plan = make_plan(placed(request))
    except SpecError as error:
        return _refusal(error, without, request.array)
    params = sizes(without.context.spec)
    before, after = (_traffic(made, params) for made in (without, plan))
    # Sectors; or, where an address depends on data, the bytes that lanes request.
    unit = "moved" if None not in (before["moved"], after["moved"]) else "requested"
    if after[unit] is None:
        return Outcome(COSTLY, "unknown")
    ratio = after[unit] / before[unit]
    return Outcome(HONOURED if ratio <= MAX_RATIO else COSTLY, f"{ratio:.2f}")


def sizes(spec: Spec) -> dict[str, int]:
    """A value for each dynamic param: the greatest that is allowed up to 100, or else the least."""
    params = [param for param in spec.params if param.is_dynamic]
    return {p.name: max(min(p.maximum, 100) // p.multiple_of * p.multiple_of, p.minimum) for p in params}


def _traffic(plan: Plan, params: Mapping[str, int]) -> dict[str, Any]:
    """Bytes over all launches, by unit; None where they are unknown."""
    known = {p.name: p.value for p in plan.context.spec.params if p.value is not None} | dict(params)
    values = {str(symbol): known[name] for name, symbol in plan.context.symbols.items()}
    launches = [facts(launch, plan.context, plan.context.spec.target, values).traffic for launch in plan.kernels]
    moved = [launch and launch.moved for launch in launches]
    requested_bytes = [launch and launch.requested for launch in launches]
    return {
        unit: None if None in counts else sum(counts)
        for unit, counts in (("moved", moved), ("requested", requested_bytes))
    }


def _refusal(error: SpecError, without: Plan, array: str) -> Outcome:
    """The kind of a refusal: by what the families of the plan without the placement say, else by what any does; of the
    array, or else of all."""
    diagnostic = error.diagnostics[0]
    preferred = tuple(launch.family for launch in without.kernels)
    named = re.compile(rf"\b{array}\b")
    notes = sorted(diagnostic.notes, key=lambda note: (named.search(note) is None, not note.startswith(preferred)))
    reasons = notes if diagnostic.code in ("CG2102", "CG2103") else [diagnostic.message]
    for reason in reasons:
        for kind, pattern in KINDS.items():
            if re.search(pattern, reason):
                return Outcome(kind, reason)
    return Outcome(UNEXPLAINED, reasons[0])


def _changed(request: Requested, keys: Mapping[str, Any]) -> Spec:
    """The spec with other keys for the memory of the array."""
    path, number, _ = gallery()[request.kernel]
    document = _documents(path)[number]
    declared = dict(document["arrays"][request.array])
    memory = declared.pop("memory", None)
    arrays = {**document["arrays"], request.array: {**declared, **_with_options(keys, memory)}}
    specs = _load({**document, "arrays": arrays}, path)
    return next(spec for spec in specs if spec.kernel == request.kernel)


def _with_options(keys: Mapping[str, Any], memory: Any) -> Mapping[str, Any]:
    """The keys with the pipeline of the memory that the gallery declares: operands have the same number of stages."""
    requested_memory = keys.get("memory")
    space = requested_memory.get("space") if isinstance(requested_memory, Mapping) else requested_memory
    if space != "shared" or not isinstance(memory, Mapping) or memory["space"] != "shared":
        return keys
    options = {key: value for key, value in memory.items() if key not in ("pad", "swizzle")}
    return {**keys, "memory": options | (requested_memory if isinstance(requested_memory, Mapping) else {})}


def _load(document: Mapping[str, Any], path: Path) -> tuple[Spec, ...]:
    return load_text(yaml.safe_dump(dict(document), sort_keys=False), folder=path.parent)


@cache
def _documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))
