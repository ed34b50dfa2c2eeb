"""Names, types, extents and bounds: syntax trees -> the typed trees that every later room reads."""

from __future__ import annotations

from cugen.spec.baked_numbers import resolve_number
from cugen.spec.param_expressions import holds, resolve_condition, resolve_integer

__all__ = ["holds", "resolve_condition", "resolve_integer", "resolve_number"]
