"""`--templates DIR`: a user's own template, its freshness on disk, and how a wrong one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from cugen.emit.environment import template_folder

from ..conftest import Cli


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """A folder with a commented copy of the template of `direct`."""
    folder = tmp_path / "templates"
    folder.mkdir()
    text = (template_folder() / "direct.cu.j2").read_text()
    (folder / "direct.cu.j2").write_text(text.replace("{% block body %}\n", "{% block body %}\n// Ours.\n", 1))
    return folder


def test_generate_run_and_inspect_take_the_template(cli: Cli, spec: Path, templates: Path, tmp_path: Path) -> None:
    assert cli("generate", spec, "-o", tmp_path / "out", "--templates", templates).status == 0
    assert "// Ours." in (tmp_path / "out" / "scale.cu").read_text()
    assert "// Ours." in cli("inspect", spec, "--what", "source", "--templates", templates).out
    assert cli("run", spec, "--device", "cpu", "--templates", templates).status == 0


def test_a_file_is_current_for_its_own_templates_alone(cli: Cli, spec: Path, templates: Path, tmp_path: Path) -> None:
    words = ("generate", spec, "-o", tmp_path / "out")
    assert "wrote" in cli(*words, "--templates", templates).out
    assert "up to date" in cli(*words, "--templates", templates).err
    assert "wrote" in cli(*words).out
    assert "// Ours." not in (tmp_path / "out" / "scale.cu").read_text()


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_invalid_template_is_wrong_input(cli: Cli, spec: Path, templates: Path, tmp_path: Path, jobs: str) -> None:
    (templates / "direct.cu.j2").write_text('{% extends "kernel.cu.j2" %}\n{% block body %}{% endblock %}\n')
    answer = cli("generate", spec, "-o", tmp_path / "out", "--templates", templates, "--jobs", jobs)
    assert answer.status == 2
    assert "leaves out" in answer.err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_not_there_is_a_wrong_call(cli: Cli, spec: Path, tmp_path: Path) -> None:
    answer = cli("generate", spec, "--templates", tmp_path / "absent")
    assert (answer.status, answer.out) == (2, "")
