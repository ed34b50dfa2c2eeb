"""Names of a host program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cugen.plan.names import Names
from cugen.spec.model import Spec

# What the templates declare.
_DECLARED = """
    CHECK Arrays Comparison Part Stage actual allocate_device allocate_pageable allocate_pinned busy_milliseconds
    bytes_in bytes_out check checked_row_step clamp comparison copy_in copy_in_whole copy_on_host copy_out create_stage
    cugen destroy_stage device doubles draw draw_integers draw_reals free_arrays given host in is_inside is_right kernel
    kernel_bytes largest_magnitude launch link_peak main mapped_bytes memory_peak milliseconds out pageable part
    part_rows parts pinned print_rate print_timeline reflect results run_parts runs saturated std stream symmetric wrap
"""


@dataclass(frozen=True)
class HostNames:
    """Names in the program: `names` are all, the others map those of the spec. `elements` are constants with the number
    of an array's elements."""

    names: Names
    arrays: Mapping[str, str]
    params: Mapping[str, str]
    scalars: Mapping[str, str]
    elements: Mapping[str, str]


def host_names(spec: Spec) -> HostNames:
    """The spec's own names where the program and the headers leave them free."""
    names = Names()
    for declared in (*_DECLARED.split(), spec.kernel, f"{spec.kernel}_launch"):
        names.allocate(declared)
    params = {param.name: names.allocate(param.name) for param in spec.params}
    arrays = {array.name: names.allocate(array.name) for array in spec.arrays}
    scalars = {scalar.name: names.allocate(scalar.name) for scalar in spec.scalars}
    elements = {name: names.allocate(f"{text}_elements") for name, text in arrays.items()}
    return HostNames(names, arrays, params, scalars, elements)
