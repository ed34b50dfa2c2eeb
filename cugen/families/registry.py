"""Discovers the families: `FAMILY` of each package's `family.py` and of the modules in this package."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

import cugen.families
from cugen.families.base import Family
from cugen.plan.request import Request


@cache
def families() -> tuple[Family, ...]:
    """All families by rank, highest first; of equal ranks, by module name."""
    prefix = f"{cugen.families.__name__}."
    modules = pkgutil.walk_packages(cugen.families.__path__, prefix)
    names = sorted(m.name for m in modules if m.name.endswith(".family") or m.name.count(".") == prefix.count("."))
    registered = [importlib.import_module(name) for name in names if name != __name__]
    return tuple(sorted((m.FAMILY for m in registered if hasattr(m, "FAMILY")), key=lambda family: -family.rank))


def first_family(request: Request) -> Family | None:
    """The first family that takes a request."""
    return next((family for family in families() if family.takes(request)), None)


def is_specialised(request: Request) -> bool:
    """Whether the first family that takes a request is none of the general ones."""
    family = first_family(request)
    return family is not None and not family.is_general


def first_family_name(request: Request) -> str:
    """The name of the first family that takes a request; empty if none does."""
    family = first_family(request)
    return "" if family is None else family.name
