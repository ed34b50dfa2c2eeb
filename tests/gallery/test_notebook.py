"""The example notebook: its cells run in order, and its text says what they show."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "transpose.ipynb"
CELLS = json.loads(NOTEBOOK.read_text())["cells"]


def run(source: str, names: dict[str, Any]) -> Any:
    """Runs a cell; returns the value of its last line, which a notebook shows."""
    tree = ast.parse(source)
    assert isinstance(tree.body[-1], ast.Expr), "the cell shows nothing"
    last = ast.Expression(tree.body.pop().value)
    exec(compile(tree, NOTEBOOK.name, "exec"), names)
    return eval(compile(last, NOTEBOOK.name, "eval"), names)


def test_the_cells_of_the_notebook_run_in_order() -> None:
    names: dict[str, Any] = {}
    codes = ["".join(cell["source"]) for cell in CELLS if cell["cell_type"] == "code"]
    kernel, report, wavefronts, result = (run(code, names) for code in codes)
    assert kernel.name == report.kernel == "turn"
    assert {name: list(costs.values()) for name, costs in wavefronts.items()} == {
        "pad: 0": [2100, 60000],
        "pad: 1": [2100, 2000],
    }
    assert np.array_equal(result["B"], names["A"].T)
    (claim,) = (access.claim for access in report.kernels[0].accesses if access.cost == 60000)
    assert claim.startswith("32 wavefronts, ideal 1")


def test_the_notebook_has_no_outputs_of_an_older_version() -> None:
    assert all(cell.get("outputs", []) == [] and cell.get("execution_count") is None for cell in CELLS)
