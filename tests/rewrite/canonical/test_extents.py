"""Extents of equal value have one form where an index runs along both."""

from __future__ import annotations

from cugen.rewrite.canonical.extents import with_canonical_extents
from cugen.spec.expressions import Const, Op, ParamValue, Reduce, walk
from cugen.spec.load import load_text
from cugen.spec.types import INT64


def spec_of(params: str, arrays: str, compute: str):
    lines = ["cugen: 1", "kernel: f", f"params: {params}", "arrays:"]
    for array in arrays.split("; "):
        name, shape = array.split(" ", 1)
        lines.append(f"  {name}: {{shape: {shape}, dtype: float32}}")
    (spec,) = load_text("\n".join([*lines, f"compute: {compute}"]))
    return spec


def names(spec, array: str) -> list[str]:
    return [node.name for node in spec.array(array).shape if isinstance(node, ParamValue)]


def test_a_product_becomes_the_param_of_its_value():
    spec = spec_of("{M: 4, D: 8, DO: 16}", "x [M, 2 * D]; y [M, DO]", "y[m, n] = x[m, n]")
    canonical = with_canonical_extents(spec)
    assert names(canonical, "x") == names(canonical, "y") == ["M", "DO"]
    assert canonical.array("x").strides == canonical.array("y").strides


def test_the_extents_of_reductions_follow():
    spec = spec_of("{M: 4, D: 8, E: 8}", "x [M, D]; w [E]; y [M]", "y[m] = sum(x[m, n] * w[n], n)")
    canonical = with_canonical_extents(spec)
    assert names(canonical, "w") == ["D"]
    (reduction,) = (node for node in walk(canonical.statements[0].value) if isinstance(node, Reduce))
    assert reduction.indices[0].extent == ParamValue("D")


def test_dimensions_that_no_index_has_in_common_keep_their_params():
    spec = spec_of("{M: 8, N: 8, K: 8}", "a [M, K]; b [K, N]; c [M, N]", "c[m, n] = sum(a[m, k] * b[k, n], k)")
    assert with_canonical_extents(spec) is spec


def test_a_prefix_keeps_its_own_extent():
    spec = spec_of("{M: 4, N: 8}", "x [M, 2 * N]; y [M, N]", "y[i, j] = x[i, j + N]")
    assert with_canonical_extents(spec) is spec


def test_dynamic_extents_have_one_form_where_they_are_always_equal():
    spec = spec_of("{M: dynamic, S: 2}", "x [M * S]; y [2 * M]", "y[i] = x[i]")
    canonical = with_canonical_extents(spec)
    assert canonical.array("x").shape == canonical.array("y").shape
    assert isinstance(canonical.array("x").shape[0], Op)


def test_an_extent_of_one_is_the_literal_and_no_factor_of_a_stride():
    spec = spec_of("{M: 1, K: 8}", "x [K, M]; y [M]", "y[m] = sum(x[k, m], k)")
    canonical = with_canonical_extents(spec)
    assert canonical.array("x").shape == (ParamValue("K"), Const(1, INT64))
    assert canonical.array("x").strides == (Const(1, INT64), Const(1, INT64))
    assert canonical.statements[0].indices[0].extent == Const(1, INT64)
