"""Whether a literal fits an element type."""

from __future__ import annotations

import math

from cugen.spec.parse.nodes import YamlNode, YamlScalar
from cugen.spec.types import BOOL, DType

Number = int | float | bool

# The largest finite value of each float type.
LARGEST: dict[str, float] = {
    "float64": 1.7976931348623157e308,
    "float32": 3.4028234663852886e38,
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float8_e4m3": 448.0,
    "float8_e5m2": 57344.0,
}
_WORDS = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def literal(node: YamlNode) -> Number | None:
    """The number that a node stands for: a YAML number or boolean, or the words inf, -inf and nan."""
    if not isinstance(node, YamlScalar):
        return None
    if isinstance(node.value, bool | int | float):
        return node.value
    return _WORDS.get(node.string.strip()) if isinstance(node.value, str) else None


def misfit(value: Number, dtype: DType) -> str | None:
    """Why a value can't be an element of the type, or None where it can. Floats are rounded, never truncated."""
    if dtype == BOOL:
        return None if value is True or value is False or value in (0, 1) else "a bool is true or false"
    if isinstance(value, bool):
        return f"it is a boolean, not {'a number' if dtype.is_float else 'an integer'}"
    if dtype.is_integer:
        if not isinstance(value, int):
            return f"it isn't an integer, as {dtype} asks"
        return None if dtype.lowest <= value <= dtype.highest else f"{dtype} holds {dtype.lowest} to {dtype.highest}"
    if isinstance(value, float) and not math.isfinite(value):
        if dtype.name == "float8_e4m3" and math.isinf(value):
            return "float8_e4m3 has no infinity"
        return None
    return None if abs(value) <= LARGEST[dtype.name] else f"{dtype} holds at most {LARGEST[dtype.name]:g}"


def convert(value: Number, dtype: DType) -> Number:
    """A value that fits the type, as the Python type of its kind."""
    if dtype == BOOL:
        return bool(value)
    return float(value) if dtype.is_float else int(value)
