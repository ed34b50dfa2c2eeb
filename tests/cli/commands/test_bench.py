"""`cugen bench`: what it refuses, what it prints, and its exit status; the measuring itself is tests/bench's."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import cugen.bench.measure
import cugen.bench.session
import cugen.runtime.gpu
from cugen.cli.parallel import gpus as parallel
from cugen.runtime.cuda import choice
from cugen.runtime.gpu import available
from cugen.tune.timing import gpus
from cugen.tune.timing.gpus import Gpu

Cli = Callable[..., Any]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A machine with a GPU, on which every kernel passes at once; the options that each was measured with."""
    calls: list[Any] = []

    @contextmanager
    def session() -> Iterator[object]:
        yield object()

    def bench(session: object, spec: Any, dynamic: Any, options: Any) -> dict[str, Any]:
        calls.append((spec, dynamic, options))
        row = {"name": "cugen", "median_us": 8.0, "p10_us": 7.0, "p90_us": 9.0, "samples": options.samples}
        row |= {"gb_per_s": 40.0, "gflop_per_s": None, "share_of_ceiling": 0.9, "ratio": 1.0}
        launch = {"kernel": spec.kernel, "grid": [1, 1, 1], "block": [64, 1, 1], "shared_bytes": 0}
        launch |= {"registers": 16, "spill_bytes": 0, "occupancy": 1.0, "blocks_per_sm": 32}
        return {
            "kernel": spec.kernel,
            "device": "a GPU of the tests",
            "families": ["direct"],
            "passed": not spec.kernel.startswith("bad"),
            "checked": "all",
            "max_abs_error": 0.0,
            "messages": ["y: wrong"],
            "bytes": 320,
            "flop": None,
            "ceiling": "copy",
            "launches": [launch],
            "generate_ms": 1.0,
            "compile_ms": 2.0,
            "compile_cached": True,
            "late_batches": 0,
            "reruns": 100,
            "peers": [],
            "regimes": {} if spec.kernel.startswith("bad") else {"cold": [row, {**row, "name": "copy"}]},
        }

    monkeypatch.setattr(cugen.bench.session, "session", session)
    monkeypatch.setattr(cugen.bench.measure, "bench", bench)
    monkeypatch.setattr(cugen.runtime.gpu, "GpuDevice", lambda: SimpleNamespace(capability="sm_90"))
    return calls


@pytest.mark.skipif(not available(), reason="a GPU is here")
def test_without_a_gpu_it_exits_3_with_the_way_out(cli: Cli, spec: Path) -> None:
    answer = cli("bench", spec)
    assert (answer.status, answer.out) == (3, "")
    assert "CG5011" in answer.err
    assert "cugen doctor" in answer.err


def test_a_refused_spec_comes_before_a_missing_gpu(cli: Cli, spec: Path) -> None:
    spec.write_text(spec.read_text().replace("float32", "flaot32"))
    answer = cli("bench", spec)
    assert answer.status == 2
    assert "flaot32" in answer.err


def test_the_table_names_the_kernel_and_its_share(cli: Cli, spec: Path, gpu: list[Any]) -> None:
    answer = cli("bench", spec)
    assert answer.status == 0
    assert answer.out.startswith("scale: direct on a GPU of the tests\n")
    assert "0.900" in answer.out


def test_json_is_one_object_or_a_list_of_kernels(cli: Cli, spec: Path, dynamic_spec: Path, gpu: list[Any]) -> None:
    assert json.loads(cli("bench", spec, "--json").out)["kernel"] == "scale"
    answer = cli("bench", spec, spec.rename(spec.with_name("other.yaml")), "--json")
    assert answer.status == 2  # the first file is gone
    two = spec.with_name("two.yaml")
    two.write_text((text := spec.with_name("other.yaml").read_text()) + "---\n" + text.replace("scale", "again"))
    content = json.loads(cli("bench", two, "--json").out)
    assert [kernel["kernel"] for kernel in content["kernels"]] == ["scale", "again"]
    assert json.loads(cli("bench", two, "--json", "--kernel", "again").out)["kernel"] == "again"


@pytest.mark.parametrize(
    ("words", "target", "noted"),
    [((), "sm_90a", True), (("--target", "sm_90"), "sm_90", False), (("--target", "sm_90a"), "sm_90a", False)],
)
def test_a_spec_without_a_target_is_for_the_gpu(
    cli: Cli, spec: Path, gpu: list[Any], words: tuple[str, ...], target: str, noted: bool
) -> None:
    answer = cli("bench", spec, *words)
    assert [spec.target for spec, *_ in gpu] == [target]
    assert ("target: sm_90a, of this device (the spec names none)\n" in answer.err) is noted


def test_options_reach_the_measurement(cli: Cli, dynamic_spec: Path, gpu: list[Any]) -> None:
    words = ("--set", "N=400", "--samples", "150", "--against", "torch,cupy", "--seed", "7")
    assert cli("bench", dynamic_spec, *words).status == 0
    ((_, dynamic, options),) = gpu
    assert dynamic == {"N": 400}
    assert (options.samples, options.against, options.seed) == (150, ("torch", "cupy"), 7)


def test_a_dynamic_param_needs_a_value(cli: Cli, dynamic_spec: Path, gpu: list[Any]) -> None:
    answer = cli("bench", dynamic_spec)
    assert answer.status == 2
    assert "--set N=" in answer.err


def test_a_wrong_kernel_is_a_no(cli: Cli, spec: Path, gpu: list[Any]) -> None:
    spec.write_text(spec.read_text().replace("scale", "bad_scale"))
    answer = cli("bench", spec)
    assert answer.status == 1
    assert "FAILED" in answer.out
    assert "y: wrong" in answer.out


@pytest.mark.parametrize("words", [("--against", "tensorflow"), ("--samples", "0"), ("--samples", "many")])
def test_wrong_options_are_wrong_calls(cli: Cli, spec: Path, words: tuple[str, ...]) -> None:
    assert cli("bench", spec, *words).status == 2


def test_without_pycuda_it_says_what_launches(cli: Cli, spec: Path, gpu: list[Any], monkeypatch: Any) -> None:
    monkeypatch.setattr(choice, "missing_pycuda", lambda: "No module named 'pycuda'")
    said = "running through the CUDA driver without PyCUDA (No module named 'pycuda'); `cugen setup gpu` builds it\n"
    assert cli("bench", spec).err.startswith(said)
    assert said not in cli("bench", spec, "--quiet").err
    monkeypatch.setattr(choice, "missing_pycuda", str)
    assert said not in cli("bench", spec).err


def test_each_kernel_is_timed_on_every_gpu(cli: Cli, spec: Path, gpu: list[Any], monkeypatch: Any) -> None:
    devices = tuple(Gpu("a GPU of the tests", "sm_90", f"GPU-{n}") for n in range(3))
    monkeypatch.setattr(gpus, "identified_gpus", lambda: devices)

    def here(devices: Any, make: Any, items_of: Any) -> Iterator[tuple[Any, ...]]:
        yield from zip(*(map(make, items_of(device)) for device in devices), strict=True)

    monkeypatch.setattr(parallel, "on_each_gpu", here)
    done = cli("bench", str(spec), "--gpus", "all")
    assert done.status == 0
    assert [line for line in done.out.splitlines() if "GPU-" in line] == [
        f"scale: direct on a GPU of the tests GPU-{n}, +0.0% to the median" for n in range(3)
    ]
    assert "`--gpus` is for this machine" in cli("bench", str(spec), "--gpus", "all", "--scheduler", "local").err


def test_the_chart_is_well_formed(cli: Cli, spec: Path, gpu: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "chart.svg"
    assert cli("bench", spec, "--chart", path).status == 0
    assert "scale, cugen: 0.900" in "".join(ET.parse(path).getroot().itertext())


def test_a_chart_that_cannot_be_written_is_wrong_input(cli: Cli, spec: Path, gpu: list[Any]) -> None:
    answer = cli("bench", spec, "--chart", spec.parent / "nowhere" / "chart.svg")
    assert answer.status == 2
    assert "nowhere" in answer.err


def test_a_narrow_terminal_has_the_medians_and_what_they_are_compared_with(
    cli: Cli, spec: Path, gpu: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cugen.cli.text.layout.columns", lambda stream: 60)
    lines = cli("bench", spec).out.splitlines()
    assert max(map(len, lines)) <= 60
    (head,) = (line.split() for line in lines if "median" in line)
    assert head == ["cold", "median", "GB/s", "GFLOP/s", "of", "ceiling", "time", "÷", "ours"]
