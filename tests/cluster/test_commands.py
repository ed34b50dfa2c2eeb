"""`cugen generate` and `cugen tune` with `--scheduler`: what they print and write is what they do without."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from distributed import get_worker

import cugen.kernel
from cugen.cli.commands import bench as bench_command
from cugen.cli.main import main

SPEC = """\
cugen: 1
kernel: NAME
params: {N: 4096}
target: sm_90
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = 2 * x[i]
schedule: {family: map, vectors: 1}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUGEN_CACHE_DIR", os.fspath(tmp_path / "cache"))


@pytest.fixture
def specs(tmp_path: Path) -> list[str]:
    files = [tmp_path / f"{name}.yaml" for name in ("b", "a", "c")]
    for file in files:
        file.write_text(SPEC.replace("NAME", file.stem))
    return list(map(str, files))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.slow
def test_files_and_messages_are_those_without_a_cluster(
    address: str, specs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, usual = tmp_path / "out", tmp_path / "usual"
    assert main(["generate", *specs, "-o", str(folder), "--scheduler", address]) == 0
    printed = capsys.readouterr()
    assert main(["generate", *specs, "-o", str(usual)]) == 0
    assert printed.out.replace(str(folder), str(usual)) == capsys.readouterr().out
    assert contents(folder) == contents(usual)


def test_what_is_current_needs_no_cluster(specs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", *specs, "-o", str(tmp_path / "out")]) == 0
    assert main(["generate", *specs, "-o", str(tmp_path / "out"), "--scheduler", "tcp://127.0.0.1:1"]) == 0
    assert "3 kernels up to date" in capsys.readouterr().err


def test_one_refused_spec_gives_its_finding_and_no_file(
    address: str, specs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(specs[1]).write_text(Path(specs[1]).read_text().replace("family: map", "family: tiled"))
    assert main(["generate", *specs, "-o", str(tmp_path / "out"), "--scheduler", address]) == 2
    assert f"--> {specs[1]}:9:36" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_an_address_that_is_none_is_a_wrong_call(specs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("10.0.0.1:8786", "tcp://host", "http://host:80", "LOCAL"):
        assert main(["generate", *specs, "--scheduler", text]) == 2
        assert "expected local or an address such as tcp://10.0.0.1:8786" in " ".join(capsys.readouterr().err.split())


def test_the_number_of_processes_is_the_clusters(specs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", *specs, "--scheduler", "local", "--jobs", "2"]) == 2
    assert "`--jobs` is for work without `--scheduler`" in capsys.readouterr().err


def test_a_scheduler_that_is_not_there_is_said(
    specs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cugen.cluster.connection._CONNECT_S", 0.2)
    assert main(["generate", *specs, "-o", str(tmp_path), "--scheduler", "tcp://127.0.0.1:1"]) == 3
    assert "error[CG4006]: the scheduler tcp://127.0.0.1:1 doesn't answer" in capsys.readouterr().err


def test_without_dask_the_extra_is_named(
    specs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["generate", *specs, "-o", str(tmp_path), "--scheduler", "local"]) == 3
    assert "pip install 'cugen[cluster]'" in capsys.readouterr().err


def test_a_search_writes_the_lock_and_names_what_was_left_out(
    address: str, specs: list[str], tmp_path: Path, plan: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    plan(factors={"GPU-1": 1.05})
    assert main(["tune", specs[0], "--scheduler", address]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("b: 5 µs on NVIDIA H200, 2.00 times as fast as untuned\n")
    assert "left out: GPU-1: it is 5.0% slower than the median of 2 GPUs" in printed.err
    assert "  measured: {gpus: 1}\n" in (tmp_path / "cugen.lock").read_text()
    assert main(["tune", specs[0], "--scheduler", address, "--device-name", "NVIDIA B200"]) == 3
    assert "no GPU called NVIDIA B200, but NVIDIA H200" in capsys.readouterr().err


@pytest.mark.slow
def test_all_kernels_of_a_call_are_tuned_at_once_and_told_in_order(
    address: str, specs: list[str], tmp_path: Path, plan: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    plan(die=["a("], seconds=0.1)  # the kernel `a` can't be timed
    assert main(["tune", *specs, "--scheduler", address]) == 1
    printed = capsys.readouterr()
    assert [line.split(":")[0] for line in printed.out.splitlines() if not line.startswith(" ")] == ["b", "c"]
    assert "error: a: the generator's own choice can't be timed" in printed.err
    lock = (tmp_path / "cugen.lock").read_text()
    assert [line for line in lock.splitlines() if line.startswith("- kernel:")] == ["- kernel: b", "- kernel: c"]


@pytest.mark.slow
def test_a_cluster_of_this_machine_generates_machine_code(
    specs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*specs, "--emit", "fatbin", "--target", "sm_80,sm_90"]
    assert main(["generate", *words, "-o", str(tmp_path / "out"), "--scheduler", "local"]) == 0
    assert main(["generate", *words, "-o", str(tmp_path / "usual")]) == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "usual")


@pytest.mark.slow
def test_kernels_run_on_the_cpu_device_of_workers(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "two.yaml"
    file.write_text("---\n".join(SPEC.replace("NAME", name).replace("4096", "64") for name in ("first", "second")))
    assert main(["run", str(file), "--device", "cpu", "--scheduler", address, "--json"]) == 0
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    assert [(kernel["kernel"], kernel["passed"]) for kernel in kernels] == [("first", True), ("second", True)]


def test_arrays_of_this_machine_are_not_for_workers(specs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", specs[0], "--input", "x=x.npy", "--scheduler", "local"]) == 2
    assert "`--input` and `--output` are files of this machine" in capsys.readouterr().err


def test_kernels_are_timed_by_gpu_workers(
    address: str, specs: list[str], plan: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench_command, "_bench_alone", timed)
    assert main(["bench", *specs, "--scheduler", address, "--json"]) == 0
    kernels = json.loads(capsys.readouterr().out)["kernels"]
    assert [kernel["kernel"] for kernel in kernels] == ["b", "a", "c"]
    assert {kernel["worker"] for kernel in kernels} <= {"gpu-0", "gpu-1"}


def timed(spec: Any, *, args: Any) -> dict[str, Any]:
    """In place of the GPU."""
    return {"kernel": spec.kernel, "worker": get_worker().name, "passed": True}


def test_an_internal_error_at_one_spec_of_a_build_farm_leaves_the_others(
    address: str, specs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made = cugen.kernel.generate

    def generate(spec: Any, **options: Any) -> Any:
        if spec.kernel == "a":
            raise ValueError("surprise")
        return made(spec, **options)

    monkeypatch.setattr(cugen.kernel, "generate", generate)
    assert main(["generate", *specs, "-o", str(tmp_path / "out"), "--scheduler", address, "--debug"]) == 4
    printed = capsys.readouterr().err
    assert printed.index("Traceback") < printed.index("error: internal error of cugen: ValueError: surprise")
    assert f"  --> {specs[1]}, kernel `a`\n" in printed
    assert {path.name for path in (tmp_path / "out").glob("*.cu")} == {"b.cu", "c.cu"}
