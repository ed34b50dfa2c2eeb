"""Files of benchmark figures: what they begin with, and their format."""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cugen
from cugen.emit.files import write_atomically

ROOT = Path(__file__).parents[2]


def command() -> str:
    """Command line of the benchmark that runs."""
    module = ".".join(Path(sys.argv[0]).resolve().relative_to(ROOT).with_suffix("").parts)
    return f"python -m {module} {' '.join(sys.argv[1:])}"


def about(device: str) -> dict[str, Any]:
    """The device, the date, the version and the command of figures."""
    today = datetime.date.today().isoformat()
    return {"device": device, "date": today, "cugen": cugen.__version__, "command": command()}


def save(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON file."""
    text = json.dumps(_rounded(content), indent=1, ensure_ascii=False)
    write_atomically(path, (text + "\n").encode())


def _rounded(value: Any) -> Any:
    """Rounds floats to six significant digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value
