"""Limits of `check`: numbers in their ranges, and mappings of arrays to limits."""

from __future__ import annotations

import pytest

from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from cugen.spec.model import Check

SPEC = """\
cugen: 1
kernel: twice
params: {N: 100}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = 2 * x[i]
check: CHECK
"""


def check_of(text: str) -> Check:
    (spec,) = load_text(SPEC.replace("CHECK", text))
    return spec.check


def test_a_limit_of_an_array_goes_before_that_of_all() -> None:
    check = check_of("{sectors: {x: 2}, lanes: 0.5, doubles: 0}")
    assert (check.of_array("sectors", "x"), check.of_array("sectors", "y")) == (2, None)
    assert check.of_array("lanes", "x") == 0.5
    assert check.is_set("sectors")
    assert not check.is_set("traffic", "waves")


def test_limits_that_are_not_set_leave_the_hash_as_it_was() -> None:
    (plain,) = load_text(SPEC.replace("check: CHECK\n", ""))
    (limited,) = load_text(SPEC.replace("CHECK", "{waves: 0.5}"))
    (by_array,) = load_text(SPEC.replace("CHECK", "{sectors: {x: 1}}"))
    assert plain.hash == load_text(SPEC.replace("CHECK", "{}"))[0].hash
    assert len({plain.hash, limited.hash, by_array.hash}) == 3


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("{sectors: {z: 1}}", "CG1014", "there is no array `z` to limit"),
        ("{sectors: {x: 0.5}}", "CG1029", "`check.sectors.x` is 0.5, which is out of its range"),
        ("{lanes: 1.5}", "CG1029", "`check.lanes` is 1.5, which is out of its range"),
        ("{waves: {x: 1}}", "CG1015", "`check.waves` must be a number, not a mapping"),
        ("{doubles: 0.5}", "CG1015", "`check.doubles` must be an integer, not the number `0.5`"),
        ("{rooflines: 0.5}", "CG1014", "there is no key `rooflines` here"),
    ],
)
def test_a_wrong_limit_is_an_error_at_its_place(text: str, code: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        check_of(text)
    (diagnostic,) = refused.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == (code, message)
    assert diagnostic.span.line == 8


def test_an_array_that_is_wrong_itself_may_have_limits() -> None:
    with pytest.raises(SpecError) as refused:
        load_text(SPEC.replace("x: {shape: [N]", "x: {shape: [0]").replace("CHECK", "{sectors: {x: 1}}"))
    assert [diagnostic.code for diagnostic in refused.value.diagnostics] == ["CG1026"]
