"""Predicted time of register windows, to compare with an implicit GEMM.

A thread's channels follow each other: each takes the latency of its loads and its instructions. All threads share the
issue slots of the multiprocessors, and memory. Fitted to the convolutions of tests/data/convolutions_h100.json.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import sympy

from cugen.families.stencil.config import StencilConfig, elements_of
from cugen.families.stencil.footprint import ChannelReduction, Footprint
from cugen.machine.devices import modelled_device
from cugen.pieces.block_reduce import WARP
from cugen.plan.request import Request

_LAUNCH_SECONDS = 4.4e-6
_ISSUED_FRACTION = 0.5  # of the issue slots, that instructions of windows take
_THREAD_INSTRUCTIONS = 60  # of a thread, besides those of its channels
_MEMORY_FRACTION = 0.85  # of the published bandwidth
_CHANNEL_SECONDS = 300e-9  # until the loads of a channel arrive
_INSTRUCTION_SECONDS = 5e-9  # of one thread, each waits for the one before


def predict(
    request: Request,
    footprints: Mapping[str, Footprint],
    channels: ChannelReduction | None,
    config: StencilConfig,
    outputs: int,
) -> float:
    """Seconds of the launch for so many `outputs`; without `channels` all elements of an output are in the windows."""
    context = request.context
    device = modelled_device(request.target.name)
    count = math.prod(context.max_extent(index) for index in channels.channels) if channels else 1
    taps = sum(len(footprint.points) for footprint in footprints.values())
    moving = {axis.index for footprint in footprints.values() for axis in footprint.axes}
    per_thread = math.prod(config.outputs.values())
    weights = taps * math.prod(number for name, number in config.outputs.items() if name not in moving)
    of_channel = per_thread * taps + elements_of(footprints, config.outputs) + weights
    slots = _ISSUED_FRACTION * device.peak() / (2 * WARP)  # of a warp's FMAs, per second
    issued = outputs / per_thread / WARP * (count * of_channel + _THREAD_INSTRUCTIONS) / slots
    arrays = [context.arrays[array.name] for array in request.touched()]
    sizes = [(context.static(sympy.Mul(*array.shape)) or outputs) * array.dtype.bytes for array in arrays]
    moving_seconds = sum(sizes) / (device.bandwidth * _MEMORY_FRACTION)
    return _LAUNCH_SECONDS + max(issued, moving_seconds, count * (_CHANNEL_SECONDS + of_channel * _INSTRUCTION_SECONDS))
