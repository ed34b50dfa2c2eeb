"""The modelled time of attention: instructions of a warp for the keys of a step, on tensor cores and on others.

No constant is fitted: instruction counts are those of the kernel, rates those of the device table. Tensor cores and
the other units overlap between warps, so that the longer takes all of its time, and the shorter a part."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from cugen.families.attention.config import ELEMENT_BYTES, MMA_M, MMA_N, AttentionConfig
from cugen.families.attention.recognition import Attention
from cugen.families.contraction.k_range import KBounds
from cugen.machine import Device, target
from cugen.machine.bandwidth import L2_TO_DRAM_BANDWIDTH
from cugen.machine.devices import modelled_device
from cugen.machine.mma import INSTRUCTIONS, TF32, issue_rate
from cugen.machine.occupancy import occupancy
from cugen.machine.requests.warp import WARP_SIZE
from cugen.pieces.kernels import new_lowering
from cugen.plan.symbols import integer

PARTS = 2  # of tf32 of a weight
OF_PARTS = replace(TF32, is_rounded=False, conversions=(0, 0))  # whose operands are numbers of tf32
_SCORE_INSTRUCTIONS = 18  # of a score: scale, maximum, exponential, sum, and the parts of its weight (SASS)
_STEP_INSTRUCTIONS = 100  # of a warp: maxima of rows, loop, copies and barriers (SASS)
_UNHIDDEN = 0.35  # of the shorter of tensor cores and other instructions (heuristic)
_UNHIDDEN_OF_ONE = 0.6  # the same of a single resident block, whose warps wait for each other (heuristic)
_CONVERSIONS = 1.0  # of an element of v (SASS)
_WARPS_THAT_HIDE_LATENCY = 8  # of a multiprocessor (heuristic)
_UNHIDDEN_COPIES = 0.15  # of the shorter of copies of k and v and all else (heuristic)
_LAUNCH_SECONDS = 4e-6
_OTHERS = "instructions of softmax and conversions"
_SAMPLED_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class Prediction:
    """The time of a config, the blocks that are `resident` on a multiprocessor, and the `waves` of blocks."""

    seconds: float
    resident: int
    waves: float
    limiter: str

    @property
    def text(self) -> str:
        return (
            f"predicted {self.seconds * 1e6:.3g} µs: {self.waves:.3g} waves of blocks, {self.resident} resident on a "
            f"multiprocessor; limited by {self.limiter}"
        )


def predict(attention: Attention, config: AttentionConfig) -> Prediction | None:
    """The time of a config on the device that the target's kernels are modelled for; None if no block fits it."""
    request, context = attention.request, attention.context
    device = modelled_device(request.target.name)
    registers = min(config.registers, request.target.registers_per_thread)
    resident = occupancy(request.target, config.threads, registers, config.shared_bytes).blocks_per_sm
    if not resident:
        return None
    rows, keys = context.planned_extent(attention.row), context.planned_extent(attention.key)
    batch = math.prod(map(context.planned_extent, attention.batch))
    blocks = batch * -(-rows // config.block_rows)
    steps = -(-keys * _share_of_keys(attention, config, rows, keys) // config.keys)
    on_tensor_cores, others = _step_seconds(attention, config, device)
    longer, shorter = max(on_tensor_cores, others), min(on_tensor_cores, others)
    unhidden = _UNHIDDEN if min(resident, -(-blocks // device.sms)) > 1 else _UNHIDDEN_OF_ONE
    of_block = config.warps * steps * (longer + unhidden * shorter)  # of one multiprocessor, which has no other
    per_multiprocessor = -(-blocks // device.sms)
    warps = min(resident, per_multiprocessor) * config.warps
    latency = max(1.0, _WARPS_THAT_HIDE_LATENCY / warps)
    computing = per_multiprocessor * of_block * latency
    copied = blocks * steps * config.keys * (config.depth + config.columns) * ELEMENT_BYTES
    copying = copied / (device.l2_bandwidth or device.bandwidth * L2_TO_DRAM_BANDWIDTH)
    seconds = _LAUNCH_SECONDS + max(computing, copying) + _UNHIDDEN_COPIES * min(computing, copying)
    limits = {"copies from L2": copying, "tensor cores": computing * (on_tensor_cores >= others)}
    limiter = max(limits, key=lambda name: limits[name]) if max(limits.values()) >= computing else _OTHERS
    return Prediction(seconds, resident, blocks / (device.sms * resident), limiter)


def _share_of_keys(attention: Attention, config: AttentionConfig, rows: int, keys: int) -> float:
    """The part of the keys that a block computes on average, of a few blocks: a mask leaves out the others."""
    if not attention.conditions or not rows or not keys:
        return 1.0
    lowering, context, total = new_lowering(attention.request), attention.context, 0.0
    for sample in range(_SAMPLED_BLOCKS):
        first = rows * sample // _SAMPLED_BLOCKS // config.block_rows * config.block_rows
        block = {attention.row.name: (integer(first), config.block_rows)}
        key_bounds = KBounds(lowering, attention.conditions, attention.key.name, block, config.keys)
        start, stop = (context.planned(bound) for bound in key_bounds.k_range(integer(keys), integer(0)))
        total += max(min(stop, keys) - max(start, 0), 0) / keys
    return total / _SAMPLED_BLOCKS


def _step_seconds(attention: Attention, config: AttentionConfig, device: Device) -> tuple[float, float]:
    """Seconds of a multiprocessor for a warp and the keys of a step: of its tensor cores, and of its issue slots."""
    array, rates = attention.array(attention.query), dict(device.peaks)
    first = INSTRUCTIONS[array.dtype.name, array.dtype.name]
    tensor, issued = 0.0, 0.0
    for instruction, width, parts in ((first, config.depth, 1), (OF_PARTS, config.columns, PARTS)):
        multiply_adds = parts * config.rows * config.keys * width
        rate = rates.get(instruction.peak, rates["float32"]) * issue_rate(instruction, target(device.target))
        tensor += 2 * multiply_adds / (rate / device.sms)
        issued += multiply_adds / (MMA_M * MMA_N * instruction.k)
    matrices = (config.keys * (config.depth + config.columns) + config.rows * config.depth) / (4 * 64)
    converted = config.keys * config.columns / WARP_SIZE
    scores, sums = config.rows * config.keys / WARP_SIZE, config.rows * config.columns / WARP_SIZE
    issued += _SCORE_INSTRUCTIONS * scores + _CONVERSIONS * converted + sums + 2 * matrices + _STEP_INSTRUCTIONS
    return tensor, issued * 2 * WARP_SIZE / (device.peak() / device.sms)
