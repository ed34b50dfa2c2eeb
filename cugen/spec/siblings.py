"""Sibling variants: variants of one document with the same semantics, which differ in schedule, placement or sizes.

A dispatcher may call any of them that supports the given sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cugen.spec.model import Check, Memory, Param, Spec
from cugen.spec.variants import in_name


@dataclass(frozen=True, slots=True)
class Siblings:
    """At least two specs, in the order of the document. `name` is the kernel's name in the document, followed by the
    values of the variants that distinguish this group from the others (`matmul`, or `matmul__float32`)."""

    name: str
    specs: tuple[Spec, ...]


def siblings(specs: Sequence[Spec]) -> tuple[Siblings, ...]:
    """The groups of siblings among `specs`; none for a document whose groups would have the same name."""
    documents: dict[object, list[Spec]] = {}
    for spec in specs:
        if spec.variant:
            axes = tuple(axis for axis, _ in spec.variant)
            documents.setdefault((spec.dependencies[:1], spec.file, _base(spec), axes), []).append(spec)
    return tuple(group for variants in documents.values() for group in _of_document(variants))


def _of_document(variants: Sequence[Spec]) -> tuple[Siblings, ...]:
    by_semantics: dict[str, list[Spec]] = {}
    for spec in variants:
        by_semantics.setdefault(_semantic_hash(spec), []).append(spec)
    groups = [group for group in by_semantics.values() if len(group) > 1]
    distinguishing = [
        axis
        for axis, _ in variants[0].variant
        if not _agree(variants, axis) and all(_agree(group, axis) for group in groups)
    ]
    result = []
    for group in groups:
        values = (in_name(value) for axis, value in group[0].variant if axis in distinguishing)
        result.append(Siblings("__".join((_base(group[0]), *values)), tuple(group)))
    return tuple(result) if len({group.name for group in result}) == len(result) else ()


def _semantic_hash(spec: Spec) -> str:
    """A hash of the semantics: computation, arguments and target, without sizes, memory placement and schedules."""
    params = tuple(Param(param.name, None) for param in spec.params)
    arrays = tuple(replace(array, memory=Memory()) for array in spec.arrays)
    scalars = tuple(replace(scalar, constant=False) for scalar in spec.scalars)
    return replace(
        spec,
        kernel="",
        doc="",
        params=params,
        arrays=arrays,
        scalars=scalars,
        schedules=(),
        check=Check(),
        variant=(),
        is_choice=False,
    ).hash


def _agree(specs: Sequence[Spec], axis: str) -> bool:
    return len({in_name(dict(spec.variant)[axis]) for spec in specs}) == 1


def _base(spec: Spec) -> str:
    return spec.kernel.partition("__")[0]
