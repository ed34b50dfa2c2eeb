"""Messages from the search to its workers; `cugen.tune.timing.worker` documents the protocol."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cugen.spec.model import Spec
    from cugen.tune.timing.prepare import Prepared

NEVER = 1e9  # time ratio that no candidate exceeds
Message = dict[str, Any]
READY: Message = {"ready": True}  # asks for what needs no GPU


def purpose(message: Message) -> str:
    """What a message is for: "opening", "timing" or "finals"."""
    if not message.get("time"):
        return "opening"
    return "finals" if message["hopeless"] == NEVER else "timing"


def code(number: int, prepared: Prepared) -> Message:
    """Code of a candidate."""
    return {"number": number, "source": prepared.source, "manifest": prepared.manifest}


def opening(spec: Spec, params: Mapping[str, int], seed: int, untuned: Message) -> Message:
    """First message to a worker: the spec, and the code whose results are the reference for bitwise comparison."""
    packed = base64.b64encode(pickle.dumps(spec)).decode()
    return {"open": packed, "dynamic": dict(params), "seed": seed, "untuned": untuned}


def request(codes: Sequence[Message], *, samples: int, budget_us: float, hopeless: float = NEVER) -> Message:
    """Request for times. The first code is given up if it takes more than `hopeless` times as long as the last."""
    return {"time": list(codes), "samples": samples, "budget_us": budget_us, "hopeless": hopeless}
