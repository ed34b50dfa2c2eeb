"""Whether the stores of a kernel make up the elements of its outputs, counted and not executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod

from cugen.analysis.totals.budget import Budget, Unknown
from cugen.analysis.totals.sites import sites
from cugen.analysis.verdicts.report import site_totals
from cugen.kernel import Kernel
from cugen.machine import target
from cugen.plan.symbols import integer, symbol
from cugen.runtime.inputs import known_params


def store_faults(kernel: Kernel, dynamic: Mapping[str, int]) -> Iterator[str]:
    """Outputs with elements that no thread stores, and those that several threads add to. Several threads may store the
    same result: tiles are shifted to the edges of a matrix."""
    spec, context, machine = kernel.spec, kernel.context, target(kernel.spec.target)
    params = {context.symbols[name].name: value for name, value in known_params(spec, dynamic).items()}
    values = {symbol(name): integer(value) for name, value in params.items()}
    elements: Counter[str] = Counter()
    limits: Counter[str] = Counter()  # of stores, where each statement is a launch
    for position, statement in enumerate(spec.statements):
        count = prod(int(context.extent(index).xreplace(values)) for index in statement.indices)
        before = {(earlier.target, earlier.subscripts) for earlier in spec.statements[:position]}
        limits[statement.target] += count
        elements[statement.target] += 0 if (statement.target, statement.subscripts) in before else count
    stores: Counter[str] = Counter()
    unknown: set[str] = set()
    for launch in kernel.plan.kernels:
        for site in sites(launch, params):
            array = site.access.array
            if site.access.kind == "load" or array.space != "global":
                continue
            try:
                totals, _ = site_totals(launch, site, machine, budget=Budget())
            except Unknown:
                unknown.add(array.name)
            else:
                stores[array.name] += totals.lanes * site.access.width
    added = {statement.target for statement in spec.statements if statement.accumulate}
    for name in stores.keys() & elements.keys() - unknown:
        if stores[name] < elements[name] or (name in added and stores[name] > limits[name]):
            yield f"{name} has {elements[name]} elements and {stores[name]} stores"
