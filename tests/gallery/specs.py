"""The specs of `specs/`, loaded once."""

from __future__ import annotations

from functools import cache

from cugen.emit.resources import data_folder
from cugen.spec.load import load_all
from cugen.spec.model import Spec


@cache
def gallery() -> dict[str, Spec]:
    """Every spec by the name of its kernel."""
    return {spec.kernel: spec for path in sorted(data_folder("specs").glob("*.yaml")) for spec in load_all(path)}
