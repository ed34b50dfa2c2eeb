"""Boxes of pixels that TMA copies in im2col mode: how many of the pixels are inside the images.

Pixels follow each other in the bounding box of the tensor map, image by image. A box is a number of them from its first
one on, each read at the offset of a tap. Which are inside is the same for every image, and is counted once for a tap.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cugen.analysis.totals.box_parts import CountedBoxes, Part, array_sizes, axis, static_coordinates
from cugen.analysis.totals.budget import Budget, Unknown
from cugen.analysis.totals.sites import Site
from cugen.machine.requests.boxes import BoxExtents, Extent, Pixels
from cugen.machine.requests.warp import SECTOR_BYTES
from cugen.plan.memory import Access, PixelBox
from cugen.plan.symbols import Integer

_MAX_PIXELS = 1 << 22  # heuristic: of the images of one period, that are enumerated for each tap

_Offsets = tuple[int, ...]


def pixel_boxes(site: Site, mapped: Access, offsets: Sequence[Integer], budget: Budget) -> CountedBoxes:
    """Boxes of pixels of `mapped`, read at these `offsets` along the dimensions of an image."""
    tensor_map = mapped.array.tensor_map
    assert tensor_map is not None
    assert tensor_map.pixels is not None
    *first, channel = static_coordinates(site, mapped.subscripts)
    sizes, steps = array_sizes(site, mapped)
    images = _Images(tensor_map.pixels, tuple(sizes[:-1]), tuple(steps[:-1]), tensor_map.box[-2], budget)

    def extents(cases: Sequence[Hashable]) -> BoxExtents:
        number, taps, channels = cases
        assert isinstance(number, int)
        assert isinstance(taps, tuple)
        assert isinstance(channels, Extent)
        return images.inside(number, taps), channels

    parts = (
        Part(tuple(first), images.number),
        Part(static_coordinates(site, offsets), tuple),
        axis(channel, tensor_map.box[-1], sizes[-1], steps[-1]),
    )
    return CountedBoxes(parts, extents)


@dataclass(frozen=True)
class _Images:
    """The images of an array: `sizes` and `steps` in bytes of the images and of the dimensions of one, and `box`
    pixels that a copy moves. Pixels have numbers in their order in the bounding boxes of all images."""

    pixels: PixelBox
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    box: int
    budget: Budget
    counts: dict[_Offsets, Mapping[int, NDArray[np.int64]]] = field(default_factory=dict)

    @property
    def box_sizes(self) -> tuple[int, ...]:
        """Pixels of the bounding box along each dimension of an image."""
        pixels = self.pixels
        ranges = zip(self.sizes[1:], pixels.lower, pixels.upper, pixels.steps, strict=True)
        return tuple(len(range(lower, size + upper, step)) for size, lower, upper, step in ranges)

    @property
    def period(self) -> int:
        """Pixels after which the bytes from a sector boundary repeat: those of some whole images."""
        return SECTOR_BYTES // math.gcd(self.steps[0], SECTOR_BYTES) * math.prod(self.box_sizes)

    @property
    def total(self) -> int:
        return self.sizes[0] * math.prod(self.box_sizes)

    def number(self, first: tuple[int, ...]) -> int:
        """The number of a box's first pixel, less whole periods unless the box ends after the last image. Raises
        Unknown if the bounding box hasn't that pixel."""
        number, *inside = first
        pixels = self.pixels
        for position, count, lower, step in zip(inside, self.box_sizes, pixels.lower, pixels.steps, strict=True):
            along, remainder = divmod(position - lower, step)
            if remainder or not 0 <= along < count:
                raise Unknown("a box begins at a pixel that its bounding box hasn't")
            number = number * count + along
        return number % self.period if 0 <= number <= self.total - self.box else number

    def inside(self, first: int, offsets: _Offsets) -> Pixels:
        """The pixels of a box that are inside the images."""
        if offsets not in self.counts:
            self.counts[offsets] = self._counted(offsets)
        ends = [min(max(number, 0), self.total) for number in (first, first + self.box)]
        phases = []
        for phase, before in self.counts[offsets].items():
            low, high = (end // self.period * int(before[-1]) + int(before[end % self.period]) for end in ends)
            phases.append((phase, high - low))
        return Pixels(tuple((phase, count) for phase, count in phases if count))

    def _counted(self, offsets: _Offsets) -> Mapping[int, NDArray[np.int64]]:
        """By the bytes from a sector boundary: how many of the pixels before each one, and of all in a period, are
        inside and begin there."""
        if self.period > _MAX_PIXELS:
            raise Unknown(f"its boxes are parts of {self.period:,} pixels, too many to enumerate")
        self.budget.lanes(self.period)
        image, *box = np.indices((self.period // math.prod(self.box_sizes), *self.box_sizes), np.int64)
        address, is_inside = image * self.steps[0], np.ones(image.shape, np.bool_)
        pixels = self.pixels
        axes = zip(box, self.sizes[1:], self.steps[1:], pixels.lower, pixels.steps, offsets, strict=True)
        for along, size, pitch, lower, step, offset in axes:
            position = lower + step * along + offset
            is_inside &= (position >= 0) & (position < size)
            address += position * pitch
        phases = np.where(is_inside, address % SECTOR_BYTES, -1).ravel()
        return {
            int(phase): np.concatenate([[0], np.cumsum(phases == phase)]) for phase in np.unique(phases) if phase >= 0
        }
