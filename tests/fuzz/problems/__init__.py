"""Problems of many fields as a stranger may write them, at random sizes, types, layouts and boundaries.

A spec is drawn from its seed alone: `python -m tests.fuzz --of problems --seed S --count 1` repeats it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from ..drawing import BOUNDARIES, FLOATS, Drawing

_EDGES = tuple(boundary for boundary in BOUNDARIES if "value" not in boundary)


@cache
def problems() -> dict[str, Any]:
    """What is computed, by name."""
    files = sorted(Path(__file__).parent.glob("*.yaml"))
    return {name: problem for file in files for name, problem in yaml.safe_load(file.read_text()).items()}


def draw(seed: int) -> str:
    """The text of the spec of a seed."""
    return _drawing(seed).text()


def sizes(seed: int) -> dict[str, int]:
    """Values for its dynamic params."""
    return _drawing(seed).sizes_at_run_time()


def _drawing(seed: int) -> Drawing:
    d = Drawing(Random(f"problem {seed}"))
    _problem(d, problems()[d.one_of(*problems())])
    return d


def _problem(d: Drawing, problem: dict[str, Any]) -> None:
    for name, size in problem["params"].items():
        drawn = re.fullmatch(r"~(\d+)(?:\*(\d+))?", str(size))
        multiple = int(drawn[2] or 1) if drawn else 1
        d.params[name] = multiple * d.size(int(drawn[1]) // multiple) if drawn else size
    written = {re.split(r"[\[ ]", line.strip(), maxsplit=1)[0] for line in problem["compute"].splitlines()}
    new = d.one_of(*FLOATS)  # in place of all float32
    for name, keys in problem["arrays"].items():
        boundary = keys.get("boundary", "")
        if boundary in _EDGES and d.chance(50):
            boundary = d.one_of(*_EDGES)
        if isinstance(boundary, dict):
            boundary = f"{{value: {boundary['value']}}}"
        dtype = new if keys["dtype"] == "float32" else keys["dtype"]
        if values := keys.get("values"):
            shape = ", ".join(map(str, keys["shape"]))
            d.arrays.append(f"  {name}: {{shape: [{shape}], dtype: {keys['dtype']}, values: {values}}}")
        else:
            d.array(name, [str(e) for e in keys["shape"]], dtype, boundary=boundary, is_output=name in written)
    d.indices |= {name: str(extent) for name, extent in problem.get("indices", {}).items()}
    d.scalars |= problem.get("scalars", {})
    d.statements += problem["compute"].splitlines()
