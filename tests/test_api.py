"""The Python API: what `import cugen` gives, and one call that returns its outputs."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import cugen
import cugen.api
from cugen.abi.errors import RunError
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.device import Job, Outcome
from cugen.runtime.devices import Choice

PRODUCT = """\
cugen: 1
kernel: product
params: {M: {range: [1, 64]}, K: 9, N: 7}
scalars: {alpha: {dtype: float32}}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32, layout: column}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = alpha * sum(A[m, k] * B[k, n], k)
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> cugen.Kernel:
    path = tmp_path_factory.mktemp("api") / "product.yaml"
    path.write_text(PRODUCT)
    return cugen.generate(cugen.load(path))


A = np.arange(45, dtype=np.float32).reshape(5, 9) % 7
B = np.arange(63, dtype=np.float32).reshape(9, 7) % 5


def test_every_name_of_the_package_is_there() -> None:
    assert dir(cugen) == sorted(cugen.__all__)
    assert all(getattr(cugen, name) is not None for name in cugen.__all__)
    with pytest.raises(AttributeError, match="nonsense"):
        _ = cugen.nonsense


def test_a_call_returns_the_outputs_and_takes_params_from_shapes(kernel: cugen.Kernel) -> None:
    result = cugen.run(kernel, A=A, B=B, alpha=2.0, device="cpu")
    assert list(result) == ["C"]
    np.testing.assert_array_equal(result["C"], 2 * A @ B)


def test_a_spec_is_as_good_as_a_kernel_and_lists_as_good_as_arrays(kernel: cugen.Kernel) -> None:
    result = cugen.run(kernel.spec, A=A, B=B.astype(np.float32).T.copy().T, alpha=1, M=5, device="cpu")
    np.testing.assert_array_equal(result["C"], A @ B)


def test_a_spec_without_a_target_is_for_the_device_and_a_kernel_stays_as_it_is(
    kernel: cugen.Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = []

    class Recorder(CpuDevice):
        capability = "sm_90"

        def run(self, job: Job) -> Outcome:
            targets.append(job.manifest.target)
            return super().run(job)

    monkeypatch.setattr(cugen.api, "choose", lambda name: Choice(Recorder()))
    for what in (kernel.spec, replace(kernel.spec, states_target=True), kernel):
        assert cugen.run(what, A=A, B=B, alpha=2.0)["C"].shape == (5, 7)
    assert targets == ["sm_90a", "sm_90", "sm_90"]


def test_run_can_be_called_before_and_after_its_package_is_imported() -> None:
    program = "import cugen; assert callable(cugen.run); import cugen.runtime.device; assert callable(cugen.run)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def test_sizes_that_give_an_array_a_negative_extent_are_refused() -> None:
    text = """
    cugen: 1
    kernel: windows
    params: {N: dynamic}
    indices: {k: 8}
    arrays:
      x: {shape: [N], dtype: float32}
      y: {shape: [N - 7], dtype: float32}
    compute: y[i] = max(x[i + k], k)
    """
    with pytest.raises(cugen.RunError, match="dimension 0 of `y` would have -4 elements"):
        cugen.run(textwrap.dedent(text), x=np.zeros(3, np.float32), device="cpu")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"B": B, "alpha": 1.0}, "CG5005"),
        ({"A": A, "B": B}, "CG5005"),
        ({"A": A, "B": B, "alpha": 1.0, "C": A}, "CG5004"),
        ({"A": A, "B": B, "alpha": 1.0, "Q": 1}, "CG5004"),
        ({"A": A, "B": B.T, "alpha": 1.0}, "CG5002"),
        ({"A": A, "B": B, "alpha": 1.0, "M": 6}, "CG5002"),
        ({"A": A.astype(np.float64), "B": B, "alpha": 1.0}, "CG5003"),
        ({"A": np.zeros((65, 9), np.float32), "B": B, "alpha": 1.0}, "CG5009"),
        ({"A": A, "B": B, "alpha": "much"}, "CG5003"),
    ],
)
def test_an_argument_that_does_not_fit_is_refused_by_name(
    kernel: cugen.Kernel, arguments: dict[str, object], code: str
) -> None:
    with pytest.raises(RunError) as caught:
        cugen.run(kernel, device="cpu", **arguments)
    assert caught.value.code == code


def test_a_compiled_kernel_is_a_function_of_arrays(kernel: cugen.Kernel) -> None:
    function = kernel.compile(device="cpu")
    c = np.empty((5, 7), np.float32)
    function(A=A, B=np.asfortranarray(B), C=c, alpha=1.0)
    np.testing.assert_array_equal(c, A @ B)
    with pytest.raises(ValueError, match="device"):
        kernel.compile(device="tpu")


@pytest.mark.parametrize("function", [cugen.generate, cugen.analyze])
def test_the_name_of_a_file_is_no_spec_and_the_refusal_says_so(function: Any) -> None:
    with pytest.raises(TypeError, match="a Spec is needed, not str"):
        function("smooth.yaml")


def test_a_refused_spec_raises_with_all_its_findings(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(PRODUCT.replace("float32", "flaot32"))
    with pytest.raises(cugen.SpecError) as caught:
        cugen.load(path)
    assert len(caught.value.diagnostics) == 4


def test_specs_kernels_and_reports_show_themselves_in_a_line(kernel):
    shown = [repr(kernel.spec), repr(kernel), repr(cugen.analyze(kernel))]
    assert all("product" in text and len(text) < 120 and "\n" not in text for text in shown)


def test_functions_manifests_and_plans_show_themselves_in_a_line(kernel: cugen.Kernel) -> None:
    gpu, cpu = kernel.compile("gpu"), kernel.compile("cpu")
    assert (repr(gpu), repr(cpu)) == (
        "<GpuFunction product(A, B, C, alpha, M)>",
        "<CpuFunction product(A, B, C, alpha, M)>",
    )
    shown = [kernel.manifest, kernel.plan, kernel.plan.kernels[0], kernel.context]
    assert all("product" in repr(value) and len(repr(value)) < 120 for value in shown)


def test_outputs_show_themselves_in_a_line(kernel: cugen.Kernel) -> None:
    result = cugen.run(kernel, A=A, B=B, alpha=1, device="cpu")
    assert isinstance(result, dict)
    assert repr(result) == "<Result C: float32 (5, 7)>"


def test_a_text_and_a_mapping_are_loaded() -> None:
    for spec in (PRODUCT, yaml.safe_load(PRODUCT)):
        np.testing.assert_array_equal(cugen.run(spec, A=A, B=B, alpha=1, device="cpu")["C"], A @ B)


def test_a_path_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "product.yaml"
    path.write_text(PRODUCT)
    for spec in (path, str(path)):
        np.testing.assert_array_equal(cugen.run(spec, A=A, B=B, alpha=1, device="cpu")["C"], A @ B)


@pytest.mark.parametrize("device", ["banana", None, A])
def test_another_device_is_refused_with_those_that_there_are(kernel: cugen.Kernel, device: Any) -> None:
    with pytest.raises(ValueError, match='"auto", "gpu", "cpu"') as caught:
        cugen.run(kernel, A=A, B=B, alpha=1, device=device)
    assert len(str(caught.value)) < 250


NAMES = """\
cugen: 1
kernel: names
params: {stream: dynamic}
scalars: {device: {dtype: float32}}
arrays:
  values: {shape: [stream], dtype: float32}
  self: {shape: [stream], dtype: float32}
compute: self[i] = device * values[i]
"""
ARRAYS = """\
cugen: 1
kernel: arrays
params: {device: 6}
arrays:
  stream: {shape: [device], dtype: float32}
  y: {shape: [device], dtype: float32}
compute: y[i] = 2 * stream[i]
"""


@pytest.fixture
def named_kernel(tmp_path: Path, request: pytest.FixtureRequest) -> cugen.Kernel:
    path = tmp_path / "names.yaml"
    path.write_text(request.param)
    return cugen.generate(cugen.load(path))


@pytest.mark.parametrize("named_kernel", [NAMES], indirect=True, ids=["names"])
def test_arguments_called_as_options_of_the_call_are_passed_in_a_mapping(named_kernel: cugen.Kernel) -> None:
    x = np.arange(6, dtype=np.float32)
    result = cugen.run(named_kernel, {"device": 3.0, "stream": 6}, values=x, device="cpu")
    np.testing.assert_array_equal(result["self"], 3 * x)
    y = np.empty(6, np.float32)
    named_kernel.compile("cpu")({"device": 3.0, "stream": 6}, values=x, self=y)
    np.testing.assert_array_equal(y, 3 * x)


@pytest.mark.parametrize("named_kernel", [ARRAYS], indirect=True, ids=["arrays"])
def test_an_array_called_stream_is_passed_in_a_mapping_and_the_refusal_says_so(named_kernel: cugen.Kernel) -> None:
    x, y = np.arange(6, dtype=np.float32), np.empty(6, np.float32)
    function = named_kernel.compile("cpu")
    function({"stream": x}, y=y)
    np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_array_equal(cugen.run(named_kernel, stream=x, device="cpu")["y"], 2 * x)
    for arguments in ({"stream": x, "y": y}, {"y": y}):
        with pytest.raises(RunError, match=r'\{"stream": …\}'):
            function(**arguments)
    with pytest.raises(RunError, match=r"CG5004.*`y` of arrays is given twice"):
        function({"stream": x, "y": y}, y=y)
