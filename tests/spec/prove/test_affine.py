"""Affine forms, and the trees that they stand for."""

from __future__ import annotations

from random import Random

import pytest

from cugen.spec.expressions import Const, IndexValue, Op, ParamValue
from cugen.spec.model import Param
from cugen.spec.prove.affine import affine_form, expression_of, text_of
from cugen.spec.types import INT64

PARAMS = {"N": Param("N", 12), "M": Param("M", None, multiple_of=4), "K": Param("K", None, minimum=1)}
LEAVES = (*map(IndexValue, "ij"), *map(ParamValue, PARAMS), *(Const(value, INT64) for value in (-3, 0, 1, 7)))


def drawn(source: Random, depth: int):
    if depth == 0:
        return source.choice(LEAVES)
    name = source.choice(("add", "sub", "mul", "neg", "floordiv", "mod"))
    if name == "neg":
        return Op(name, (drawn(source, depth - 1),), INT64)
    divisor = source.choice((Const(2, INT64), Const(6, INT64), ParamValue("K")))
    right = divisor if name in ("floordiv", "mod") else drawn(source, depth - 1)
    return Op(name, (drawn(source, depth - 1), right), INT64)


@pytest.mark.parametrize("seed", range(40))
def test_the_tree_of_a_form_has_that_form(seed):
    form = affine_form(drawn(Random(seed), 4), PARAMS)
    assert affine_form(expression_of(form, PARAMS), PARAMS) == form


def test_positive_terms_come_first():
    tree = Op("sub", (Const(5, INT64), Op("sub", (IndexValue("i"), IndexValue("j")), INT64)), INT64)
    assert text_of(expression_of(affine_form(tree, {}), {})) == "j - i + 5"
