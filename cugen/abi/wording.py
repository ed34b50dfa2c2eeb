"""What is said of a call that can't be made: one wording for Python and for the C++ launchers."""

from __future__ import annotations

import re
from collections.abc import Container

SHAPE = "`{name}` has shape {found}; the kernel was made for {wanted}"
EQUATION = "{symbols} = {wanted}"
STRIDES = "`{name}` has strides of {found} bytes; the kernel was made for {wanted}"
NULL = "`{name}` is a null pointer"
ALIGNMENT = "`{name}` begins at address {address}; the kernel needs a multiple of {alignment} bytes"
OUT_OF_RANGE = "`{name}` is {value}; the kernel was made for {low} .. {high}"
NO_MULTIPLE = "`{name}` is {value}; the kernel was made for multiples of {multiple}"
TWO_VALUES = "`{name}` is {value} in {place} and {other} in {other_place}"
DIMENSION = "dimension {dimension} of `{name}`"
REQUIREMENT = "`{condition}` doesn't hold for {values}"
OVERLAP = "`{name}` and `{other_name}` share memory, and one of them is written"
NO_VARIANT = "no variant of `{name}` was made for {values}; there are variants for {made}"
OVER_A_LIMIT = "`{name}` needs {needed}; {device} allows {has}"

_NAME = re.compile(r"[^\W\d]\w*")


def mentioned(condition: str, params: Container[str]) -> list[str]:
    """The params that a condition names, each once, in the order of their first appearance."""
    return list(dict.fromkeys(name for name in _NAME.findall(condition) if name in params))
