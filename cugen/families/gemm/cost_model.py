"""How long a product takes on a device, by what its shape asks of it; calibrated with measured kernels.

A step of one block costs issue slots (multiply-adds, reads of tiles, copies, what counts and addresses) and passes
through shared memory, whichever is more. Blocks that are on a multiprocessor together share it. What is left is the
same for all: a launch, the first copies and the last stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from cugen.families.gemm.config import WARP, Shape, with_lanes
from cugen.families.gemm.problem import Problem, device_of, group, registers, shared_bytes
from cugen.families.gemm.stream_k_schedule import share_out
from cugen.machine import Device, Target, device
from cugen.machine.latency import memory_latency

# Of the published rate; a loop of nothing but multiply-adds was seen to reach 0.95 of it on an H200.
_SUSTAINED = 0.945
_STEP = 40  # instructions of a step besides those that follow from its shape: counting, addresses, the barrier
_COPY = 10.2  # instructions of one copy: its address in both memories, its guard, itself
_MEET = 7  # cycles that each further warp of a team is waited for at the end of a step
_HELD = 1.03  # times that a step takes in a walk over tiles, where registers hold the places of more than two stages
_GUARD = 12  # more of one that asks where the edge is
_FIXED = 4.72e-6  # seconds: a launch, the first copies, the last stores
_SHARE = 3.6e-6  # seconds that blocks take to number themselves, and the last one of a tile for what others leave
_SHARE_SLICES = 1.54e-6  # the same where the slices of a block are added up before it leaves their sum
_JOIN = 0.87e-6  # seconds that blocks take to count themselves, and the last one of a tile to add what all leave
_JOIN_SLICES = 1.03e-6  # the same where the slices of a block are added up before it leaves their sum
_GATHERED = 60e9  # bytes a second that the last block of a tile reads of what all left
_JOIN_CLUSTER = 1.07e-6  # seconds that the blocks of a cluster wait for each other, and read each other's sums
# Multiprocessors of an H200 that clusters of so many blocks come to: these lie in one of its parts each.
_REACHED = {2: 132, 3: 126, 4: 124, 6: 114, 8: 120}
_L2 = 4.32e12  # bytes a second from the second-level cache of an H200
_L2_TENSOR = 6.2e12  # the same for tensor cores, as products of float64 of 512 and 1024 on a side show
_DRAIN = 29.2  # bytes of results that a multiprocessor writes in a cycle, while its next block waits
_MEMORY = 0.9  # share of the published bandwidth that is reached
_ANSWER = 800  # cycles until a copy has come
_ENDS = 11.3  # instructions of each wide store and of what computes it
_ALONE = 1.12  # where a scheduler has one warp, nothing covers its reads of shared memory
_CLASH = 0.112  # of what is done beside the rest is felt all the same
_SHARED_CYCLES = 2  # of a 16-byte read of a warp whose lanes pairwise read alike


@dataclass(frozen=True, slots=True)
class Prediction:
    """`seconds` in all; the `share` that multiplies, `busy` says of what; `waves` of blocks; what `limits` them."""

    seconds: float
    share: float
    waves: float
    resident: int
    limits: str
    busy: str = "the instructions are multiply-adds"

    @property
    def text(self) -> str:
        count = f"{self.waves:.2f}".rstrip("0").rstrip(".")
        waves = f"{count} wave{'' if count == '1' else 's'} of blocks"
        return (
            f"about {_duration(self.seconds)}: {waves}, {self.resident} at a time on each "
            f"multiprocessor, {self.share:.0%} of {self.busy}; {self.limits}"
        )


def resident(problem: Problem, shape: Shape, target: Target) -> int:
    """Blocks that fit a multiprocessor at the same time."""
    unit = target.register_unit
    each = -(-min(registers(problem, shape), target.registers_per_thread) * WARP // unit) * unit
    warps = shape.threads // WARP
    return min(
        target.registers_per_sm // each // warps,
        target.shared_per_sm // (shared_bytes(problem, shape) + target.shared_reserved),
        target.warps_per_sm // warps,
        target.blocks_per_sm,
    )


def _reached(shape: Shape, found: Device) -> int:
    """The multiprocessors that a shape's blocks come to, of which clusters leave some idle."""
    if not shape.is_clustered:
        return found.sms
    return found.sms * _REACHED[shape.split] // device("H200").sms


@lru_cache(maxsize=4096)
def predict(problem: Problem, shape: Shape, target: Target) -> Prediction | None:
    """None where not even one block fits a multiprocessor."""
    together = resident(problem, shape, target)
    if together < 1:
        return None
    found = device_of(target)
    units = memory_latency(found)
    issue, schedulers = units.issue_cycles, units.schedulers
    lanes = WARP * schedulers / issue
    clock = _SUSTAINED * found.peak("float32") / (2 * found.sms * lanes)

    steps = -(-problem.depth // (shape.step * shape.split))
    sms = _reached(shape, found)
    tiles = -(-problem.rows // shape.rows) * -(-problem.columns // shape.columns) * problem.batch * shape.split
    multiplies = shape.thread_rows * shape.thread_columns * shape.own_step
    owned = tuple(zip((shape.thread_rows, shape.thread_columns), problem.bytes[:2], strict=True))
    reads: float = sum(own // group(size, own) for own, size in owned) * shape.own_step
    wide = sum(max(1.0, own * size / 16) for own, size in owned) * shape.own_step  # were they all of 16 bytes
    if shape.is_on_tensor_cores:
        reads = wide = (shape.warp_rows + shape.warp_columns) / WARP * shape.own_step
    extents = (shape.rows, shape.columns)
    copies = sum(e * shape.step / w / shape.threads for e, w in zip(extents, problem.widths, strict=True))
    # Tiles that several blocks share are not shifted inward: where they reach over an edge, each copy asks.
    is_guarded = shape.stream > 0 and (problem.rows % shape.rows or problem.columns % shape.columns)
    converted = problem.convert * (shape.thread_rows + shape.thread_columns) * shape.own_step
    beside = reads + converted + copies * (_COPY + (_GUARD if is_guarded else 0)) + _STEP
    products = multiplies * problem.multiply * issue
    slots = products + beside
    if shape.is_on_tensor_cores:  # these work by themselves, while the warp issues what stands beside
        products = multiplies * problem.tensor * issue
        slots = max(products, beside) + _CLASH * min(products, beside)
    # Warps of a scheduler take turns; the passes through shared memory are of the whole multiprocessor.
    warps = shape.threads // WARP
    shares = share_out(tiles, steps, found.sms * together, shape.stream, shape.threads) if shape.stream else None
    at_once = min(together, -(-(shares.blocks if shares else tiles) // sms))
    ends = shape.thread_rows * shape.thread_columns / 4 * _ENDS * (1 + shape.slices) / 2 + 150
    drain = shape.rows * shape.columns * problem.bytes[2] / _DRAIN

    def share(beside: int) -> tuple[float, float, bool]:
        """The cycles of a step and of the end where so many blocks share a multiprocessor; whether products decide."""
        busy = slots * -(-beside * warps // schedulers)
        passes = beside * warps * wide * _SHARED_CYCLES
        work = (max(busy, passes) + _CLASH * min(busy, passes)) * (_ALONE if beside * warps < 2 * schedulers else 1)
        work *= _HELD if shape.stream and shape.stages > 2 else 1
        work += _MEET * (shape.team_threads // WARP - 1)
        step = work + max(0.0, _ANSWER - (shape.stages - 1) * work)
        # A block that is alone waits for its first copies.
        return step, ends * -(-beside * warps // schedulers) + (_ANSWER + drain) / beside, busy >= passes

    step, end, by_products = share(at_once)
    rounds, rest = divmod(tiles, sms * at_once)
    cycles = rounds * (steps * step + end)
    if rest:
        last_step, last_end, _ = share(-(-rest // sms))
        cycles += steps * last_step + last_end
    if shares is not None:
        # The last block of a tile adds up what the others leave, each of which has an end of its own.
        others = max(1.0, steps / shares.share)
        cycles = (shares.rounds * steps + shares.share) * step + (shares.rounds + shares.most) * end + others * _ANSWER
    computing = cycles / clock

    loaded = tiles * steps * shape.step * sum(e * b for e, b in zip(extents, problem.bytes[:2], strict=True))
    a, b, c = problem.bytes
    moved = problem.batch * (problem.rows * problem.depth * a + problem.depth * problem.columns * b)
    moved += problem.batch * problem.rows * problem.columns * c
    cached = _L2_TENSOR if shape.is_on_tensor_cores else _L2
    caching = loaded / (cached * found.peak("float32") / device("H200").peak("float32"))
    moving = moved / (found.bandwidth * _MEMORY)
    limits = {
        f"{'tensor cores' if shape.is_on_tensor_cores else 'multiply-adds'} decide"
        if by_products
        else "reads of shared memory decide": computing,
        "the second-level cache decides": caching,
        "memory decides": moving,
    }
    seconds = max(limits.values()) + _FIXED
    if shape.is_on_tensor_cores:
        seconds += _CLASH * min(computing, caching)
    if shape.is_clustered:
        seconds += _JOIN_CLUSTER
    elif shape.split > 1:
        seconds += _JOIN_SLICES if shape.slices > 1 else _JOIN
        seconds += shape.split * shape.rows * shape.columns * problem.sum_bytes / _GATHERED
    if shares is not None:
        seconds += _SHARE_SLICES if shape.slices > 1 else _SHARE
    return Prediction(
        seconds,
        products / slots,
        (shares.blocks if shares else tiles) / (sms * together),
        together,
        max(limits, key=lambda name: limits[name]),
        "the time tensor cores multiply" if shape.is_on_tensor_cores else "the instructions are multiply-adds",
    )


# Tiles of a block, what a thread owns of them, the step, and how many slices share it out. First those that won on one
# of the shapes that were measured, then others that NVIDIA's libraries have, and what fills gaps between them.
_TILES = (
    (128, 256, 16, 8, 8, (1,)),
    (128, 256, 8, 16, 8, (1,)),
    (64, 128, 16, 8, 16, (4,)),
    (64, 128, 8, 16, 16, (4,)),
    (64, 128, 16, 8, 32, (4,)),
    (64, 128, 8, 16, 32, (4,)),
    (64, 64, 16, 8, 64, (8,)),
    (32, 64, 8, 8, 64, (8,)),
    (32, 64, 8, 8, 32, (4,)),
    (32, 96, 8, 12, 64, (8,)),
    (32, 32, 8, 4, 64, (8,)),
    (32, 64, 4, 8, 32, (4,)),
    (64, 64, 16, 8, 32, (4,)),
    (64, 128, 8, 8, 16, (1, 2)),
    (128, 128, 8, 8, 8, (1,)),
    (64, 256, 8, 8, 8, (1,)),
    (256, 128, 16, 8, 8, (1,)),
    (256, 128, 8, 16, 8, (1,)),
    (128, 64, 16, 8, 32, (4,)),
    (128, 64, 16, 8, 16, (4, 2)),
    (128, 64, 8, 8, 16, (1, 2)),
    (128, 64, 8, 8, 8, (1,)),
    (64, 128, 8, 8, 8, (1,)),
    (256, 64, 8, 8, 8, (1,)),
    (128, 128, 8, 8, 16, (1,)),
    (128, 128, 16, 8, 8, (1, 2)),
    (64, 128, 16, 8, 16, (2,)),
    (64, 128, 8, 16, 16, (2,)),
    (64, 64, 8, 8, 16, (4, 2, 1)),
    (32, 128, 8, 8, 16, (4, 2, 1)),
    (128, 32, 8, 8, 16, (4, 2, 1)),
    (64, 32, 8, 4, 32, (4, 2)),
    (32, 64, 4, 8, 32, (2,)),
    (32, 64, 4, 8, 16, (2, 1)),
    (32, 32, 4, 4, 32, (4, 2, 1)),
    (64, 256, 16, 8, 16, (2,)),
    (64, 192, 8, 12, 16, (2,)),
    (64, 96, 8, 12, 16, (2,)),
    (96, 64, 12, 8, 16, (2,)),
    (64, 96, 8, 12, 32, (4,)),
    (96, 64, 12, 8, 32, (4,)),
    (64, 48, 8, 12, 64, (8,)),
    (64, 48, 8, 12, 32, (4,)),
    (32, 96, 8, 12, 32, (4,)),
    (64, 64, 8, 8, 64, (8,)),
    (64, 64, 8, 8, 32, (4,)),
    (64, 32, 8, 8, 64, (8,)),
    (32, 128, 8, 8, 32, (4,)),
    # sides with other divisors, where those above leave many multiprocessors without a tile
    (80, 80, 10, 10, 16, (4,)),
    (80, 80, 10, 10, 32, (4,)),
    (96, 96, 12, 12, 32, (4,)),
)
_STAGES = (2, 3, 4, 5)  # of rings that do alike, the shallowest takes the fewest instructions
_SLICED_STAGES = (3, 4, 2, 5)  # slices have less to do in a step, so that copies must be begun more steps ahead
_TENSOR_STAGES = (4, 3, 2, 5)  # tensor cores leave room for these, and want the data earlier
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)
STREAMS = (0, 1, 2)


def shapes() -> Iterator[Shape]:
    """The shapes worth thinking of, the ring's stages and what is split apart left as they are by default."""
    for rows, columns, thread_rows, thread_columns, step, slices in _TILES:
        for count in slices:
            placed = with_lanes(Shape(rows, columns, thread_rows, thread_columns, step, slices=count))
            assert placed is not None
            yield placed


def with_stages(shape: Shape) -> Iterator[Shape]:
    """The shape with rings of other depths."""
    usual = _SLICED_STAGES if shape.slices > 1 else _STAGES
    for stages in _TENSOR_STAGES if shape.is_on_tensor_cores else usual:
        yield replace(shape, stages=stages)


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"
