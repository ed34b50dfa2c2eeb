"""The boxes of pixels that a launch copies by TMA equal a walk over its blocks, taps and pixels."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.analysis.totals import pixel_boxes
from cugen.analysis.totals.boxes import boxes
from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.sites import Counter as LoopCounter
from cugen.analysis.totals.sites import Predicate, Site
from cugen.machine.requests.boxes import box_bytes, box_sectors
from cugen.plan.memory import Access, Array, PixelBox, TensorMap
from cugen.plan.pipeline_nodes import TensorLoad
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer, symbol
from cugen.spec.types import BFLOAT16

SECTOR = 32
BLOCK, THREAD, K_TILE = symbol("blockIdx.x"), symbol("threadIdx.x"), symbol("loop 0 k0")


@dataclass(frozen=True)
class Axis:
    """A dimension of an image: `outputs` pixels from `lower` on, `step` apart, and `taps` with a distance of
    `dilation`, backwards where they are flipped."""

    size: int
    outputs: int
    lower: int
    step: int
    taps: int
    dilation: int
    flipped: bool

    @property
    def upper(self) -> int:
        return self.lower + (self.outputs - 1) * self.step - self.size + 1

    def offset(self, tap: Integer) -> Integer:
        return self.dilation * (self.taps - 1 - tap if self.flipped else tap)


@dataclass(frozen=True)
class Convolution:
    """A launch whose blocks each copy the windows of `box` outputs, k-tile by k-tile of `channels`."""

    number: int
    axes: tuple[Axis, ...]
    channels: int  # of an image
    block_channels: int
    box: int
    image_pad: int  # elements between images, a multiple of 8

    @property
    def outputs(self) -> int:
        return self.number * math.prod(axis.outputs for axis in self.axes)

    @property
    def blocks(self) -> int:
        return -(-self.outputs // self.box)

    @property
    def strides(self) -> tuple[int, ...]:
        strides = [self.channels]
        for axis in self.axes[::-1]:
            strides.append(strides[-1] * axis.size)
        return (strides[-1] + self.image_pad, *strides[-2::-1], 1)

    @property
    def k_tiles(self) -> tuple[int, ...]:
        """K-tiles of a tap's channels, and the taps."""
        return (*(axis.taps for axis in self.axes), -(-self.channels // self.block_channels))

    def site(self) -> tuple[Site, Access]:
        digits, first = [], self.box * BLOCK
        for axis in self.axes[::-1]:
            digits.append(Mod(first, integer(axis.outputs)))
            first = FloorDiv(first, integer(axis.outputs))
        coordinates = [axis.lower + axis.step * d for axis, d in zip(self.axes, digits[::-1], strict=True)]
        taps, k = [], K_TILE
        for count in self.k_tiles[::-1]:
            taps.append(Mod(k, integer(count)))
            k = FloorDiv(k, integer(count))
        *offsets, channel = taps[::-1]
        pixels = PixelBox(*(tuple(getattr(a, of) for a in self.axes) for of in ("lower", "upper", "step")))
        box = TensorMap((*(1 for _ in self.axes), self.box, self.block_channels), 128, pixels=pixels)
        shape = (self.number, *(axis.size for axis in self.axes), self.channels)
        sizes, strides = (tuple(map(integer, numbers)) for numbers in (shape, self.strides))
        array = Array("x", "x_map", BFLOAT16, sizes, strides, "tensor", flat=False, tensor_map=box)
        access = Access(array, (first, *coordinates, self.block_channels * channel), "tensor_load")
        moved = tuple(axis.offset(tap) for axis, tap in zip(self.axes, offsets, strict=True))
        counters = (LoopCounter(BLOCK, self.blocks), LoopCounter(K_TILE, math.prod(self.k_tiles)))
        guards = (Predicate(((THREAD - 128, "=="),)),)
        load = TensorLoad(access, access, access, offsets=moved)
        return Site(access, integer(0), counters, guards, {}, {}, instruction=load), access

    def walk(self, start: int) -> Counter[tuple[int, int]]:
        """How many boxes have so many bytes inside the images, in so many sectors."""
        found: Counter[tuple[int, int]] = Counter()
        shape = (self.number, *(axis.outputs for axis in self.axes))
        for block, k in product(range(self.blocks), np.ndindex(*self.k_tiles)):
            *taps, chunk = k
            channels = range(chunk * self.block_channels, min((chunk + 1) * self.block_channels, self.channels))
            pixels = [
                np.unravel_index(n, shape) for n in range(block * self.box, min((block + 1) * self.box, self.outputs))
            ]
            size = sectors = 0
            for image, *outputs in pixels:
                position = [
                    axis.lower + axis.step * int(output) + int(axis.offset(integer(tap)))
                    for axis, output, tap in zip(self.axes, outputs, taps, strict=True)
                ]
                if channels and all(0 <= i < axis.size for i, axis in zip(position, self.axes, strict=True)):
                    address = 2 * int(np.dot((int(image), *position, channels[0]), self.strides)) + start
                    size += 2 * len(channels)
                    sectors += len({byte // SECTOR for byte in range(address, address + 2 * len(channels))})
            found[size, sectors] += 1
        return found


@st.composite
def axes(draw):
    size, taps, dilation = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    return Axis(
        size,
        draw(st.integers(1, 5)),
        draw(st.integers(-3, 2)),
        draw(st.integers(1, 3)),
        taps,
        dilation,
        draw(st.booleans()),
    )


convolutions = st.builds(
    Convolution,
    st.integers(1, 5),
    st.lists(axes(), min_size=1, max_size=3).map(tuple),
    st.sampled_from([8, 16, 24, 64, 72]),
    st.sampled_from([16, 64]),
    st.sampled_from([8, 16, 64]),
    st.sampled_from([0, 8]),
)


def counted(convolution: Convolution, start: int = 0) -> Counter[tuple[int, int]]:
    site, access = convolution.site()
    found: Counter[tuple[int, int]] = Counter()
    for each in boxes(site, access, (160, 1, 1), start):
        found[box_bytes(each.extents), box_sectors(each.extents)[0]] += each.count
    return found


@given(convolutions, st.sampled_from([0, 16]))
def test_the_boxes_of_a_convolution_equal_a_walk_over_its_pixels(convolution, start):
    assert counted(convolution, start) == convolution.walk(start)


SAME = Convolution(2, (Axis(5, 5, -1, 1, 3, 1, False), Axis(6, 6, -1, 1, 3, 1, False)), 64, 64, 16, 0)


def test_the_bytes_of_a_convolution_are_those_of_its_taps_inside():
    inside = math.prod(3 * axis.size - 2 for axis in SAME.axes)  # of each tap but the middle one, one pixel is outside
    assert sum(size * count for (size, _), count in counted(SAME).items()) == 2 * inside * 128


def test_a_box_that_begins_outside_of_its_bounding_box_is_unknown():
    site, access = SAME.site()
    elsewhere = replace(access, subscripts=(access.subscripts[0], access.subscripts[1] + 6, *access.subscripts[2:]))
    with pytest.raises(Unknown, match="begins at a pixel that its bounding box hasn't"):
        boxes(site, elsewhere, (160, 1, 1))


def test_offsets_that_depend_on_data_are_unknown():
    site, access = SAME.site()
    load = replace(site.instruction, offsets=(symbol("row"), integer(0)))
    with pytest.raises(Unknown, match="depends on the value row, which is read from memory"):
        boxes(replace(site, instruction=load), access, (160, 1, 1))


def test_images_of_more_pixels_than_are_enumerated_are_unknown(monkeypatch):
    monkeypatch.setattr(pixel_boxes, "_MAX_PIXELS", 29)
    with pytest.raises(Unknown, match="parts of 30 pixels"):
        counted(SAME)
    monkeypatch.setattr(pixel_boxes, "_MAX_PIXELS", 30)
    assert counted(SAME) == SAME.walk(0)
