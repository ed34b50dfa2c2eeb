"""Variants of one document that mean the same and differ only in how it is computed, or in the sizes that they are made
for: a caller may take any of them that is for the sizes at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cugen.spec.model import Check, Memory, Param, Spec
from cugen.spec.variants import in_name


@dataclass(frozen=True, slots=True)
class Siblings:
    """At least two specs, in the order of the document. `name` is the kernel's as the document gives it, followed by
    the values of those variants that tell these siblings from others (`matmul`, or `matmul__float32`)."""

    name: str
    specs: tuple[Spec, ...]


def siblings(specs: Sequence[Spec]) -> tuple[Siblings, ...]:
    """The groups among `specs`. None for a document whose groups would have the same name."""
    documents: dict[object, list[Spec]] = {}
    for spec in specs:
        if spec.variant:
            axes = tuple(axis for axis, _ in spec.variant)
            documents.setdefault((spec.dependencies[:1], spec.file, _base(spec), axes), []).append(spec)
    return tuple(found for variants in documents.values() for found in _of_document(variants))


def _of_document(variants: Sequence[Spec]) -> tuple[Siblings, ...]:
    meanings: dict[str, list[Spec]] = {}
    for spec in variants:
        meanings.setdefault(_meaning(spec), []).append(spec)
    groups = [group for group in meanings.values() if len(group) > 1]
    telling = [
        axis
        for axis, _ in variants[0].variant
        if not _agree(variants, axis) and all(_agree(group, axis) for group in groups)
    ]
    result = []
    for group in groups:
        values = (in_name(value) for axis, value in group[0].variant if axis in telling)
        result.append(Siblings("__".join((_base(group[0]), *values)), tuple(group)))
    return tuple(result) if len({found.name for found in result}) == len(result) else ()


def _meaning(spec: Spec) -> str:
    """A hash of what is computed, from which arguments and for which target; not of the sizes, nor of where tiles lie
    and how large they are."""
    params = tuple(Param(param.name, None) for param in spec.params)
    arrays = tuple(replace(array, memory=Memory()) for array in spec.arrays)
    scalars = tuple(replace(scalar, constant=False) for scalar in spec.scalars)
    return replace(
        spec, kernel="", doc="", params=params, arrays=arrays, scalars=scalars, schedules=(), check=Check(), variant=()
    ).hash


def _agree(specs: Sequence[Spec], axis: str) -> bool:
    return len({in_name(dict(spec.variant)[axis]) for spec in specs}) == 1


def _base(spec: Spec) -> str:
    return spec.kernel.partition("__")[0]
