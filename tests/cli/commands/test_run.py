"""`cugen run`: the verdict, what it rests on, and inputs and outputs of the user's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cugen.kernel
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.gpu import available
from tests.runtime.fakes.gpu import FakeGpu
from tests.runtime.fakes.installed import installed_gpu

Cli = Callable[..., Any]

_KEYS = (
    *("kernel", "device", "target", "grid", "block", "shared_bytes", "registers", "max_abs_error", "max_rel_error"),
    *("tolerance", "passed", "checked", "time_ms", "compile_ms", "launches"),
)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Replaces a piece of the generated source, as a fault in the generator would."""

    def damage(old: str, new: str) -> None:
        sound = cugen.kernel.generate

        def generate(spec: Any, **options: Any) -> Any:
            kernel = sound(spec, **options)
            assert old in kernel.source
            return replace(kernel, source=kernel.source.replace(old, new))

        monkeypatch.setattr(cugen.kernel, "generate", generate)

    return damage


def test_json_is_one_object_with_the_promised_keys_and_nothing_else(cli: Cli, spec: Path) -> None:
    answer = cli("run", spec, "--device", "cpu", "--json")
    content = json.loads(answer.out)
    assert answer.status == 0
    assert [key for key in _KEYS if key not in content] == []
    assert (content["kernel"], content["device"], content["passed"], content["checked"]) == (
        "scale",
        "cpu",
        True,
        "all",
    )
    assert content["time_ms"] > 0
    assert [launch["kernel"] for launch in content["launches"]] == ["scale"]


@pytest.mark.parametrize(
    ("capability", "words", "target"),
    [
        ("sm_90", (), "sm_90a"),
        ("sm_90", ("--target", "sm_90"), "sm_90"),
        ("sm_80", (), "sm_90"),
        ("", (), "sm_90"),
    ],
)
def test_a_spec_without_a_target_is_for_the_device(
    cli: Cli, spec: Path, monkeypatch: pytest.MonkeyPatch, capability: str, words: tuple[str, ...], target: str
) -> None:
    monkeypatch.setattr(CpuDevice, "capability", capability)
    answer = cli("run", spec, "--device", "cpu", "--json", *words)
    assert json.loads(answer.out)["target"] == target
    assert ("target: sm_90a, of this device (the spec names none)\n" in answer.err) is (target == "sm_90a")


def test_the_report_says_which_device_and_that_it_passed(cli: Cli, spec: Path) -> None:
    answer = cli("run", spec, "--device", "cpu", "--repeat", "3")
    assert answer.status == 0
    assert answer.out.startswith("scale: PASSED on the cpu\n")
    assert "median of 3" in answer.out
    assert "\033" not in answer.out


@pytest.mark.skipif(not available(), reason="a GPU is here")
def test_auto_without_a_gpu_takes_the_cpu_and_says_why(cli: Cli, spec: Path) -> None:
    assert cli("run", spec).out.startswith(f"scale: PASSED on the cpu (no GPU: {available()})\n")


@pytest.mark.skipif(not available(), reason="a GPU is here")
def test_asking_for_a_gpu_where_there_is_none_is_not_an_answer(cli: Cli, spec: Path) -> None:
    answer = cli("run", spec, "--device", "gpu")
    assert (answer.status, answer.out) == (3, "")
    assert "CG5011" in answer.err


@pytest.fixture
def gpu_without_pycuda() -> Iterator[FakeGpu]:
    """A GPU that has the kernel `scale`."""

    def scale(x: np.uint64, y: np.uint64) -> None:
        gpu.view(y, 40)[:] = 2 * gpu.view(x, 40)

    with installed_gpu(has_pycuda=False) as gpu:
        gpu.kernels["scale"], gpu.parameters["scale"] = scale, ("uint64", "uint64")
        yield gpu


@pytest.mark.parametrize("device", ["gpu", "auto"])
def test_without_pycuda_a_kernel_runs_and_is_checked_through_the_driver(
    cli: Cli, spec: Path, gpu_without_pycuda: FakeGpu, device: str
) -> None:
    answer = cli("run", spec, "--device", device, "--repeat", "3")
    assert answer.status == 0
    assert answer.out.startswith("scale: PASSED on the gpu\n")
    assert answer.err.startswith("running through the CUDA driver without PyCUDA (")
    assert "; `cugen setup gpu` builds it\n" in answer.err
    assert gpu_without_pycuda.allocated == set()
    content = json.loads(cli("run", spec, "--device", device, "--json").out)
    assert (content["device"], content["passed"], content["checked"]) == ("gpu", True, "all")


def test_without_pycuda_a_wrong_result_of_the_gpu_is_seen(cli: Cli, spec: Path, gpu_without_pycuda: FakeGpu) -> None:
    gpu_without_pycuda.kernels["scale"] = lambda x, y: None
    answer = cli("run", spec, "--device", "gpu")
    assert answer.status == 1
    assert "y[" in answer.out


def test_a_wrong_result_exits_1_and_names_the_worst_element(cli: Cli, spec: Path, broken: Any) -> None:
    broken("2.0f *", "3.0f *")
    answer = cli("run", spec, "--device", "cpu", "--json")
    content = json.loads(answer.out)
    assert (answer.status, content["passed"]) == (1, False)
    text = cli("run", spec, "--device", "cpu")
    assert text.status == 1
    assert text.out.startswith("scale: FAILED")
    assert "y[" in content["worst"]
    assert content["worst"] in text.out


@pytest.mark.slow
def test_a_fault_is_shown_with_its_lines_of_the_source(cli: Cli, spec: Path, broken: Any) -> None:
    broken("    y[i] =", "    y[i + 40] =")
    answer = cli("run", spec, "--device", "cpu", "--sanitize")
    assert answer.status == 1
    assert "out of bounds" in answer.out
    marked = [line for line in answer.out.splitlines() if " > " in line]
    assert len(marked) == 1
    assert "y[i + 40]" in marked[0]


def test_source_that_a_compiler_refuses_is_an_own_fault_with_the_line_quoted(cli: Cli, spec: Path, broken: Any) -> None:
    broken("    y[i] =", "    nonsense =")
    answer = cli("run", spec, "--device", "cpu")
    assert (answer.status, answer.out) == (4, "")
    assert "error[CG4001]" in answer.err
    assert "nonsense" in answer.err


def test_the_users_arrays_go_in_and_results_come_out(cli: Cli, spec: Path, tmp_path: Path) -> None:
    x = np.arange(40, dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    words = ("--input", f"x={tmp_path / 'x.npy'}", "--output", f"y={tmp_path / 'y.npy'}")
    answer = cli("run", spec, "--device", "cpu", *words)
    assert answer.status == 0
    assert "x from" in answer.out
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), 2 * x)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--input", "z=x.npy"), "CG5004"),
        (("--input", "y=x.npy"), "CG5004"),
        (("--output", "x=x.npy"), "CG5004"),
        (("--input", "x=nowhere.npy"), "CG5001"),
        (("--output", "y=y.txt"), ".npy, .png"),
        (("--output", "y=y.png"), "CG5002"),
        (("--output", "y=nowhere/y.npy"), "no such folder: nowhere"),
        (("--output", "y=folder.npy"), "this is a folder"),
        (("--input", "x"), "NAME=VALUE"),
        (("--device", "gpu", "--sanitize"), "--sanitize"),
        (("--kernel", "other"), "CG1051"),
        (("--seed", "-1"), "--seed"),
        (("--repeat", "0"), "at least 1"),
        (("--target", "sm_1"), "CG1049"),
    ],
)
def test_a_wrong_call_names_what_is_wrong(
    cli: Cli, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: str
) -> None:
    (tmp_path / "folder.npy").mkdir()
    monkeypatch.chdir(tmp_path)
    answer = cli("run", spec, *words)
    assert (answer.status, answer.out) == (2, "")
    assert code in answer.err


def test_two_outputs_have_two_files(cli: Cli, spec: Path, tmp_path: Path) -> None:
    text = spec.read_text().replace("arrays:", "arrays:\n  z: {shape: [N], dtype: float32}", 1)
    spec.write_text(text.replace("compute: ", "compute: |\n  z[i] = x[i]\n  ", 1))
    words = ("--output", f"y={tmp_path / 'y.npy'}", "--output", f"z={tmp_path / 'folder' / '..' / 'y.npy'}")
    (tmp_path / "folder").mkdir()
    answer = cli("run", spec, "--device", "cpu", *words)
    assert (answer.status, answer.out) == (2, "")
    assert "`y` is saved in this file" in answer.err


def test_an_input_of_the_wrong_shape_is_refused_before_anything_runs(cli: Cli, spec: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(41, np.float32))
    answer = cli("run", spec, "--input", f"x={tmp_path / 'x.npy'}")
    assert (answer.status, answer.out) == (2, "")
    assert "[41]" in answer.err
    assert "[40]" in answer.err


def test_dynamic_params_and_scalars_come_from_set(cli: Cli, dynamic_spec: Path, tmp_path: Path) -> None:
    x = np.ones(12, np.float32)
    np.save(tmp_path / "x.npy", x)
    words = ("--set", "N=12", "--set", "c=0.5", "--input", f"x={tmp_path / 'x.npy'}", "--output", f"y={tmp_path}/y.npy")
    assert cli("run", dynamic_spec, "--device", "cpu", *words).status == 0
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.full(12, 1.5, np.float32))


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "--set N=64"), (("--set", "N=13"), "CG1023"), (("--set", "N=2000"), "CG1023"), (("--set", "N=8"), "N != 8")],
)
def test_a_dynamic_param_needs_an_allowed_value(
    cli: Cli, dynamic_spec: Path, words: tuple[str, ...], said: str
) -> None:
    answer = cli("run", dynamic_spec, "--device", "cpu", *words)
    assert (answer.status, answer.out) == (2, "")
    assert said in answer.err


def test_several_kernels_are_listed_in_json_and_one_can_be_chosen(cli: Cli, spec: Path) -> None:
    spec.write_text(spec.read_text().replace("N: 40", "N: $n") + "variants: {n: [10, 20]}\n")
    both = json.loads(cli("run", spec, "--device", "cpu", "--json").out)
    assert [kernel["kernel"] for kernel in both["kernels"]] == ["scale__10", "scale__20"]
    chosen = json.loads(cli("run", spec, "--device", "cpu", "--json", "--kernel", "scale__20").out)
    assert chosen["kernel"] == "scale__20"
    assert cli("run", spec, "--device", "cpu", "--output", "y=y.npy").status == 2


def test_the_order_of_threads_and_the_seed_do_not_matter_to_a_right_kernel(cli: Cli, spec: Path) -> None:
    assert cli("run", spec, "--device", "cpu", "--shuffle", "7", "--seed", "3").status == 0


ROOTS = """\
cugen: 1
kernel: roots
params: {N: 100}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
  z: {shape: [N], dtype: float32}
compute: |
  y[i] = sqrt(x[i]) / 0.0
  z[i] = 2 * x[i]
"""


def test_nan_and_infinities_that_the_reference_has_too_are_counted_and_warned_of(cli: Cli, tmp_path: Path) -> None:
    file, x = tmp_path / "roots.yaml", np.ones(100, np.float32)
    x[:30] = -1
    file.write_text(ROOTS)
    np.save(tmp_path / "x.npy", x)
    words = ("run", file, "--device", "cpu", "--input", f"x={tmp_path / 'x.npy'}")
    answer = cli(*words)
    assert answer.status == 0
    assert answer.err.startswith("warning[CG5016]")
    counts = "y: 30 NaN and 70 infinities in 100 elements; reference: 30 and 70"
    assert counts in answer.err
    assert counts in answer.out
    content = json.loads(cli(*words, "--json").out)
    expected = {"array": "y", "compared": 100, "nan": 30, "inf": 70, "reference_nan": 30, "reference_inf": 70}
    assert (content["passed"], content["nonfinite"]) == (True, [expected])


def test_nan_that_the_reference_has_too_is_an_error_on_request(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "roots.yaml"
    file.write_text(ROOTS)
    answer = cli("run", file, "--device", "cpu", "--nan", "error")
    assert answer.status == 1
    assert answer.out.startswith("roots: FAILED")
    assert answer.err.startswith("error[CG5016]")


def test_a_result_that_is_not_finite_where_the_reference_is_differs(cli: Cli, spec: Path, broken: Any) -> None:
    broken("2.0f *", "(0.0f / 0.0f) *")
    answer = cli("run", spec, "--device", "cpu", "--json")
    content = json.loads(answer.out)
    assert (answer.status, content["passed"], content["nonfinite"]) == (1, False, [])


def with_default(path: Path) -> Path:
    path.write_text(path.read_text().replace("multiple_of: 4", "multiple_of: 4, default: 16"))
    return path


def params_of(answer: Any) -> list[tuple[str, int, str]]:
    return [tuple(value.values()) for value in json.loads(answer.out)["dynamic_params"]]


def test_all_params_without_a_value_are_named(cli: Cli, tmp_path: Path) -> None:
    spec = tmp_path / "fill.yaml"
    spec.write_text(
        "cugen: 1\nkernel: fill\nparams: {M: dynamic, N: {multiple_of: 48}, K: 3}\n"
        "arrays: {y: {shape: [M, N], dtype: float32}}\ncompute: y[i, j] = K\n"
    )
    answer = cli("run", spec, "--device", "cpu")
    assert answer.status == 2
    assert "fill needs values for the params `M`, `N`\n  = help: such as --set M=64 --set N=96" in answer.err


def test_a_dynamic_param_has_its_default_in_a_run_without_options(cli: Cli, dynamic_spec: Path) -> None:
    answer = cli("run", with_default(dynamic_spec), "--device", "cpu")
    assert answer.status == 0
    assert "N = 16 (default)" in answer.out


def test_a_set_value_comes_before_a_shape_and_a_shape_before_the_default(
    cli: Cli, dynamic_spec: Path, tmp_path: Path
) -> None:
    np.save(tmp_path / "x.npy", np.ones(12, np.float32))
    words = ("run", with_default(dynamic_spec), "--device", "cpu", "--json")
    read = ("--input", f"x={tmp_path / 'x.npy'}")
    assert params_of(cli(*words, "--set", "N=12", *read)) == [("N", 12, "--set")]
    assert params_of(cli(*words, *read)) == [("N", 12, "shape of x")]
    assert params_of(cli(*words)) == [("N", 16, "default")]


@pytest.mark.parametrize("file", ["x.npy", "x.npz"])
def test_a_dynamic_param_is_the_extent_of_an_array_that_is_read(
    cli: Cli, dynamic_spec: Path, tmp_path: Path, file: str
) -> None:
    x = np.ones(20, np.float32)
    if file == "x.npy":
        np.save(tmp_path / file, x)
    else:
        np.savez(tmp_path / file, x=x)
    answer = cli("run", dynamic_spec, "--device", "cpu", "--json", "--input", f"x={tmp_path / file}")
    assert params_of(answer) == [("N", 20, "shape of x")]


def test_a_param_that_gives_an_array_a_negative_extent_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "windows.yaml").write_text(
        "cugen: 1\nkernel: windows\nparams: {N: dynamic}\nindices: {k: 8}\narrays:\n"
        "  x: {shape: [N], dtype: float32}\n  y: {shape: [N - 7], dtype: float32}\ncompute: y[i] = max(x[i + k], k)\n"
    )
    answer = cli("run", tmp_path / "windows.yaml", "--device", "cpu", "--set", "N=3")
    assert (answer.status, answer.out) == (2, "")
    assert "error[CG5009]: dimension 0 of `y` would have -4 elements for N = 3" in answer.err


@pytest.mark.parametrize(("length", "said"), [(13, "a multiple of 4"), (1004, "from 0 to 1000"), (8, "N != 8")])
def test_a_shape_that_gives_a_param_a_value_it_may_not_have_is_refused(
    cli: Cli, dynamic_spec: Path, tmp_path: Path, length: int, said: str
) -> None:
    np.save(tmp_path / "x.npy", np.ones(length, np.float32))
    answer = cli("run", dynamic_spec, "--device", "cpu", "--input", f"x={tmp_path / 'x.npy'}")
    assert (answer.status, answer.out) == (2, "")
    assert "CG5009" in answer.err
    assert said in answer.err


def test_scalars_that_nobody_set_are_printed_with_the_seed(cli: Cli, dynamic_spec: Path) -> None:
    words = ("run", dynamic_spec, "--device", "cpu", "--set", "N=16", "--seed", "3")
    (drawn,) = json.loads(cli(*words, "--json").out)["scalars"]
    assert (drawn["name"], drawn["origin"]) == ("c", "drawn, seed 3")
    assert f"c = {drawn['value']} (drawn, seed 3)" in cli(*words).out
    assert "c = 0.5 (--set)" in cli(*words, "--set", "c=0.5").out
