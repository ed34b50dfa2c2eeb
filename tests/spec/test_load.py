"""Loading: files, settings, selection of a kernel, and the error with all diagnostics."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from cugen.kernel import generate
from cugen.spec.diagnostics import Diagnostic, SpecError
from cugen.spec.load import load, load_all, load_text
from cugen.spec.model import Spec
from cugen.spec.parse.mappings import yaml_of

TEXT = """\
cugen: 1
kernel: scale
params: {N: 8, M: N * 2, D: {range: [16, 64], multiple_of: 16}}
scalars: {a: {dtype: float32, value: 2}, b: {dtype: int8}}
arrays:
  x: {shape: [N, M, D], dtype: float32}
  y: {shape: [N, M, D], dtype: float32}
compute: y[i, j, k] = a * x[i, j, k] + b
require: [N % 2 == 0, D >= 2 * N]
"""
TWO = TEXT + "---\n" + TEXT.replace("kernel: scale", "kernel: other").replace("a:", "c:").replace("a *", "c *")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scale.yaml"
    path.write_text(TEXT)
    return path


def refused(call: Callable[[], Any]) -> list[tuple[str, str]]:
    with pytest.raises(SpecError) as caught:
        call()
    return [(d.code, d.key) for d in caught.value.diagnostics]


def values(spec: Spec) -> dict[str, Any]:
    return {p.name: p.value for p in spec.params} | {s.name: s.value for s in spec.scalars}


def test_a_file_gives_its_spec_and_names_itself(file: Path) -> None:
    spec = load(file)
    assert (spec.kernel, spec.file, spec.text, spec.dependencies) == ("scale", "scale.yaml", TEXT, (str(file),))
    assert load(str(file)) == spec
    assert load_all(file) == (spec,)


def test_an_empty_path_is_told_as_such() -> None:
    with pytest.raises(SpecError, match="the path of a spec is empty"):
        load("")


def test_a_finding_of_the_planner_names_the_path_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "kernels" / "scale.yaml"
    path.parent.mkdir()
    path.write_text(TEXT + "schedule: {family: scan}\n")
    with pytest.raises(SpecError) as caught:
        generate(load(path))
    assert [(d.code, d.file) for d in caught.value.diagnostics] == [("CG2102", str(path))]


def test_a_long_value_of_a_variant_is_shortened(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load_text(TEXT.replace("params:", f"variants: {{q: [{'x' * 90}]}}\nparams:").replace("N: 8", "N: Q"))
    assert {note for d in caught.value.diagnostics for note in d.notes} == {f"in the variant q = {'x' * 39}…"}


def test_a_text_of_several_lines_is_a_spec(file: Path) -> None:
    spec = load(TEXT)
    assert (spec.kernel, spec.file, spec.text, spec.dependencies) == ("scale", "<text>", TEXT, ())
    assert spec.statements == load(file).statements
    assert [s.kernel for s in load_all(TWO)] == ["scale", "other"]
    assert load(TWO, {"N": 4}, kernel="other").kernel == "other"


def test_a_text_of_one_line_is_a_path() -> None:
    assert refused(lambda: load("cugen: 1")) == [("CG1001", "")]


def test_a_mapping_is_a_spec_with_the_same_keys(file: Path) -> None:
    mapping = yaml.safe_load(TEXT)
    spec = load(mapping, {"N": 4})
    assert (spec.kernel, spec.file, values(spec)["M"]) == ("scale", "<dict>", 8)
    assert load(spec.text, {"N": 4}).statements == spec.statements == load(file, {"N": 4}).statements


def test_a_mapping_is_refused_as_a_file_of_its_text_is(tmp_path: Path) -> None:
    mapping = yaml.safe_load(TEXT.replace("int8", "int9")) | {"compute": "y[i, j, k] = z\ny[i, j, k] = x[i, j, k]"}
    path = tmp_path / "file.yaml"
    path.write_text(yaml_of(mapping, "file.yaml"))
    diagnosed: list[tuple[Diagnostic, ...]] = []
    for source in (mapping, path, path.read_text()):
        with pytest.raises(SpecError) as caught:
            load(source)
        diagnosed.append(tuple(replace(diagnostic, file="") for diagnostic in caught.value.diagnostics))
    assert diagnosed[0] == diagnosed[1] == diagnosed[2]
    assert {d.code for d in diagnosed[0]} >= {"CG1028"}
    assert all(d.span.line and d.source_line for d in diagnosed[0])


def test_a_byte_order_mark_changes_nothing(file: Path) -> None:
    spec = load(file)
    file.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert load(file) == spec
    assert load(file).text == TEXT


def test_settings_override_the_file_and_expressions_follow(file: Path) -> None:
    spec = load(file, {"N": 4, "a": 3})
    assert values(spec) == {"N": 4, "M": 8, "D": None, "a": 3.0, "b": None}
    assert type(spec.scalar("a").value) is float


def test_integers_of_numpy_may_be_set(file: Path) -> None:
    spec = load(file, {"N": np.int64(4)})
    assert spec == load(file, {"N": 4})
    assert type(spec.param("N").value) is int


def test_a_set_expression_no_longer_follows(file: Path) -> None:
    assert values(load(file, {"M": 5}))["M"] == 5


def test_what_is_known_at_launch_stays_an_argument_when_it_is_set(file: Path) -> None:
    assert load(file, {"D": 32, "b": 3}) == load(file)


@pytest.mark.parametrize(
    ("settings", "code", "key"),
    [
        ({"n": 4}, "CG1022", "--set n"),
        ({"x": 4}, "CG1022", "--set x"),
        ({"N": 2.5}, "CG1023", "params.N"),
        ({"N": True}, "CG1023", "params.N"),
        ({"N": 2**63}, "CG1023", "params.N"),
        ({"D": 80}, "CG1023", "params.D"),
        ({"D": 24}, "CG1023", "params.D"),
        ({"a": 1e39}, "CG1023", "scalars.a"),
        ({"a": True}, "CG1023", "scalars.a"),
        ({"b": 128}, "CG1023", "scalars.b"),
        ({"b": 1.0}, "CG1023", "scalars.b"),
        ({"b": "3"}, "CG1023", "scalars.b"),
        ({"N": "4"}, "CG1023", "params.N"),
        ({"N": None}, "CG1023", "params.N"),
        ({"N": np.array([1, 2])}, "CG1023", "params.N"),
        ({"N": 3}, "CG1024", "require[0]"),
        ({"N": 10, "D": 16}, "CG1024", "require[1]"),
        ({"N": -2}, "CG1026", "arrays.x.shape[0]"),
    ],
)
def test_settings_that_are_rejected(file: Path, settings: dict[str, Any], code: str, key: str) -> None:
    assert (code, key) in refused(lambda: load(file, settings))


def test_the_target_of_the_call_overrides_the_file(file: Path) -> None:
    assert load(file, target="8.0").target == "sm_80"
    assert refused(lambda: load(file, target="sm_1")) == [("CG1049", "--target")]


def test_one_of_several_kernels_must_be_chosen(file: Path) -> None:
    file.write_text(TWO)
    assert [s.kernel for s in load_all(file)] == ["scale", "other"]
    assert load(file, kernel="other").kernel == "other"
    with pytest.raises(SpecError, match="the file has 2 kernels: scale, other"):
        load(file)
    with pytest.raises(SpecError, match=r"(?s)the file has no kernel `othr`.*did you mean `other`"):
        load(file, kernel="othr")


def test_a_setting_that_one_kernel_of_the_file_knows_is_no_error(file: Path) -> None:
    file.write_text(TWO)
    first, second = load_all(file, {"c": 5})
    assert (values(first)["a"], values(second)["c"]) == (2.0, 5.0)


def test_a_setting_is_for_the_chosen_kernel(file: Path) -> None:
    file.write_text(TWO)
    assert refused(lambda: load(file, {"a": 5}, kernel="other")) == [("CG1022", "--set a")]


def test_diagnostics_of_all_documents_come_together() -> None:
    text = TEXT.replace("N % 2", "N % 3") + "---\n" + TEXT.replace("kernel: scale", "kernel: int") + "---\n[1]\n"
    assert [code for code, _ in refused(lambda: load_text(text))] == ["CG1024", "CG1016", "CG1015"]


@pytest.mark.parametrize(
    ("text", "code"), [("", "CG1010"), ("# nothing\n", "CG1010"), ("---\n", "CG1010"), ("5", "CG1015")]
)
def test_texts_without_a_spec(text: str, code: str) -> None:
    assert [c for c, _ in refused(lambda: load_text(text))] == [code]


@pytest.mark.parametrize("suffix", [".yml", ""])
def test_a_misspelt_file_is_answered_with_the_nearest_beside_it(file: Path, suffix: str) -> None:
    with pytest.raises(SpecError) as caught:
        load(file.with_suffix(suffix))
    assert caught.value.diagnostics[0].help == f"did you mean `{file}`?"


@pytest.mark.parametrize("name", ["missing.yaml", "", "folder", "a\0b", "x" * 5000])
def test_paths_that_name_no_file(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    assert [c for c, _ in refused(lambda: load(tmp_path / name))] == ["CG1001"]


def test_a_file_that_is_not_utf8_is_rejected(file: Path) -> None:
    file.write_bytes(TEXT.encode("utf-16"))
    assert [c for c, _ in refused(lambda: load(file))] == ["CG1002"]
    file.write_bytes(b"#" * (2 << 20))
    assert [c for c, _ in refused(lambda: load(file))] == ["CG1004"]


def test_a_rendered_diagnostic_quotes_and_underlines_the_span(file: Path) -> None:
    file.write_text(TEXT.replace("dtype: int8", "dtype: itn8"))
    with pytest.raises(SpecError) as caught:
        load(file)
    text = str(caught.value)
    assert f"--> {file}:4:53" in text
    assert "^^^^ unknown dtype" in text
    assert "help: did you mean `int8`?" in text
    assert "explain: cugen explain CG1028" in text


def test_loading_imports_nothing_heavy() -> None:
    heavy = ("numpy", "sympy", "jinja2", "jsonschema")
    code = f"import sys, cugen.spec.load; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout == "[]\n"
