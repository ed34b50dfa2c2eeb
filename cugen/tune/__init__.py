"""Schedule search: `search` finds the fastest schedule of a spec, `update` writes it into a lock file.

Names are imported lazily, since workers and readers of lock files need few of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cugen.tune.lockfile import update as update
    from cugen.tune.tuner import Options as Options
    from cugen.tune.tuner import Outcome as Outcome
    from cugen.tune.tuner import TuneError as TuneError
    from cugen.tune.tuner import search as search

_HOMES = {
    "Options": "cugen.tune.tuner",
    "Outcome": "cugen.tune.tuner",
    "TuneError": "cugen.tune.tuner",
    "search": "cugen.tune.tuner",
    "update": "cugen.tune.lockfile",
}

__all__ = ["Options", "Outcome", "TuneError", "search", "update"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'cugen.tune' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
