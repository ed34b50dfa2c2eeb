"""`[tool.cugen]` of pyproject.toml: its defaults, and the messages where it is wrong."""

from __future__ import annotations

import pytest

from cugen.integrations.config import ConfigError, read
from cugen.integrations.precommit import main

TABLE = '[tool.cugen]\nspecs = ["k/*.yaml"]\noutput = "out"\n'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "k").mkdir()
    for name in ("b", "a"):
        (tmp_path / "k" / f"{name}.yaml").write_text("")
    return tmp_path


def configured(folder, text):
    (folder / "pyproject.toml").write_text(text)
    return read(folder)


def test_a_project_without_the_table_has_no_configuration(folder):
    assert read(folder) is None
    assert configured(folder, "[project]\nname = 'x'\n") is None


def test_patterns_name_files_in_the_order_of_their_names_each_once(folder):
    project = configured(folder, TABLE.replace('"k/*.yaml"', '"k/b.yaml", "k/*.yaml"'))
    assert [path.name for path in project.specs] == ["b.yaml", "a.yaml"]
    assert project.output == folder / "out"


def test_target_and_values_become_options(folder):
    project = configured(folder, f"{TABLE}target = 'sm_80'\nset = {{M = 64, c = 0.5, on = true}}\n")
    assert project.options == ("--set", "M=64", "--set", "c=0.5", "--set", "on=true", "--target", "sm_80")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        pytest.param('[tool.cugen]\nspecs = ["k/*.yaml"]\n', "tool.cugen.output: expected a string", id="no output"),
        pytest.param('[tool.cugen]\noutput = "o"\n', "tool.cugen.specs: expected a list", id="no specs"),
        pytest.param(
            TABLE.replace("k/*", "absent/*"), "tool.cugen.specs: no file matches `absent/*.yaml`", id="no such specs"
        ),
        pytest.param(f"{TABLE}spec = 1\n", "tool.cugen.spec: unknown key; valid keys: specs", id="unknown key"),
        pytest.param(f"{TABLE}set = {{M = 'x'}}\n", "tool.cugen.set: expected numbers", id="set of strings"),
        pytest.param(f"{TABLE}library = 'x'\n", "tool.cugen.library: expected a table", id="library not a table"),
        pytest.param(
            f"{TABLE}library = {{sources = []}}\n",
            "tool.cugen.library.path: expected a string",
            id="library without path",
        ),
        pytest.param("[tool]\ncugen = 3\n", "tool.cugen: expected a table", id="cugen not a table"),
    ],
)
def test_what_is_wrong_is_named_by_its_key(folder, text, key):
    with pytest.raises(ConfigError) as caught:
        configured(folder, text)
    assert key in str(caught.value)


def test_a_hook_without_table_or_arguments_says_what_to_do(folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert main(["check"]) == 2
    assert "add one, or give the hook `args`" in capsys.readouterr().err
    assert main(["other"]) == 2
