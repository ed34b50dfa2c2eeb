"""Which GPUs count: rules over recorded times, without a GPU.

Only GPUs whose worker reports a `DeviceState` are judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, median_low

MAX_DEVIATION = 0.03  # of a GPU's times from the median of its model
_LATEST = 5  # times of one code on one GPU that count


@dataclass(frozen=True, slots=True)
class DeviceState:
    """State of a GPU after it timed. `throttled`: why its clocks are held back, empty if they aren't.
    `other_processes`: processes of others that compute on it. Clocks in MHz; 0 and "" if unknown."""

    driver: str = ""
    sm_mhz: int = 0
    memory_mhz: int = 0
    throttled: str = ""
    other_processes: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """Time of a code on a GPU in microseconds, with cold caches, and the GPU's state after it."""

    gpu: str
    code: str
    cold: float
    state: DeviceState


def left_out(samples: Sequence[Sample]) -> dict[str, str]:
    """GPUs whose times don't count, with the reason: throttled, shared, or off the median of all."""
    reasons: dict[str, str] = {}
    for sample in samples:
        if sample.state.throttled:
            reasons.setdefault(sample.gpu, f"its clocks are held back: {sample.state.throttled}")
        elif count := sample.state.other_processes:
            reasons.setdefault(sample.gpu, f"it is shared: {count} other process{'es' * (count > 1)}")
    sound = [sample for sample in samples if sample.gpu not in reasons]
    gpus = {sample.gpu for sample in sound}
    for times in _times_by_code(sound).values():
        if len(times) < 2 or 2 * len(times) < len(gpus):
            continue
        usual = median_low(times.values())  # of two GPUs the faster one
        for gpu, time in times.items():
            deviation = time / usual - 1
            if abs(deviation) > MAX_DEVIATION:
                speed = "slower" if deviation > 0 else "faster"
                reasons.setdefault(gpu, f"it is {abs(deviation):.1%} {speed} than the median of {len(times)} GPUs")
    return reasons


def _times_by_code(samples: Iterable[Sample]) -> Mapping[str, Mapping[str, float]]:
    """Median of the latest times, by code and GPU."""
    times: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        times[sample.code][sample.gpu].append(sample.cold)
    return {code: {gpu: median(taken[-_LATEST:]) for gpu, taken in by_gpu.items()} for code, by_gpu in times.items()}
