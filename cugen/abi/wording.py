"""Texts of refused calls, shared by the Python and the C++ launchers."""

from __future__ import annotations

import re
from collections.abc import Container

SHAPE = "`{name}` has shape {actual}; the kernel was made for {expected}"
EQUATION = "{symbols} = {expected}"
STRIDES = "`{name}` has strides of {actual} bytes; the kernel was made for {expected}"
NULL = "`{name}` is a null pointer"
ALIGNMENT = "`{name}` is at address {address}; the kernel needs {alignment}-byte alignment"
OUT_OF_RANGE = "`{name}` is {value}; the kernel was made for {low} .. {high}"
NO_MULTIPLE = "`{name}` is {value}; the kernel was made for multiples of {multiple}"
TWO_VALUES = "`{name}` is {value} in {source} and {other_value} in {other_source}"
DIMENSION = "dimension {dimension} of `{name}`"
REQUIREMENT = "`{condition}` doesn't hold for {values}"
OVERLAP = "`{name}` and `{other_name}` overlap, and one of them is written"
NO_VARIANT = "`{name}` has no variant for {values}; there are variants for {sizes}"
OVER_A_LIMIT = "`{name}` needs {needed}; {device} allows {allowed}"
IN_A_MAPPING = 'an argument of that name is passed in a mapping: {{"{name}": …}}'
_KEYWORDS = ("device", "stream")  # of the calls themselves

_NAME = re.compile(r"[^\W\d]\w*")


def pass_by_name(name: str) -> str:
    """The cure for a missing argument of a Python call."""
    return IN_A_MAPPING.format(name=name) if name in _KEYWORDS else f"pass it by name: {name}=…"


def mentioned(condition: str, params: Container[str]) -> list[str]:
    """Params named in a condition, without repetitions, in the order of their first appearance."""
    return list(dict.fromkeys(name for name in _NAME.findall(condition) if name in params))
