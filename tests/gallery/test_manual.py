"""The manual says what is so: its tables are those of the code."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import cugen
from cugen.spec.parse import keys
from cugen.spec.resolve.calls.functions import FUNCTIONS
from cugen.spec.types import DTYPES, promote

Part = Callable[[Path, str, str], None]
ROOT = Path(__file__).parents[2]
MANUAL = ROOT / "docs" / "spec.md"
EXAMPLES = re.findall(r"^```yaml[^\n]*\n(cugen:.*?)^```", MANUAL.read_text(), re.DOTALL | re.MULTILINE)
HEADINGS = {
    "elementwise": "of each element",
    "special": "special",
    "reduction": "reductions",
    "scan": "scans",
    "softmax": "along an index of the left",
}


def _functions() -> str:
    rows = ["| kind | calls |", "|---|---|"]
    for group, heading in HEADINGS.items():
        usages = [f"`{f.usage}`" for f in FUNCTIONS.values() if f.group == group]
        rows.append(f"| {heading} | {' '.join(usages)} |")
    rows += ["", "| call | expansion |", "|---|---|"]
    rows += [f"| `{f.usage}` | `{f.expansion}` |" for f in FUNCTIONS.values() if f.group == "expansion"]
    return "\n".join(rows) + "\n"


def test_the_table_of_functions_is_that_of_the_code(golden_part: Part) -> None:
    golden_part(MANUAL, "functions", _functions())


def _promotion() -> str:
    short = {name: name.replace("float", "f").replace("uint", "u").replace("int", "i") for name in DTYPES}
    short |= {"bfloat16": "bf16", "float8_e4m3": "e4m3", "float8_e5m2": "e5m2"}
    rows = [f"| | {' | '.join(short.values())} |", "|---" * (len(DTYPES) + 1) + "|"]
    for a in DTYPES.values():
        rows.append(f"| **{short[a.name]}** | {' | '.join(short[promote(a, b).name] for b in DTYPES.values())} |")
    return "\n".join(rows) + "\n"


def test_the_table_of_promotion_is_that_of_the_code(golden_part: Part) -> None:
    golden_part(MANUAL, "promotion", _promotion())


@pytest.mark.parametrize(
    "known",
    [
        keys.TOP_KEYS,
        keys.ARRAY_KEYS,
        keys.MEMORY_KEYS,
        keys.SCALAR_KEYS,
        keys.DYNAMIC_KEYS,
        keys.SCHEDULE_KEYS,
        keys.CHECK_KEYS,
        keys.SPACES,
        keys.LAYOUTS,
        keys.BOUNDARIES,
        keys.DTYPE_NAMES,
    ],
    ids=lambda known: known[0],
)
def test_the_manual_names_every_key_and_word(known: tuple[str, ...]) -> None:
    code = " ".join(re.findall(r"`([^`\n]+)`", MANUAL.read_text())) + " ".join(EXAMPLES)
    assert [word for word in known if not re.search(rf"\b{word}\b", code)] == []


def _codes() -> dict[str, str]:
    """Every diagnostic with its title, from all tables `CODES` of the package."""
    codes: dict[str, str] = {}
    for module in pkgutil.walk_packages(cugen.__path__, "cugen."):
        if "codes" in module.name.rsplit(".", 1)[1]:
            codes |= importlib.import_module(module.name).CODES
    return dict(sorted(codes.items()))


def test_the_list_of_diagnostics_is_that_of_the_code(golden_part: Part) -> None:
    rows = ["| code | what it says |", "|---|---|"]
    rows += [
        f"| [{code}](../cugen/explain/{code}.md) | {title[0].upper()}{title[1:]} |" for code, title in _codes().items()
    ]
    golden_part(ROOT / "docs" / "diagnostics.md", "codes", "\n".join(rows) + "\n")


def test_each_diagnostic_that_the_list_links_to_has_a_page() -> None:
    pages = {path.stem for path in (ROOT / "cugen" / "explain").glob("CG*.md")}
    assert set(_codes()) <= pages
