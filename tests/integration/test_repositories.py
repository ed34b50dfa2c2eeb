"""Hooks of pre-commit in a scratch repository, and the steps of the GitHub action."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "pre-commit"
IDENTITY = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.com", "-c", "commit.gpgsign=false")


@pytest.fixture
def repository(tmp_path, installed):
    """The example as a repository, with hooks from another instead of cugen's. No environments are made: the
    hooks run in the one that is there."""
    hooks = tmp_path / "cugen"
    hooks.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", hooks)
    commit(installed, hooks)
    folder = Path(shutil.copytree(EXAMPLE, tmp_path / "repository"))
    config = folder / ".pre-commit-config.yaml"
    expression = yaml.safe_load(config.read_text())
    (hook_source,) = expression["repos"]
    hook_source |= {"repo": str(hooks), "rev": installed.must(["git", "rev-parse", "HEAD"], hooks).strip()}
    for hook in hook_source["hooks"]:
        hook["language"] = "system"
    config.write_text(yaml.safe_dump(expression))
    installed.must(["cugen", "generate", "-o", "generated", "kernels/turn.yaml"], folder)
    commit(installed, folder)
    installed.must(["pre-commit", "install"], folder, home(tmp_path))
    return folder


def home(folder):
    return {"PRE_COMMIT_HOME": str(folder / "pre-commit")}


def commit(environment, folder):
    if not (folder / ".git").exists():
        environment.must(["git", "init", "--quiet"], folder)
    environment.must(["git", "add", "."], folder)
    return environment.must(["git", *IDENTITY, "commit", "--quiet", "--message", "work"], folder, home(folder.parent))


def refused(environment, folder):
    """What a commit that is refused prints."""
    environment.must(["git", "add", "."], folder)
    words = ["git", *IDENTITY, "commit", "--quiet", "--message", "work"]
    done = environment.run(words, folder, home(folder.parent))
    assert done.status != 0
    return done.text


def test_a_commit_passes_only_with_current_kernels_within_their_limits(repository, installed):
    spec = repository / "kernels" / "turn.yaml"
    good = spec.read_text()

    spec.write_text(good.replace("N: 200", "N: 210"))
    text = refused(installed, repository)
    assert re.search(r"generated kernels are what their specs give\.*Failed", text)
    assert "generated/turn.cu: stale" in text
    installed.must(["cugen", "generate", "-o", "generated", "kernels/turn.yaml"], repository)
    commit(installed, repository)

    kernel = repository / "generated" / "turn.cu"
    kernel.write_text(kernel.read_text().replace("__syncthreads();", ""))
    assert "generated/turn.cu: edited by hand" in refused(installed, repository)

    spec.write_text(good.replace(", pad: 1", ""))
    installed.must(["cugen", "generate", "-o", "generated", "kernels/turn.yaml"], repository)
    text = refused(installed, repository)
    assert re.search(r"kernels keep to the limits of their specs\.*Failed", text)
    assert re.search(r"^kernels/turn\.yaml:6:\d+: error: .*bank conflicts.* \[CG2201\]$", text, re.MULTILINE)

    spec.write_text(good.replace("float32}", "float33}"))
    assert re.search(r"^kernels/turn\.yaml:7:\d+: error: ", refused(installed, repository), re.MULTILINE)


def run_action(environment, folder, inputs):
    """Runs the steps that are shell, as a runner would; the exit status of the first that fails, and what all said."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: declaration.get("default", "") for name, declaration in action["inputs"].items()} | inputs
    program = folder / "temp" / "cugen" / "bin" / "cugen"
    if not program.exists():
        program.parent.mkdir(parents=True)
        program.symlink_to(environment.must(["bash", "-c", "command -v cugen"], folder).strip())
    output = folder / "output"
    output.write_text("")
    said = ""
    for step in action["runs"]["steps"]:
        condition = re.fullmatch(r"inputs\.(\w+) != ''", step.get("if", ""))
        if step["name"] == "Install cugen" or "uses" in step or (condition and not given[condition[1]]):
            continue
        assert step["shell"] == "bash"
        variables = {"GITHUB_OUTPUT": str(output), "RUNNER_TEMP": str(folder / "temp")}
        for name, value in step.get("env", {}).items():
            outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
            value = re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: given[match[1]], value)
            variables[name] = re.sub(
                r"\$\{\{ steps\.check\.outputs\.(\w+) \}\}",
                lambda match, known=outputs: known[match[1]],
                value,
            )
        done = environment.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], folder, variables
        )
        said += done.text
        if done.status:
            return done.status, said
    return 0, said


def test_the_action_reports_findings_and_fails_where_there_are_some(tmp_path, installed):
    folder = Path(shutil.copytree(EXAMPLE, tmp_path / "repository"))
    spec = folder / "kernels" / "turn.yaml"
    inputs = {"specs": "kernels/*.yaml"}
    assert run_action(installed, folder, inputs) == (0, "")
    assert json.loads((folder / "cugen.sarif").read_text())["runs"][0]["results"] == []

    status, said = run_action(installed, folder, inputs | {"generated": "generated"})
    assert (status, "generated/turn.cu: missing" in said) == (1, True)

    spec.write_text(spec.read_text().replace(", pad: 1", ""))
    status, said = run_action(installed, folder, inputs)
    assert (status, "::error::" in said) == (1, True)
    (result,) = json.loads((folder / "cugen.sarif").read_text())["runs"][0]["results"]
    location = result["locations"][0]["physicalLocation"]
    assert (result["ruleId"], location["artifactLocation"]["uri"], location["region"]["startLine"]) == (
        "CG2201",
        "kernels/turn.yaml",
        6,
    )

    spec.write_text("cugen: 1\n")
    status, _ = run_action(installed, folder, inputs)
    assert status == 2


def test_the_action_installs_into_an_environment_of_its_own(tmp_path, installed):
    wheel = tmp_path / "cugen-99.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {
            "METADATA": "Metadata-Version: 2.1\nName: cugen\nVersion: 99.0\n",
            "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "entry_points.txt": "[console_scripts]\ncugen = cugen:main\n",
            "RECORD": "",
        }.items():
            archive.writestr(f"cugen-99.0.dist-info/{name}", text)
        archive.writestr("cugen.py", "def main():\n    print('99.0')\n")
    (step,) = (s for s in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"] if "Install" in s["name"])
    variables = {"RUNNER_TEMP": str(tmp_path), "GITHUB_ACTION_PATH": str(wheel), "PIP_NO_INDEX": "1"}
    before = installed.must(["cugen", "--version"], tmp_path)
    installed.must(["bash", "-eo", "pipefail", "-c", step["run"]], tmp_path, variables)
    assert installed.must([str(tmp_path / "cugen" / "bin" / "cugen")], tmp_path).strip() == "99.0"
    assert installed.must(["cugen", "--version"], tmp_path) == before
