"""What the search and its workers say to each other; `cugen.tune.timing.worker` documents it."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from cugen.spec.model import Spec
from cugen.tune.timing.prepare import Prepared

NEVER = 1e9  # a ratio at which nothing is hopeless
Message = dict[str, Any]


def code(number: int, prepared: Prepared) -> Message:
    """A candidate."""
    return {"number": number, "source": prepared.source, "manifest": prepared.manifest}


def opening(spec: Spec, params: Mapping[str, int], seed: int, untuned: Message) -> Message:
    """The first message: what is to be computed, and the code whose results the others are compared with."""
    packed = base64.b64encode(pickle.dumps(spec)).decode()
    return {"open": packed, "dynamic": dict(params), "seed": seed, "untuned": untuned}


def request(codes: Sequence[Message], *, samples: int, budget_us: float, hopeless: float = NEVER) -> Message:
    """Asks for times; the first is given up where it takes `hopeless` times as long as the last."""
    return {"time": list(codes), "samples": samples, "budget_us": budget_us, "hopeless": hopeless}
