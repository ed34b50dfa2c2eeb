"""The limits of texture objects on a target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cugen.machine import Target
from cugen.plan.symbols import Integer


@dataclass(frozen=True, slots=True)
class TextureLimit:
    """`value` is at most `maximum`; `text` is what it counts: `rows of {} elements`."""

    text: str
    value: Integer
    maximum: int


def limits(sizes: tuple[Integer, ...], target: Target) -> Iterator[TextureLimit]:
    """Those of a texture object with the sizes of `Context.texture_sizes`."""
    if len(sizes) == 1:
        yield TextureLimit("{} elements", sizes[0], target.texture_elements)
        return
    width, height, pitch = sizes
    yield TextureLimit("rows of {} elements", width, target.texture_width)
    yield TextureLimit("{} rows", height, target.texture_height)
    yield TextureLimit("a pitch of {} bytes", pitch, target.texture_pitch)
