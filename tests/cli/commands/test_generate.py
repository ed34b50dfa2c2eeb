"""`cugen generate`: what is written, when, and when nothing is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cugen.abi.manifest import Manifest

Cli = Callable[..., Any]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_files_are_written_under_the_kernels_name(cli: Cli, spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    answer = cli("generate", spec, "-o", out)
    assert answer.status == 0
    assert names(out) == ["cugen_launch.hpp", "scale.cu", "scale.h", "scale.hpp", "scale.json"]
    assert answer.out.splitlines() == [f"wrote {out / name}" for name in names(out)]
    manifest = Manifest.from_json((out / "scale.json").read_text())
    assert manifest.kernel == "scale"


def test_a_second_time_writes_nothing_until_something_changes(cli: Cli, spec: Path, tmp_path: Path) -> None:
    cli("generate", spec, "-o", tmp_path)
    again = cli("generate", spec, "-o", tmp_path)
    assert (again.status, again.out, again.err) == (0, "", "1 kernel up to date\n")
    spec.write_text(spec.read_text() + "# a comment changes nothing\n")
    assert cli("generate", spec, "-o", tmp_path).out == ""
    assert cli("generate", spec, "-o", tmp_path, "--set", "N=41").out != ""
    assert cli("generate", spec, "-o", tmp_path, "--target", "sm_80").out != ""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["all", "none"])
def test_other_remarks_are_other_files(cli: Cli, spec: Path, tmp_path: Path, mode: str) -> None:
    default = ("generate", spec, "-o", tmp_path)
    cli(*default)
    assert cli(*default, "--remarks", "worst").out == ""
    assert cli(*default, "--remarks", mode, "--check").status == 1
    assert "scale.cu" in cli(*default, "--remarks", mode).out
    assert cli(*default, "--remarks", mode).out == ""
    assert cli(*default, "--remarks", mode, "--check").status == 0
    assert ("ideal" in (tmp_path / "scale.cu").read_text()) == (mode == "all")
    assert "scale.cu" in cli(*default).out


def test_no_analysis_is_another_name_of_no_remarks(cli: Cli, spec: Path, tmp_path: Path) -> None:
    cli("generate", spec, "-o", tmp_path, "--remarks", "none")
    assert cli("generate", spec, "-o", tmp_path, "--no-analysis").out == ""
    assert cli("generate", spec, "-o", tmp_path, "--no-analysis", "--check").status == 0


def test_unknown_remarks_are_a_wrong_call(cli: Cli, spec: Path, tmp_path: Path) -> None:
    answer = cli("generate", spec, "-o", tmp_path / "out", "--remarks", "best")
    assert (answer.status, names(tmp_path / "out")) == (2, [])
    assert "--remarks" in answer.err


def test_a_hand_edit_is_undone(cli: Cli, spec: Path, tmp_path: Path) -> None:
    cli("generate", spec, "-o", tmp_path)
    source = tmp_path / "scale.cu"
    good = source.read_text()
    source.write_text(good.replace("2", "3"))
    assert cli("generate", spec, "-o", tmp_path).out == f"wrote {source}\n"
    assert source.read_text() == good


def test_always_writes_even_what_is_current(cli: Cli, spec: Path, tmp_path: Path) -> None:
    cli("generate", spec, "-o", tmp_path)
    os.utime(tmp_path / "scale.cu", (1, 1))
    assert len(cli("generate", spec, "-o", tmp_path, "--write", "always").out.splitlines()) == 4
    assert (tmp_path / "scale.cu").stat().st_mtime > 1


def test_check_writes_nothing_and_distinguishes_missing_stale_and_edited(cli: Cli, spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    missing = cli("generate", spec, "-o", out, "--check")
    assert (missing.status, names(out)) == (1, [])
    assert missing.err.count(": missing") == 5
    cli("generate", spec, "-o", out)
    assert cli("generate", spec, "-o", out, "--check").status == 0
    source = out / "scale.cu"
    before = source.read_text()
    stale = cli("generate", spec, "-o", out, "--check", "--set", "N=41")
    assert stale.status == 1
    assert f"{source}: stale" in stale.err
    assert "-constexpr int N = 40;" in stale.out
    assert "+constexpr int N = 41;" in stale.out
    source.write_text(before + "// mine\n")
    edited = cli("generate", spec, "-o", out, "--check")
    assert edited.status == 1
    assert f"{source}: edited by hand" in edited.err
    assert "-// mine" in edited.out
    assert source.read_text() == before + "// mine\n"


def test_check_does_not_trust_hashes_that_fit_together(cli: Cli, spec: Path, tmp_path: Path) -> None:
    """Somebody who also corrects the hashes still doesn't get past the gate."""
    import hashlib
    from dataclasses import replace

    cli("generate", spec, "-o", tmp_path)
    source, manifest = tmp_path / "scale.cu", tmp_path / "scale.json"
    source.write_text(source.read_text().replace("2", "3"))
    forged = replace(
        Manifest.from_json(manifest.read_text()), source_hash=hashlib.sha256(source.read_bytes()).hexdigest()
    )
    manifest.write_text(forged.to_json())
    assert cli("generate", spec, "-o", tmp_path, "--check").status == 1


def test_list_names_the_files_and_makes_none(cli: Cli, spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    answer = cli("generate", spec, "-o", out, "--list")
    assert answer.out.splitlines() == [str(out / f"scale{suffix}") for suffix in (".cu", ".h", ".json", ".hpp")]
    assert not out.exists()


def test_if_one_spec_is_refused_nothing_is_written_and_all_findings_are_shown(
    cli: Cli, spec: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(spec.read_text().replace("float32", "flaot32", 1))
    second.write_text(spec.read_text().replace("x[i]", "z[i]"))
    answer = cli("generate", spec, first, second, "-o", tmp_path / "out")
    assert (answer.status, names(tmp_path / "out")) == (2, [])
    assert "first.yaml:6" in answer.err
    assert "second.yaml:8" in answer.err
    assert answer.err.rstrip().endswith("errors")


def test_a_schedule_that_nothing_can_honour_also_writes_nothing(cli: Cli, spec: Path, tmp_path: Path) -> None:
    second_spec = tmp_path / "other.yaml"
    second_spec.write_text(spec.read_text().replace("scale", "other").replace("direct", "nonsense"))
    for jobs in (1, 2):
        answer = cli("generate", spec, second_spec, "-o", tmp_path / "out", "--jobs", jobs)
        assert (answer.status, names(tmp_path / "out")) == (2, [])
        assert "schedule.family" in answer.err


@pytest.mark.parametrize("jobs", ["0", "-2", "many"])
def test_a_number_of_processes_is_at_least_one(cli: Cli, spec: Path, jobs: str) -> None:
    answer = cli("generate", spec, "--jobs", jobs)
    assert answer.status == 2
    assert f"argument --jobs: expected a number of at least 1, not '{jobs}'" in answer.err


def test_a_file_in_the_place_of_the_folder_is_named(cli: Cli, spec: Path) -> None:
    answer = cli("generate", spec, "-o", spec)
    assert (answer.status, answer.err) == (2, f"error: `-o {spec}`: {spec} is a file, not a folder\n")


def test_two_kernels_of_one_name_are_refused(cli: Cli, spec: Path, tmp_path: Path) -> None:
    second_spec = tmp_path / "other.yaml"
    second_spec.write_text(spec.read_text())
    answer = cli("generate", spec, second_spec, "-o", tmp_path / "out")
    assert (answer.status, names(tmp_path / "out")) == (2, [])
    assert str(spec) in answer.err
    assert str(second_spec) in answer.err


def test_the_same_file_twice_is_one(cli: Cli, spec: Path, tmp_path: Path) -> None:
    assert cli("generate", spec, spec, "-o", tmp_path).status == 0


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/b", ".."])
def test_no_kernel_name_leads_out_of_the_folder(cli: Cli, spec: Path, tmp_path: Path, name: str) -> None:
    spec.write_text(spec.read_text().replace("scale", name))
    before = names(tmp_path)
    assert cli("generate", spec, "-o", tmp_path / "out").status == 2
    assert names(tmp_path) == before


def test_variants_are_generated_by_several_processes_as_by_one(cli: Cli, spec: Path, tmp_path: Path) -> None:
    text = spec.read_text().replace("N: 40", "N: $n") + "variants: {n: [10, 20, 30]}\n"
    spec.write_text(text)
    first, second = tmp_path / "one", tmp_path / "two"
    assert cli("generate", spec, "-o", first).status == 0
    assert cli("generate", spec, "-o", second, "--jobs", "2").status == 0
    assert len(names(first)) == 15
    assert [(second / name).read_bytes() for name in names(first)] == [
        (first / name).read_bytes() for name in names(first)
    ]


def test_bytes_do_not_depend_on_where_the_spec_and_the_output_are(
    cli: Cli, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("generate", spec, "-o", tmp_path / "one")
    monkeypatch.chdir(tmp_path)
    cli("generate", "scale.yaml", "-o", "two")
    for name in names(tmp_path / "one"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_depfile_names_outputs_spec_data_and_templates(cli: Cli, spec: Path, tmp_path: Path) -> None:
    import numpy as np

    np.save(tmp_path / "w.npy", np.ones(40, np.float32))
    spec.write_text(
        spec.read_text()
        .replace("  y:", "  w: {shape: [N], dtype: float32, values: w.npy}\n  y:")
        .replace("2 * x[i]", "w[i] * x[i]")
    )
    depfile = tmp_path / "deps" / "scale.d"
    assert cli("generate", spec, "-o", tmp_path, "--depfile", depfile).status == 0
    targets, dependencies = depfile.read_text().replace("\\\n", "").split(":")
    assert targets.split() == [str(tmp_path / f"scale{suffix}") for suffix in (".cu", ".h", ".json")]
    assert str(spec) in dependencies.split()
    assert str(tmp_path / "w.npy") in dependencies.split()
    assert any(path.endswith("kernel.hpp.j2") for path in dependencies.split())
    assert all(Path(path).is_file() for path in dependencies.split())


@pytest.mark.parametrize("given", ["N", "N=", "=3", "N=three", "N=1e3", "N=-1"])
def test_a_setting_that_makes_no_sense_is_refused(cli: Cli, spec: Path, tmp_path: Path, given: str) -> None:
    answer = cli("generate", spec, "-o", tmp_path / "out", "--set", given)
    assert (answer.status, names(tmp_path / "out")) == (2, [])
    assert "Traceback" not in answer.err


def test_a_repeated_setting_is_refused(cli: Cli, spec: Path, tmp_path: Path) -> None:
    assert cli("generate", spec, "--set", "N=1", "--set", "N=2", "-o", tmp_path / "out").status == 2


def test_an_output_folder_that_is_a_file_is_a_wrong_call(cli: Cli, spec: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    answer = cli("generate", spec, "-o", tmp_path / "out")
    assert answer.status == 2
    assert str(tmp_path / "out") in answer.err


def test_quiet_says_nothing(cli: Cli, spec: Path, tmp_path: Path) -> None:
    for _ in range(2):
        answer = cli("generate", spec, "-o", tmp_path, "-q")
        assert (answer.status, answer.out, answer.err) == (0, "", "")


def test_the_manifest_has_what_a_caller_needs(cli: Cli, spec: Path, tmp_path: Path) -> None:
    cli("generate", spec, "-o", tmp_path)
    content = json.loads((tmp_path / "scale.json").read_text())
    assert [argument["name"] for argument in content["arguments"]] == ["x", "y"]
    assert content["launches"][0]["kernel"] == "scale"


COSTLY = """
cugen: 1
kernel: product
params: {N: 512}
arrays:
  A: {shape: [N, N], dtype: float32}
  B: {shape: [N, N], dtype: float32}
  C: {shape: [N, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {family: direct}
"""


def test_a_plan_that_costs_more_than_it_needs_to_is_a_warning_once(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "product.yaml"
    file.write_text(COSTLY)
    first, again = (cli("generate", file, "-o", tmp_path / "out") for _ in range(2))
    assert (first.status, again.status) == (0, 0)
    assert first.err.startswith("warning[CG2108]: `direct`: about ")
    assert "without `family: direct`, `gemm`" in first.err
    assert f"--> {file}:10:20" in first.err
    assert again.err == "1 kernel up to date\n"


def test_without_analysis_no_plan_is_priced(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "product.yaml"
    file.write_text(COSTLY)
    assert cli("generate", file, "-o", tmp_path / "out", "--no-analysis").err == ""
    assert cli("generate", file, "-o", tmp_path / "out", "--quiet").err == ""
