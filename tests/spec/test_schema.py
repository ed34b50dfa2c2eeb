"""The JSON Schema is valid, says what the key tables say, and accepts what the loader accepts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import cugen
from cugen.spec.codes import CODES
from cugen.spec.parse import keys

PACKAGE = Path(cugen.__file__).parent
SCHEMA: dict[str, Any] = json.loads((PACKAGE / "spec" / "schema" / "cugen-spec-1.json").read_text())
DEFS = SCHEMA["$defs"]
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def enum(node: dict[str, Any]) -> tuple[str, ...]:
    return next(tuple(part["enum"]) for part in node["anyOf"] if "enum" in part)


def test_the_schema_is_valid_against_its_metaschema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (SCHEMA["properties"], keys.TOP_KEYS),
        (SCHEMA["required"], keys.REQUIRED_KEYS),
        (DEFS["param"]["anyOf"][1]["properties"], keys.DYNAMIC_KEYS),
        (DEFS["scalar"]["properties"], keys.SCALAR_KEYS),
        (DEFS["array"]["properties"], keys.ARRAY_KEYS),
        (DEFS["memory"]["properties"], keys.MEMORY_KEYS),
        (DEFS["schedule"]["properties"], keys.SCHEDULE_KEYS),
        (DEFS["check"]["properties"], keys.CHECK_KEYS),
        (SCHEMA["properties"]["accumulate"]["anyOf"][2]["properties"], keys.ACCUMULATE_KEYS),
        (enum(SCHEMA["properties"]["accumulate"]["anyOf"][2]["properties"]["fp8"]), keys.FP8_SUMS),
        (enum(DEFS["dtype"]), keys.DTYPE_NAMES),
        (enum(DEFS["space"]), keys.SPACES),
        (enum(SCHEMA["properties"]["accumulate"]), keys.ACCUMULATE_NAMES),
        (enum(DEFS["array"]["properties"]["layout"]["anyOf"][0]), keys.LAYOUTS),
        (enum(DEFS["array"]["properties"]["boundary"]["anyOf"][0]), keys.BOUNDARIES),
        (enum(DEFS["memory"]["properties"]["swizzle"]), keys.SWIZZLES),
    ],
)
def test_keys_and_words_are_those_of_the_tables(actual: Any, expected: tuple[str, ...]) -> None:
    assert tuple(actual) == expected


def test_limits_are_those_of_the_tables() -> None:
    assert DEFS["array"]["properties"]["shape"]["maxItems"] == keys.MAX_DIMENSIONS
    assert DEFS["memory"]["properties"]["pad"]["anyOf"][0]["maximum"] == keys.MAX_PAD
    assert DEFS["memory"]["properties"]["stages"]["anyOf"][0]["maximum"] == keys.MAX_STAGES
    assert DEFS["sizes"]["additionalProperties"]["anyOf"][0]["maximum"] == keys.MAX_TILE
    assert SCHEMA["properties"]["cugen"]["const"] == keys.FORMAT_VERSION


@pytest.mark.parametrize("code", CODES)
def test_the_schema_accepts_every_spec_that_fixes_a_diagnostic(code: str) -> None:
    for text in re.findall(r"```yaml\n(.*?)```", (PACKAGE / "explain" / f"{code}.md").read_text(), re.DOTALL)[1:]:
        for document in yaml.safe_load_all(text):
            VALIDATOR.validate(document)


@pytest.mark.parametrize(
    "code", ["CG1012", "CG1013", "CG1014", "CG1015", "CG1025", "CG1028", "CG1029", "CG1030", "CG2001"]
)
def test_the_schema_rejects_what_it_can_see(code: str) -> None:
    text = re.findall(r"```yaml\n(.*?)```", (PACKAGE / "explain" / f"{code}.md").read_text(), re.DOTALL)[0]
    assert not VALIDATOR.is_valid(yaml.safe_load(text))
