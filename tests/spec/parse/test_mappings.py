"""A spec as a mapping: every value keeps its meaning in the text, and what has none there is refused by its key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml

from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load
from cugen.spec.parse.mappings import yaml_of

PLAIN: dict[str, Any] = {
    "a": {"shape": ["M", 4], "deep": {"list": [1, [2.5e-7, -3]]}},
    "compute": "t[i] = x[i]\ny[i] = t[i]",
    "texts": ["12", "true", "null", "- x", "a: b", "#", "", "ä", "1e3", "trailing\n"],
    "constants": [True, None, float("inf"), 1 << 70],
}


def test_the_text_has_the_values_and_order_of_the_mapping() -> None:
    text = yaml_of(PLAIN, "<dict>")
    assert yaml.safe_load(text) == PLAIN
    assert list(yaml.safe_load(text)) == list(PLAIN)
    assert "compute: |-\n  t[i] = x[i]\n  y[i] = t[i]\n" in text


def test_names_that_are_truths_in_older_yaml_are_not_quoted() -> None:
    assert yaml_of({"y": "no", "n": "off"}, "<dict>") == "{y: no, n: off}\n"


def test_numbers_and_arrays_of_numpy_and_shared_items_are_written_out() -> None:
    shape = ("M", np.int64(3))
    text = yaml_of({"x": shape, "y": shape, "values": np.arange(4).reshape(2, 2), "a": np.float32(0.5)}, "<dict>")
    assert yaml.safe_load(text) == {"x": ["M", 3], "y": ["M", 3], "values": [[0, 1], [2, 3]], "a": 0.5}


def test_a_baked_table_is_an_array_of_numpy() -> None:
    mapping = {
        "cugen": 1,
        "kernel": "weigh",
        "params": {"N": 3},
        "arrays": {
            "w": {"shape": ["N"], "dtype": "float32", "values": np.array([1, 2, 4])},
            "y": {"shape": ["N"], "dtype": "float32"},
        },
        "compute": "y[i] = w[i]",
    }
    assert [array.values.data for array in load(mapping).arrays if array.values is not None] == [(1, 2, 4)]


def test_every_value_without_a_meaning_is_named_by_its_key() -> None:
    with pytest.raises(SpecError) as caught:
        yaml_of({"arrays": {"x": {"dtype": np.float32}}, "params": {"N": [1, {2j}]}}, "<dict>")
    refused_as = {d.key: (d.code, d.file) for d in caught.value.diagnostics}
    assert refused_as == {"arrays.x.dtype": ("CG1015", "<dict>"), "params.N[1]": ("CG1015", "<dict>")}


def test_a_mapping_inside_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    with pytest.raises(SpecError, match="CG1004"):
        yaml_of(endless, "<dict>")
