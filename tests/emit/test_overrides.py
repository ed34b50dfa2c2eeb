"""A user's own template of a family: the same checks, its hash in the head, and no way past the plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from cugen.emit.environment import template_folder
from cugen.emit.inputs import input_hash
from cugen.emit.overrides import MAX_BYTES, TemplateError, family_templates, read_templates, template_digest
from cugen.families.registry import families
from cugen.kernel import generate
from cugen.spec.load import load_text
from cugen.spec.model import Spec

TEXT = """
cugen: 1
kernel: flipped
params: {M: 100, N: 60}
arrays: {A: {shape: [M, N], dtype: float32}, B: {shape: [N, M], dtype: float32}}
compute: B[n, m] = A[m, n]
"""


@pytest.fixture
def spec() -> Spec:
    return load_text(TEXT)[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the package's template of transposes."""
    (tmp_path / "transpose.cu.j2").write_text((template_folder() / "transpose.cu.j2").read_text())
    return tmp_path


def edit(folder: Path, old: str, new: str) -> None:
    path = folder / "transpose.cu.j2"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_every_family_has_a_template_that_can_be_changed() -> None:
    assert family_templates() == tuple(sorted(f"{family.name}.cu.j2" for family in families()))


def test_a_changed_comment_is_in_the_kernel_and_the_templates_hash_in_its_head(spec: Spec, folder: Path) -> None:
    edit(folder, "{% block body %}\n", "{% block body %}\n// Through a tile, as our course explains it.\n")
    templates = read_templates(folder)
    source = generate(spec, templates=templates).source
    assert "    // Through a tile, as our course explains it.\n" in source
    assert f"// template  transpose.cu.j2 of the user, sha256 {template_digest(templates[0][1])}\n" in source


def test_without_templates_nothing_is_said_of_them(spec: Spec) -> None:
    assert "// template" not in generate(spec).source


def test_a_template_of_another_family_is_not_in_the_head(spec: Spec, tmp_path: Path) -> None:
    (tmp_path / "gemm.cu.j2").write_text((template_folder() / "gemm.cu.j2").read_text())
    assert "// template" not in generate(spec, templates=read_templates(tmp_path)).source


def test_templates_are_among_the_inputs_of_the_hash(spec: Spec, folder: Path) -> None:
    before = input_hash(spec, templates=read_templates(folder))
    edit(folder, "{% block body %}\n", "{% block body %}\n// More.\n")
    assert len({input_hash(spec), before, input_hash(spec, templates=read_templates(folder))}) == 3


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param("{{ body(parts.no_such_section) }}\nB[0] = 1;\n", "B is subscripted", id="subscript by hand"),
        pytest.param("{% if %}\n", r"transpose\.cu\.j2:\d+: Expected an expression", id="syntax error"),
        pytest.param("{{ nothing.at_all }}\n", "'nothing' is undefined", id="undefined name"),
        pytest.param("{{ ''.__class__.__mro__ }}\n", "unsafe|undefined", id="escape from the sandbox"),
    ],
)
def test_a_template_that_prints_another_program_is_refused(spec: Spec, folder: Path, line: str, reason: str) -> None:
    edit(folder, "{% block body %}\n", "{% block body %}\n" + line)
    with pytest.raises(TemplateError, match=reason):
        generate(spec, templates=read_templates(folder))


def test_a_template_that_leaves_out_the_kernel_is_refused(spec: Spec, folder: Path) -> None:
    (folder / "transpose.cu.j2").write_text('{% extends "kernel.cu.j2" %}\n{% block body %}{% endblock %}\n')
    with pytest.raises(TemplateError, match="leaves out"):
        generate(spec, templates=read_templates(folder))


def test_a_file_that_overrides_no_family_is_refused(folder: Path) -> None:
    (folder / "kernel.cu.j2").write_text("")
    with pytest.raises(TemplateError, match="overrides no family's template"):
        read_templates(folder)


def test_a_folder_without_templates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TemplateError, match="no template in"):
        read_templates(tmp_path)


def test_a_template_of_other_bytes_or_of_too_many_is_refused(folder: Path) -> None:
    (folder / "transpose.cu.j2").write_bytes(b"\xff")
    with pytest.raises(TemplateError, match="isn't UTF-8"):
        read_templates(folder)
    (folder / "transpose.cu.j2").write_bytes(b" " * (MAX_BYTES + 1))
    with pytest.raises(TemplateError, match="may have"):
        read_templates(folder)
