"""Modules of version 0.1 under their old names, for one more version.

Only the names that its documents mention. Python asks here last, after every other finder has failed: what is imported
under its present name pays nothing.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MODULES = {
    "cugen.families.blocks": "cugen.pieces.blocks",
    "cugen.families.kernels": "cugen.pieces.kernels",
    "cugen.families.placement": "cugen.pieces.placement",
    "cugen.families.statements": "cugen.pieces.statements",
    "cugen.run.limits": "cugen.abi.limits",
}


class _OldNames(MetaPathFinder, Loader):
    """Finds the old names; the module that it loads has everything of the new one."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MODULES else None

    def exec_module(self, module: ModuleType) -> None:
        name = MODULES[module.__name__]
        warnings.warn(f"{module.__name__} is now {name}; the old name goes with 0.3", DeprecationWarning, stacklevel=2)
        current = vars(importlib.import_module(name))
        module.__dict__.update({key: value for key, value in current.items() if not key.startswith("__")})


def install() -> None:
    """Makes the old names importable. `cugen.run` is a function: as the parent of a module it exists by name only."""
    package = ModuleType("cugen.run")
    package.__path__ = []
    sys.modules.setdefault(package.__name__, package)
    sys.meta_path.append(_OldNames())
