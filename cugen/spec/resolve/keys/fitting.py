"""Range checks of literals against element types."""

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
    """The number of a literal node: a YAML number or boolean, or inf, -inf and nan; None for other nodes."""
    if not isinstance(node, YamlScalar):
        return None
    if isinstance(node.value, bool | int | float):
        return node.value
    return _WORDS.get(node.string.strip()) if isinstance(node.value, str) else None


def misfit(value: Number, dtype: DType) -> str | None:
    """The reason why a value is out of the type's range, or None if it fits. Floats round to nearest."""
    if dtype == BOOL:
        return None if value is True or value is False or value in (0, 1) else "a bool is true or false"
    if isinstance(value, bool):
        return f"it is a boolean, not {'a number' if dtype.is_float else 'an integer'}"
    if dtype.is_integer:
        if not isinstance(value, int):
            return f"{dtype} needs an integer"
        return None if dtype.lowest <= value <= dtype.highest else f"{dtype} holds {dtype.lowest} to {dtype.highest}"
    if isinstance(value, float) and not math.isfinite(value):
        if dtype.name == "float8_e4m3" and math.isinf(value):
            return "float8_e4m3 has no infinity"
        return None
    return None if abs(value) <= LARGEST[dtype.name] else f"{dtype} holds at most {LARGEST[dtype.name]:g}"


def convert(value: Number, dtype: DType) -> Number:
    """Converts a value that fits to the Python type of the element type's kind."""
    if dtype == BOOL:
        return bool(value)
    return float(value) if dtype.is_float else int(value)
