"""What a worker says of itself. `describe` runs on workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from cugen.abi.errors import RunError
from cugen.tune.timing import gpus
from cugen.tune.timing.gpus import Gpu
from cugen.version import __version__


@dataclass(frozen=True, slots=True)
class Description:
    """`version`: of cugen. `gpus`: visible GPUs, of GPU workers."""

    version: str
    gpus: tuple[Gpu, ...] = ()


def describe(*, has_gpu: bool) -> Description:
    """The description of this process."""
    try:
        visible = gpus.identified_gpus() if has_gpu else ()
    except RunError:
        visible = ()
    return Description(__version__, visible)


def other_versions(described: Mapping[str, Description]) -> dict[str, str]:
    """Workers with another version of cugen than this process, with that version."""
    return {worker: d.version for worker, d in described.items() if d.version != __version__}


def unusable_gpu_workers(described: Mapping[str, Description]) -> dict[str, str]:
    """GPU workers that can't time, with the reason: without a GPU, with several, or with one of another worker."""
    reasons: dict[str, str] = {}
    uses = Counter(d.gpus[0].uuid for d in described.values() if len(d.gpus) == 1)
    for worker, description in described.items():
        visible = description.gpus
        if not visible:
            reasons[worker] = "it sees no GPU"
        elif len(visible) > 1:
            reasons[worker] = f"it sees {len(visible)} GPUs: start one worker for each, with CUDA_VISIBLE_DEVICES"
        elif uses[visible[0].uuid] > 1:
            reasons[worker] = f"another worker has {visible[0].uuid} too"
    return reasons
