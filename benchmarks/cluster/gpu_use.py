"""What the GPUs of a Dask cluster were used for, and why they were idle, from the scheduler's record of tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cugen.cluster.gpu_session import answer_on_cpu, answer_on_gpu

Span = tuple[float, float]  # seconds on the scheduler's clock, to within milliseconds for any worker
_TIMING = "timing"


@dataclass(frozen=True)
class GpuUse:
    """Shares of the time of one GPU. `idle`, by reason: `process`, while one starts there or computes a reference;
    `candidates`, while the CPU workers prepare some; `messages`, while neither is so; `end`, after the last use."""

    opening: float
    timing: float
    finals: float
    idle: Mapping[str, float]

    @property
    def busy(self) -> float:
        return self.opening + self.timing + self.finals

    def content(self) -> dict[str, Any]:
        return {"opening": self.opening, _TIMING: self.timing, "finals": self.finals, "idle": dict(self.idle)}

    def __str__(self) -> str:
        shares = {"opening": self.opening, _TIMING: self.timing, "finals": self.finals}
        shares |= {f"idle ({reason})": share for reason, share in self.idle.items()}
        return f"busy {self.busy:.0%}: " + ", ".join(f"{name} {share:.0%}" for name, share in shares.items())


def uses(tasks: Sequence[Mapping[str, Any]], workers: Sequence[str], begun: float, ended: float) -> list[GpuUse]:
    """The use of each worker's GPU from `begun` to `ended`, in seconds since the epoch."""
    others = [task for task in tasks if task["worker"] not in workers]
    preparing = _merged(span for task in others for span in _spans(task, begun, ended))
    return [_use([task for task in tasks if task["worker"] == worker], preparing, begun, ended) for worker in workers]


def first_end(tasks: Sequence[Mapping[str, Any]], begun: float, ended: float, purpose: str = "") -> float:
    """Seconds until the first task ended that used a GPU, of those for a purpose. Infinite if there is none."""
    ends = (end for task in tasks if _purpose(task, purpose) for _, end in _spans(task, begun, ended))
    return min(ends, default=float("inf")) - begun


def _use(tasks: Sequence[Mapping[str, Any]], preparing: Sequence[Span], begun: float, ended: float) -> GpuUse:
    spans = sorted((*span, _purpose(task)) for task in tasks if _purpose(task) for span in _spans(task, begun, ended))
    opening = _merged(
        span
        for task in tasks
        if str(task["key"]).startswith(answer_on_cpu.__name__)
        for span in _spans(task, begun, ended)
    )
    used: defaultdict[str, float] = defaultdict(float)
    idle = dict.fromkeys(("process", "candidates", "messages", "end"), 0.0)
    last = begun
    for start, end, purpose in spans:
        if start > last:
            in_process = _common(last, start, opening)
            either = _common(last, start, _merged((*opening, *preparing)))
            idle["process"] += in_process
            idle["candidates"] += either - in_process
            idle["messages"] += start - last - either
        used[purpose] += max(0.0, end - max(start, last))
        last = max(last, end)
    idle["end"] = ended - last
    whole = ended - begun
    shares = {name: seconds / whole for name, seconds in used.items()}
    return GpuUse(
        shares.get("opening", 0.0),
        shares.get(_TIMING, 0.0),
        shares.get("finals", 0.0),
        {reason: seconds / whole for reason, seconds in idle.items()},
    )


def _purpose(task: Mapping[str, Any], of: str = "") -> str:
    """What a task used the GPU for; empty if it used none, or for another purpose."""
    name, purpose, *_ = (*str(task["key"]).split("-"), "")
    return purpose if name == answer_on_gpu.__name__ and purpose.startswith(of) else ""


def _spans(task: Mapping[str, Any], begun: float, ended: float) -> Iterable[Span]:
    """When a task was computed."""
    for part in task["startstops"]:
        start, stop = max(part["start"], begun), min(part["stop"], ended)
        if part["action"] == "compute" and start < stop:
            yield start, stop


def _merged(spans: Iterable[Span]) -> list[Span]:
    """The union, in order."""
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _common(start: float, end: float, spans: Sequence[Span]) -> float:
    """Seconds that an interval has in common with disjoint ones."""
    return sum(max(0.0, min(end, last) - max(start, first)) for first, last in spans)
