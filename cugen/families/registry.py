"""Finds the families: every module of this package that defines `FAMILY`. Adding one changes nothing here."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import cugen.families
from cugen.families.base import Family


@cache
def families() -> tuple[Family, ...]:
    """All families, the most special first."""
    names = sorted(module.name for module in pkgutil.iter_modules(cugen.families.__path__))
    modules = [importlib.import_module(f"cugen.families.{name}") for name in names if name != "registry"]
    found = [module.FAMILY for module in modules if hasattr(module, "FAMILY")]
    return tuple(sorted(found, key=lambda family: -family.rank))
