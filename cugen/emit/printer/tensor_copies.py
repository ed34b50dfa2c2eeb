"""Operands of the inline PTX that copies boxes of tensor maps (TMA), for its functions' templates."""

from __future__ import annotations

import re
from typing import Any

from cugen.machine.target import MAX_TENSOR_DIMENSIONS

_COPY = re.compile(rf"tma_(load|store)_([2-{MAX_TENSOR_DIMENSIONS}])d(_multicast)?")
_COORDINATES = "xyzuv"  # the contiguous dimension first
_FIRST_OPERAND = {"load": 3, "store": 2}  # after addresses and the barrier
_SHORT_RANK = 3  # up to which a load's instruction fits one line


def tensor_copy_of(name: str) -> tuple[str, dict[str, Any]] | None:
    """The template of a function that copies boxes, and its variables; None for other functions."""
    match = _COPY.fullmatch(name)
    if match is None:
        return None
    kind, rank, multicast = match[1], int(match[2]), match[3] or ""
    operands = (f"%{_FIRST_OPERAND[kind] + d}" for d in range(rank))
    names = _COORDINATES[:rank]
    variables = {
        "rank": rank,
        "parameters": ", ".join(f"int {name}" for name in names),
        "coordinates": ", ".join(f'"r"({name})' for name in names),
        "box": f"{{{', '.join(operands)}}}",
        "blocks": f"%{_FIRST_OPERAND[kind] + rank}",
        "is_long": rank > _SHORT_RANK,
    }
    return f"tma_{kind}{multicast}", variables
