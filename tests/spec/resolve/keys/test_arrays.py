"""Arrays: shapes, strides, boundaries and memory spaces."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.spec.diagnostics import SpecError
from cugen.spec.expressions import Boundary
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.spec.prove.integers import evaluate
from tests.drawn import examples

Diagnose = Callable[..., Any]


def matrix(extra: str = "", shape: str = "[4, 6]", params: str = "{}") -> str:
    """A copy of a float32 matrix; `extra` is appended to the keys of the source."""
    return (
        f"cugen: 1\nkernel: copy\nparams: {params}\narrays:\n  x: {{shape: {shape}, dtype: float32{extra}}}\n"
        "  y: {shape: [4, 6], dtype: float32}\ncompute: y[i, j] = x[i, j]\n"
    )


def strides(spec: Spec) -> list[int]:
    values = {p.name: 6 if p.value is None else p.value for p in spec.params}
    return [evaluate(stride, values) for stride in spec.array("x").strides]


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("", [6, 1]),
        (", layout: row", [6, 1]),
        (", layout: column", [1, 4]),
        (", layout: {strides: [8, 1]}", [8, 1]),
        (", layout: {strides: [2, 8]}", [2, 8]),
        (", layout: {strides: [N + 2, 1]}", [8, 1]),
        (", pitch: 7", [7, 1]),
        (", pitch: N + 4", [10, 1]),
        (", pitch: 5, layout: column", [1, 5]),
        (", pitch: {align: 32}", [8, 1]),
        (", pitch: {align: 4}", [6, 1]),
        (", pitch: {align: 128}, layout: column", [1, 32]),
    ],
)
def test_strides_follow_layout_and_pitch(load_one: Callable[[str], Spec], extra: str, expected: list[int]) -> None:
    assert strides(load_one(matrix(extra, params="{N: 6}"))) == expected


@pytest.mark.parametrize(
    ("extra", "expected"), [("", [6, 1]), (", pitch: {align: 32}", [8, 1]), (", layout: column", [1, 4])]
)
def test_strides_of_a_dynamic_shape_are_expressions(
    load_one: Callable[[str], Spec], extra: str, expected: list[int]
) -> None:
    text = matrix(extra, shape="[4, N]", params="{N: dynamic}").replace("y: {shape: [4, 6]", "y: {shape: [4, N]")
    assert strides(load_one(text)) == expected


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        (", layout: {strides: [4, 1]}", "CG1038"),
        (", layout: {strides: [1, 1]}", "CG1038"),
        (", layout: {strides: [6, 0]}", "CG1037"),
        (", layout: {strides: [-6, 1]}", "CG1037"),
        (", layout: {strides: [6]}", "CG1037"),
        (", layout: {strides: 6}", "CG1015"),
        (", layout: {}", "CG1013"),
        (", layout: fortran", "CG1037"),
        (", layout: {strides: [6, 1]}, pitch: 6", "CG1039"),
        (", layout: {strides: [281474976710656, 1]}", "CG1027"),
        (", pitch: 5", "CG1039"),
        (", pitch: 0", "CG1039"),
        (", pitch: 1.5", "CG1015"),
        (", pitch: {align: 2}", "CG1040"),
        (", pitch: {align: 96}", "CG1040"),
        (", pitch: {align: 0}", "CG1029"),
        (", pitch: {to: 128}", "CG1013"),
        (", pitch: 8, memory: constant", "CG2006"),
        (", pitch: 8, memory: register", "CG2006"),
        (", boundary: mirror", "CG1030"),
        (", boundary: {value: 1e39}", "CG1031"),
        (", boundary: {value: true}", "CG1031"),
        (", boundary: {value: [1]}", "CG1015"),
        (", boundary: {values: 1}", "CG1013"),
        (", boundary:", "CG1015"),
        (", memory: {pad: 1}", "CG1013"),
        (", memory: {space: shared, swizzle: true}", "CG1052"),
        (", memory: {space: shared, pad: 1025}", "CG1029"),
        (", memory: {space: shared, stages: 9}", "CG1029"),
        (", memory: {space: shared, dynamic: 1}", "CG1015"),
        (", memory: {space: shared, pad: 1, swizzle: xor}", "CG2003"),
        (", memory: {space: global, stages: 2}", "CG2002"),
        (", memory: [shared]", "CG1015"),
        (", memory: textures", "CG2001"),
    ],
)
def test_keys_of_an_array_that_are_rejected(diagnose: Diagnose, extra: str, code: str) -> None:
    actual = diagnose(matrix(extra))
    assert code in {d.code for d in actual}
    assert {d.code for d in actual} <= {code, "CG1014"}
    assert all(d.span.line == 5 for d in actual)


@pytest.mark.parametrize("form", ["{}", "{{space: {}}}"])
@pytest.mark.parametrize(
    ("word", "instead"), [("device", "`scratch` memory"), ("local", "`register` is"), ("surface", "`global` memory")]
)
def test_a_word_of_cuda_that_is_no_placement_has_what_takes_its_place(
    diagnose: Diagnose, form: str, word: str, instead: str
) -> None:
    (diagnostic,) = diagnose(matrix(f", memory: {form.format(word)}"))
    assert diagnostic.code == "CG2001"
    assert instead in diagnostic.help


@pytest.mark.parametrize(
    ("shape", "code"),
    [
        ("[0, 6]", "CG1026"),
        ("[4, N - 9]", "CG1026"),
        ("[4, 7 // 0]", None),
        ("4", "CG1015"),
        ("[4, ~]", "CG1015"),
        ("[4, [6]]", "CG1015"),
        ("[4, 1.0]", "CG1015"),
        ("[1, 1, 1, 1, 1, 1, 1, 1, 1]", "CG1025"),
        ("[16777216, 16777217]", "CG1027"),
    ],
)
def test_shapes_that_are_rejected(diagnose: Diagnose, shape: str, code: str | None) -> None:
    actual = [d.code for d in diagnose(matrix(shape=shape, params="{N: 6}"))]
    assert len(actual) == 1
    assert code is None or actual == [code]


@pytest.mark.parametrize(
    ("dtype", "boundary", "expected"),
    [
        ("float32", "clamp", Boundary("clamp")),
        ("float32", "{value: -inf}", Boundary("value", float("-inf"))),
        ("float32", "{value: -.inf}", Boundary("value", float("-inf"))),
        ("float32", "{value: 3}", Boundary("value", 3.0)),
        ("float32", "{value: 0}", Boundary("zero")),
        ("float32", "{value: -0.0}", Boundary("value", -0.0)),
        ("bool", "{value: false}", Boundary("zero")),
        ("int8", "{value: -128}", Boundary("value", -128)),
        ("bool", "{value: true}", Boundary("value", True)),
    ],
)
def test_boundaries_take_the_type_of_the_array(
    load_one: Callable[[str], Spec], dtype: str, boundary: str, expected: Boundary
) -> None:
    text = matrix(f", boundary: {boundary}").replace("float32", dtype)
    actual = load_one(text).array("x").boundary
    assert actual == expected
    assert actual is not None
    assert type(actual.value) is type(expected.value)


@pytest.mark.parametrize(
    ("sizes", "refused"), [([16384], []), ([16385], ["w0"]), ([10000, 10000], ["w1"]), ([10000, 20000, 6384], ["w1"])]
)
def test_constant_arrays_share_64_kilobytes(diagnose: Diagnose, sizes: list[int], refused: list[str]) -> None:
    arrays = "".join(f"  w{n}: {{shape: [{size}], dtype: float32, memory: constant}}\n" for n, size in enumerate(sizes))
    terms = " + ".join(f"w{n}[i]" for n in range(len(sizes)))
    arrays += "  y: {shape: [8], dtype: float32}\n"
    text = f"cugen: 1\nkernel: k\narrays:\n{arrays}indices: {{i: 8}}\ncompute: y[i] = {terms}\n"
    assert [(d.code, d.key) for d in diagnose(text)] == [("CG2004", f"arrays.{name}.memory") for name in refused]


def test_constant_scalars_take_their_part(diagnose: Diagnose) -> None:
    text = (
        "cugen: 1\nkernel: k\nscalars: {a: {dtype: float64, memory: constant}}\narrays:\n"
        "  w: {shape: [16383], dtype: float32, memory: constant}\n  y: {shape: [16383], dtype: float32}\n"
        "compute: y[i] = a * w[i]\n"
    )
    assert [d.code for d in diagnose(text)] == ["CG2004"]
    assert diagnose(text.replace("16383", "16382")) == ()


@pytest.mark.parametrize("space", ["managed", "mapped"])
@pytest.mark.parametrize("form", ["%s", "{space: %s}"])
def test_where_an_array_is_allocated_leaves_its_kernel_to_the_generator(space: str, form: str) -> None:
    text = matrix().replace(
        "y: {shape: [4, 6], dtype: float32", f"y: {{shape: [4, 6], dtype: float32, memory: {form % space}"
    )
    (placed,), (plain,) = load_text(text), load_text(matrix())
    memory = placed.array("y").memory
    assert (memory.space, memory.allocation) == (None, space)
    assert placed.hash != plain.hash
    assert plain.array("y").memory.allocation == "device"


@pytest.mark.parametrize("space", ["constant", "readonly", "texture"])
def test_memory_that_can_only_be_read_is_not_written(diagnose: Diagnose, space: str) -> None:
    text = matrix().replace("y: {shape: [4, 6], dtype: float32", f"y: {{shape: [4, 6], dtype: float32, memory: {space}")
    assert [d.code for d in diagnose(text)] == ["CG1219"]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 12)), min_size=1, max_size=3))
def test_accepted_strides_give_each_element_a_distinct_offset(dimensions: list[tuple[int, int]]) -> None:
    shape, steps = [n for n, _ in dimensions], [step for _, step in dimensions]
    names = "ijk"[: len(shape)]
    text = (
        f"cugen: 1\nkernel: k\narrays:\n  x: {{shape: {shape}, dtype: int8, layout: {{strides: {steps}}}}}\n"
        f"  y: {{shape: {shape}, dtype: int8}}\ncompute: y[{', '.join(names)}] = x[{', '.join(names)}]\n"
    )
    offsets = {sum(i * step for i, step in zip(offset, steps, strict=True)) for offset in product(*map(range, shape))}
    accepted = True
    try:
        load_text(text)
    except SpecError as error:
        accepted = [d.code for d in error.diagnostics] != ["CG1038"]
    assert not accepted or len(offsets) == prod(shape)
