"""One document: every key is checked, and one run reports all errors without consequential ones."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.spec.diagnostics import SpecError
from cugen.spec.expressions import Reduce, walk
from cugen.spec.load import load_text
from cugen.spec.model import Precision, Spec, canonical
from tests.drawn import examples

SAMPLE = """\
cugen: 1
kernel: matmul_tiled
doc: C = A·B; tiles of A and B are staged through shared memory
target: sm_90
params: {M: 1000, K: 513, N: 777}
arrays:
  A: {shape: [M, K], dtype: float32, memory: {space: shared, pad: 1}}
  B: {shape: [K, N], dtype: float32, memory: shared}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule:
  block: {m: 16, n: 16}
  thread: {m: 1, n: 1}
  step: {k: 16}
check: {bank_conflicts: 1, sectors: 1.25}
"""


def outcome(text: str) -> list[object]:
    """The canonical specs of a text, or its rendered diagnostics; any other exception is a bug."""
    try:
        return [canonical(spec) for spec in load_text(text)]
    except SpecError as error:
        return [d.render() for d in error.diagnostics]


def test_the_sample_of_the_manual_becomes_a_spec(load_one: Callable[[str], Spec]) -> None:
    spec = load_one(SAMPLE)
    assert (spec.kernel, spec.target) == ("matmul_tiled", "sm_90")
    assert [(p.name, p.value) for p in spec.params] == [("M", 1000), ("K", 513), ("N", 777)]
    assert [(a.name, a.role, a.memory.space, a.memory.pad) for a in spec.arrays] == [
        ("A", "input", "shared", 1),
        ("B", "input", "shared", 0),
        ("C", "output", None, 0),
    ]
    ((name, schedule),) = spec.schedules
    assert name == ""
    assert (schedule.block, schedule.thread, schedule.step) == (
        (("m", 16), ("n", 16)),
        (("m", 1), ("n", 1)),
        (("k", 16),),
    )
    assert schedule.span_of("step.k").line == 14
    assert (spec.check.bank_conflicts, spec.check.sectors, spec.check.allow_unknown) == (1.0, 1.25, False)


def test_all_diagnostics_of_a_document_come_in_one_run(diagnose: Callable[..., Any]) -> None:
    text = """\
cugen: 3
kernel: static
target: sm_1
colour: red
params: {M: 2.5, inf: 3}
arrays:
  A: {shape: [0], dtype: flaot32, memory: {space: globl, pad: -1}, boundary: {value: x}}
  B: {shape: [4], dtype: int8, values: [1, 2, 3, 400]}
compute: C[m = 1
schedule: {block: 4}
check: {occupancy: 2}
"""
    diagnostics = [(d.code, d.span.line) for d in diagnose(text)]
    assert diagnostics == [
        ("CG1012", 1),
        ("CG1016", 2),
        ("CG1049", 3),
        ("CG1014", 4),
        ("CG1015", 5),
        ("CG1017", 5),
        ("CG1026", 7),
        ("CG1028", 7),
        ("CG2001", 7),
        ("CG1029", 7),
        ("CG1015", 7),
        ("CG1031", 8),
        *[f for f in diagnostics if f[1] == 9],
        ("CG1015", 10),
        ("CG1029", 11),
    ]
    assert len([f for f in diagnostics if f[1] == 9]) == 1


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # uses of a rejected param, array or index aren't reported
        pytest.param(
            "params: {N: [1]}\narrays:\n  x: {shape: [N * 2], dtype: int8}\n  y: {shape: [N], dtype: int8}\n",
            "CG1015",
            id="list for a param",
        ),
        pytest.param(
            "params: {N: 1.5, K: N + 1}\narrays:\n  x: {shape: [K], dtype: int8}\n  y: {shape: [N], dtype: int8}\n",
            "CG1015",
            id="fraction for a param",
        ),
        pytest.param(
            "arrays:\n  x: {shape: [8], dtype: []}\n  y: {shape: [8], dtype: int8}\n", "CG1015", id="list for a dtype"
        ),
        pytest.param(
            "arrays:\n  x: {shape: [8], dtype: in8}\n  y: {shape: [8], dtype: int8}\n", "CG1028", id="misspelt dtype"
        ),
        pytest.param("arrays: []\n", "CG1015", id="list for arrays"),
        pytest.param("arrays: {}\n", "CG1015", id="no arrays"),
        pytest.param(
            "params: {N: 0}\narrays:\n  x: {shape: [N], dtype: int8}\n  y: {shape: [8], dtype: int8}\n",
            "CG1026",
            id="param of 0",
        ),
    ],
)
def test_a_diagnostic_has_no_consequences(diagnose: Callable[..., Any], text: str, code: str) -> None:
    diagnostics = diagnose(f"cugen: 1\nkernel: k\n{text}compute: y[i] = x[i] + 0\n")
    assert [d.code for d in diagnostics] == [code]


def test_every_diagnostic_has_a_span_a_label_a_key_and_help(diagnose: Callable[..., Any]) -> None:
    for line in SAMPLE.splitlines():
        for damaged in (SAMPLE.replace(line, line + " ]"), SAMPLE.replace(line, line.split(":")[0] + ": {zz: 1}")):
            for d in diagnose(damaged):
                assert d.help, d
                if d.code.startswith("CG10") and d.code != "CG1005":
                    assert d.span.line
                    assert d.label
                    assert d.key


@pytest.mark.parametrize(
    ("value", "problem"),
    [("true", "CG1012"), ("1.0", "CG1012"), ("'1'", "CG1012"), ("2", "CG1012"), ("", "CG1012"), ("[1]", "CG1012")],
)
def test_the_version_is_the_integer_one(diagnose: Callable[..., Any], spec_text: Any, value: str, problem: str) -> None:
    assert [d.code for d in diagnose(spec_text(cugen=value))] == [problem]


@pytest.mark.parametrize("key", ["cugen", "kernel", "arrays", "compute"])
def test_each_required_key_is_missed(diagnose: Callable[..., Any], spec_text: Any, key: str) -> None:
    text = spec_text().replace(f"{key}:", f"x-{key}:")
    diagnostics = diagnose(text)
    assert {d.code for d in diagnostics} == {"CG1013", "CG1014"}
    assert f"the key `{key}` is missing" in [d.message for d in diagnostics]


@pytest.mark.parametrize(
    "name", ["2x", "a-b", "ä", "while", "main", "_x", "a__b", "threadIdx", "expf" * 30, "''", "template"]
)
def test_names_that_no_kernel_can_have(diagnose: Callable[..., Any], spec_text: Any, name: str) -> None:
    assert [d.code for d in diagnose(spec_text(kernel=name))] == ["CG1016"]


@pytest.mark.parametrize("name", ["pi", "true", "nan", "not", "else", "a b", "ä", "1x", "x" * 101])
def test_names_that_no_array_can_have(diagnose: Callable[..., Any], spec_text: Any, name: str) -> None:
    assert [d.code for d in diagnose(spec_text(compute="y[i] = 2").replace("  x:", f"  {name}:"))] == ["CG1017"]


@pytest.mark.parametrize("name", ["gamma", "near", "near_", "int", "main", "threadIdx", "_x", "__x"])
def test_names_that_c_declares_are_fine_for_arrays(diagnose: Callable[..., Any], spec_text: Any, name: str) -> None:
    assert diagnose(spec_text(compute=f"y[i] = {name}[i]").replace("  x:", f"  {name}:")) == ()


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("sm_90", "sm_90"),
        ("9.0", "sm_90"),
        ("10.0", "sm_100"),
        ("sm_90a", "sm_90a"),
        ("sm_100a", "sm_100"),
        ("'7.5'", "sm_75"),
    ],
)
def test_a_target_has_one_name_however_it_is_written(load_one: Any, spec_text: Any, target: str, name: str) -> None:
    assert load_one(spec_text(target=target)).target == name


def test_only_a_spec_without_a_target_takes_that_of_a_device(load_one: Any, spec_text: Any) -> None:
    silent = load_one(spec_text())
    assert silent.target == "sm_90"
    assert [silent.for_device(name).target for name in ("sm_90", "sm_80", "sm_100", "")] == ["sm_90a", *["sm_90"] * 3]
    for stated in (load_one(spec_text(target="sm_90")), *load_text(spec_text(), target="sm_90")):
        assert stated == silent
        assert stated.for_device("sm_90").target == "sm_90"


@pytest.mark.parametrize("target", ["90", "sm_91", "9.1", "hopper", "[sm_90]", "", "sm_90 "])
def test_targets_outside_the_table_are_rejected(diagnose: Callable[..., Any], spec_text: Any, target: str) -> None:
    diagnostics = [d.code for d in diagnose(spec_text(target=f"'{target}'" if target == "sm_90 " else target))]
    assert diagnostics in (["CG1049"], ["CG1015"])


def test_a_param_may_use_those_above_it(load_one: Any, spec_text: Any) -> None:
    spec = load_one(spec_text(params="{N: 8, M: N * 3 - 1, K: (M + N) // 2, H: 0x10}"))
    assert [p.value for p in spec.params] == [8, 23, 15, 16]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("M + 1", "CG1019"),
        ("N", "CG1019"),
        ("D * 2", "CG1055"),
        ("2.5", "CG1015"),
        ("true", "CG1015"),
        ("", "CG1015"),
        ("[8]", "CG1015"),
        ("9223372036854775808", "CG1020"),
        ("4294967296 * 4294967296", "CG1020"),
        ("{}", "CG1015"),
        ("{range: [8, 1]}", "CG1021"),
        ("{range: [1, 7], multiple_of: 8}", "CG1021"),
        ("{range: [-1, 7]}", "CG1029"),
        ("{range: [1]}", "CG1015"),
        ("{multiple_of: 0}", "CG1029"),
        ("{range: [8, 64], default: 65}", "CG1056"),
        ("{multiple_of: 8, default: 12}", "CG1056"),
        ("{default: -1}", "CG1029"),
        ("{default: two}", "CG1015"),
        ("{rang: [1, 7]}", "CG1014"),
    ],
)
def test_params_that_are_rejected(diagnose: Callable[..., Any], spec_text: Any, value: str, code: str) -> None:
    assert [d.code for d in diagnose(spec_text(params=f"{{D: dynamic, N: {value}, M: 2}}"))] == [code]


def test_dynamic_params_keep_their_range(load_one: Any, spec_text: Any) -> None:
    spec = load_one(
        spec_text(params="{A: dynamic, B: {range: [1, 64]}, C: {multiple_of: 8}, D: {range: [8, 64], multiple_of: 8}}")
    )
    assert [(p.value, p.minimum, p.maximum, p.multiple_of) for p in spec.params] == [
        (None, 0, 2**31 - 1, 1),
        (None, 1, 64, 1),
        (None, 0, 2**31 - 1, 8),
        (None, 8, 64, 8),
    ]


def test_a_default_that_is_not_allowed_is_shown_where_it_is(diagnose: Callable[..., Any], spec_text: Any) -> None:
    text = spec_text(params="{N: {multiple_of: 8, default: 12}}")
    (found,) = diagnose(text)
    line = text.splitlines()[found.span.line - 1]
    assert line[found.span.column - 1 :].startswith("12")
    assert "multiple of 8" in found.help


def test_a_default_changes_the_hash_as_plans_are_made_for_it(load_one: Any, spec_text: Any) -> None:
    plain, with_default = (
        load_one(spec_text(params=f"{{N: {{multiple_of: 8{text}}}}}")) for text in ("", ", default: 16")
    )
    assert [spec.params[0].default for spec in (plain, with_default)] == [None, 16]
    assert plain.hash != with_default.hash
    assert plain != with_default


def test_scalars_are_baked_in_or_arguments(load_one: Any, spec_text: Any) -> None:
    text = spec_text(
        params="{N: 8}",
        scalars="{a: {dtype: float32, value: 1e-5}, b: {dtype: float16}, c: {dtype: int64, value: N // 3}, "
        "d: {dtype: float64, value: -inf, memory: constant}, e: {dtype: bool, value: true}}",
        compute="y[i] = a * x[i] + b + c + d + e",
    )
    assert [(s.name, s.value, s.constant) for s in load_one(text).scalars] == [
        ("a", 1e-5, False),
        ("b", None, False),
        ("c", 2, False),
        ("d", float("-inf"), True),
        ("e", True, False),
    ]


@pytest.mark.parametrize(
    ("scalar", "code"),
    [
        ("{value: 1}", "CG1013"),
        ("{dtype: int8, value: 128}", "CG1031"),
        ("{dtype: int8, value: 1.0}", "CG1031"),
        ("{dtype: float16, value: 70000}", "CG1031"),
        ("{dtype: float32, value: true}", "CG1031"),
        ("{dtype: float32, memory: shared}", "CG1052"),
        ("{dtype: float32, value: [1]}", "CG1015"),
        ("{dtype: float33}", "CG1028"),
        ("3", "CG1015"),
    ],
)
def test_scalars_that_are_rejected(diagnose: Callable[..., Any], spec_text: Any, scalar: str, code: str) -> None:
    diagnostics = diagnose(spec_text(scalars=f"{{a: {scalar}}}", compute="y[i] = a * x[i]"))
    assert [d.code for d in diagnostics] == [code]


@pytest.mark.parametrize(
    ("require", "codes"),
    [
        ("[N % 4 == 0, N > 2 and N < 100]", []),
        ("[N % 3 == 0]", ["CG1024"]),
        ("[D % 3 == 0]", []),
        ("N == 8", ["CG1015"]),
        ("[8]", ["CG1015"]),
    ],
)
def test_requirements_are_checked_where_values_are_known(
    diagnose: Callable[..., Any], spec_text: Any, require: str, codes: list[str]
) -> None:
    diagnostics = diagnose(spec_text(params="{N: 8, D: dynamic}", require=require))
    assert [d.code for d in diagnostics] == codes
    assert all("N = 8" in d.notes for d in diagnostics if d.code == "CG1024")


@pytest.mark.parametrize(
    "key", ["doc: [1]", "doc: 5", "accumulate: float16", "accumulate: 5", "indices: [g]", "indices: {g: 0}"]
)
def test_other_keys_that_are_rejected(diagnose: Callable[..., Any], spec_text: Any, key: str) -> None:
    assert len(diagnose(spec_text() + key + "\n")) == 1


@pytest.mark.parametrize(
    ("value", "precision"),
    [
        ("float64", Precision()),
        ("{type: float64}", Precision()),
        ("{tf32: true}", Precision(tf32=True)),
        ("{type: float64, tf32: true, fp8: fast}", Precision(True, "fast")),
        ("{fp8: exact}", Precision()),
        ("{}", Precision()),
    ],
)
def test_accumulate_is_a_type_or_a_mapping_with_precisions(
    load_one: Any, spec_text: Any, value: str, precision: Precision
) -> None:
    spec = load_one(spec_text(compute="y[i] = sum(x[j], j)") + f"accumulate: {value}\n")
    (reduction,) = (node for node in walk(spec.statements[0].value) if isinstance(node, Reduce))
    assert reduction.dtype.name == ("float64" if "float64" in value else "float32")
    assert spec.precision == precision


def test_precisions_count_for_the_hash_only_where_they_are_set(load_one: Any, spec_text: Any) -> None:
    values = ("", "accumulate: {}", "accumulate: {tf32: false, fp8: exact, winograd: false}")
    lowered = ("accumulate: {tf32: true}", "accumulate: {winograd: true}")
    plain, *defaults = (load_one(spec_text() + value + "\n").hash for value in values)
    assert set(defaults) == {plain}
    assert len({plain, *(load_one(spec_text() + value + "\n").hash for value in lowered)}) == 3


@pytest.mark.parametrize(
    ("value", "code", "help"),
    [
        ("{typ: float32}", "CG1014", "did you mean `type`?"),
        ("{type: float16}", "CG1052", "did you mean `float64`?"),
        ("{tf32: yes}", "CG1015", "write `true` or `false`"),
        ("{fp8: fats}", "CG1052", "did you mean `fast`?"),
        ("{order: serial}", "CG1057", "known are type, tf32, fp8, winograd"),
        ("{winograd: yes}", "CG1015", "write `true` or `false`"),
        ("[float32]", "CG1015", "or a mapping with type, tf32, fp8, winograd"),
        ("null", "CG1015", "or a mapping with type, tf32, fp8, winograd"),
        ("", "CG1015", "or a mapping with type, tf32, fp8, winograd"),
    ],
)
def test_accumulate_that_is_rejected(
    diagnose: Callable[..., Any], spec_text: Any, value: str, code: str, help: str
) -> None:
    (diagnostic,) = diagnose(spec_text() + f"accumulate: {value}\n")
    assert diagnostic.code == code
    assert help in diagnostic.help


def test_compute_may_be_one_statement_a_list_or_a_block(load_one: Any, spec_text: Any) -> None:
    forms = [
        "\n  - t[i] = x[i] + 1\n  - y[i] = 2 * t[i]",
        "|\n  t[i] = x[i] + 1   # more\n\n  y[i] = 2 * t[i]",
        "['t[i] = x[i] + 1', 'y[i] = 2 * t[i]']",
    ]
    specs = [load_one(spec_text(compute=form)) for form in forms]
    assert [len(spec.statements) for spec in specs] == [2, 2, 2]
    assert len({spec.hash for spec in specs}) == 1


def test_an_error_in_a_block_points_at_its_line_and_column(diagnose: Callable[..., Any], spec_text: Any) -> None:
    (diagnostic,) = diagnose(spec_text(compute="|\n  # twice\n  y[i] = 2 * z[i]"))
    line = spec_text(compute="|\n  # twice\n  y[i] = 2 * z[i]").splitlines()[diagnostic.span.line - 1]
    assert line[diagnostic.span.column - 1] == "z"


_MARKS = [
    "",
    " ",
    "\n",
    ":",
    "[",
    "]",
    "{",
    "}",
    "-",
    "#",
    "'",
    '"',
    "*",
    "&a",
    "!",
    "|",
    "0",
    "-1",
    "1e999",
    "x",
    "$x",
    "\t",
]


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, len(SAMPLE)), st.integers(0, 12), st.lists(st.sampled_from(_MARKS), max_size=4).map("".join))
def test_a_damaged_spec_is_a_spec_or_a_diagnostic(offset: int, length: int, insert: str) -> None:
    text = SAMPLE[:offset] + insert + SAMPLE[offset + length :]
    assert outcome(text)


_NODES = st.recursive(
    st.sampled_from(
        ["1", "0", "-3", "1.5", "x", "M", "M * 2", "dynamic", "shared", "float32", "true", "~", "''", "zero", "row"]
    ),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(
            st.tuples(
                st.sampled_from(["shape", "dtype", "memory", "space", "pad", "value", "m", "M", "range", "align"]),
                inner,
            ),
            max_size=3,
            unique_by=lambda pair: pair[0],
        ).map(lambda pairs: "{" + ", ".join(f"{key}: {value}" for key, value in pairs) + "}")
    ),
    max_leaves=6,
)
_KEYS = [
    "params",
    "scalars",
    "arrays",
    "indices",
    "accumulate",
    "require",
    "schedule",
    "check",
    "variants",
    "compute",
    "doc",
]


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_a_spec_or_a_diagnostic(text: str) -> None:
    assert outcome(text)


@settings(max_examples=examples(200), deadline=None)
@given(st.sampled_from(_KEYS), _NODES)
def test_any_value_of_any_key_is_a_spec_or_a_diagnostic(key: str, value: str) -> None:
    lines = [
        line
        for line in SAMPLE.splitlines()
        if not line.startswith((key, "  ")) and line not in ("arrays:", "schedule:")
    ]
    arrays = (
        "" if key == "arrays" else "arrays: {A: {shape: [M, K], dtype: float32}, C: {shape: [M, M], dtype: int8}}\n"
    )
    text = "\n".join(lines) + "\n" + arrays + f"{key}: {value}\n"
    assert outcome(text)


@pytest.mark.slow
def test_ten_thousand_damaged_specs_never_raise_anything_else() -> None:
    generator = random.Random(1)
    for _ in range(10_000):
        text = SAMPLE
        for _ in range(generator.randint(1, 4)):
            offset = generator.randrange(len(text))
            text = text[:offset] + generator.choice(_MARKS) + text[offset + generator.randint(0, 8) :]
        assert outcome(text)


def test_known_choices_are_listed_in_the_plural(diagnose: Callable[..., Any], spec_text: Any) -> None:
    (found,) = diagnose(spec_text(x=", boundary: q"))
    assert found.help.startswith("known boundaries: ")


@pytest.mark.parametrize(
    ("params", "pitch", "implied"),
    [
        ("K: dynamic", "24", ["24 >= K"]),
        ("K: 20, P: dynamic", "P", ["P >= K"]),
        ("K: dynamic", "K + 3", []),
        ("K: {range: [1, 24]}", "24", []),
    ],
)
def test_a_row_that_is_longer_than_its_pitch_is_refused_at_launch(params, pitch, implied):
    (spec,) = load_text(
        f"cugen: 1\nkernel: k\nparams: {{M: 18, {params}}}\narrays:\n"
        f"  p: {{shape: [M, K], dtype: float32, pitch: {pitch}}}\n  y: {{shape: [M, K], dtype: float32}}\n"
        "compute: y[i, j] = p[i, j] * 2\n"
    )
    assert [requirement.text for requirement in spec.require] == implied
