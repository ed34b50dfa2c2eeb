"""The object of one benchmark: what it promises, with a device, a compiler and a library of the tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cugen.bench import measure
from cugen.bench.buffers import DeviceArray
from cugen.bench.libraries import Absent
from cugen.bench.measure import Options, bench
from cugen.bench.peers import Called
from cugen.bench.translation.dialects import NumPy
from cugen.cli.text.bench import text
from cugen.reference.evaluate import evaluate
from cugen.reference.storage import numpy_dtype
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.toolchain.cuda import Cubin, KernelResources

SCALE = """\
cugen: 1
kernel: scale
params: {N: 600}
scalars: {a: {dtype: float32}}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = a * x[i]
"""
SUM = """\
cugen: 1
kernel: total
params: {N: 600}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [], dtype: float32}
compute: y = sum(x[i], i)
"""
PRODUCT = """\
cugen: 1
kernel: product
params: {N: 16}
arrays:
  A: {shape: [N, N], dtype: float32}
  B: {shape: [N, N], dtype: float32}
  C: {shape: [N, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""


FEW = Options(samples=5)


def host(session: Any, given: DeviceArray) -> np.ndarray[Any, Any]:
    array = given.array
    flat = session.bytes_at(given.address, array.bytes).view(numpy_dtype(array.dtype))
    steps = tuple(stride * array.dtype.bytes for stride in array.strides)
    return np.lib.stride_tricks.as_strided(flat, array.shape, steps)


class HostLibrary:
    """NumPy, on the memory of the tests' session."""

    name, version, dialect = "cupy", "0.0", NumPy("numpy")

    def __init__(self, session: Any) -> None:
        self.session = session
        self.released = False

    def array(self, given: DeviceArray) -> Any:
        return host(self.session, given)

    def on_stream(self, peer: Any) -> Any:
        return peer

    def compiled(self, peer: Any) -> Any:
        return peer

    def namespace(self) -> Mapping[str, Any]:
        return {"numpy": np}

    def difference(self, got: Any, expected: Any) -> tuple[float, float]:
        return float(np.max(np.abs(got - expected))), float(np.max(np.abs(expected)))

    def release(self) -> None:
        self.released = True


@pytest.fixture
def run(fake: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Benchmarks a text on the tests' device; `wrong` is added to every result, and
    an `unsteady` one changes by a bit after some runs."""

    def go(content: str, options: Options = FEW, wrong: float = 0.0, unsteady: bool = False) -> dict[str, Any]:
        (spec,) = load_text(content)
        library = HostLibrary(fake)

        class Reference:
            def __init__(self, source: str, manifest: Any) -> None:
                self.calls = 0

            def __call__(self, *, stream: Any, **given: Any) -> None:
                arrays = {n: host(fake, a) for n, a in given.items() if isinstance(a, DeviceArray)}
                scalars = {n: a for n, a in given.items() if not isinstance(a, DeviceArray)}
                self.calls += 1
                last_bit = 1 + 1e-7 * (unsteady and self.calls > 50)
                for name, result in _evaluated(spec, arrays, scalars).items():
                    arrays[name][...] = result * last_bit + wrong

        def known(name: str, stream: int) -> Any:
            if name != "cupy":
                raise Absent(f"{name} isn't here")
            return library

        kernels = {name: KernelResources(32, 0, 8, 4, 0, 0) for name in (spec.kernel,)}
        cubin = Cubin(b"", "", kernels, 0.5, "nvrtc of the tests", False)
        monkeypatch.setattr(measure, "compile_cubin", lambda *_: cubin)
        monkeypatch.setattr(measure, "GpuFunction", Reference)
        monkeypatch.setattr(measure, "GpuDevice", lambda: None)
        monkeypatch.setattr(measure, "check_as_run", lambda *_: None)
        monkeypatch.setattr(measure, "library", known)
        content = bench(fake, spec, {}, options)
        assert json.loads(json.dumps(content)) == content
        return content

    return go


def _evaluated(spec: Spec, arrays: Mapping[str, Any], scalars: Mapping[str, Any]) -> dict[str, Any]:
    inputs = {a.name: arrays[a.name].copy() for a in spec.arrays if a.role in ("input", "inout")}
    return {name: result.value for name, result in evaluate(spec, inputs, scalars=scalars).items()}


def test_the_object_has_what_it_promises(run: Any) -> None:
    content = run(SCALE)
    assert (content["kernel"], content["passed"], content["target"]) == ("scale", True, "sm_90")
    assert (content["bytes"], content["bytes_written"], content["flop"]) == (4800, 2400, 600)
    assert (content["ceiling"], content["compile_ms"], content["compile_cached"]) == ("copy", 500.0, False)
    (launch,) = content["launches"]
    assert (launch["registers"], launch["spill_bytes"]) == (32, 12)
    assert 0 < launch["occupancy"] <= 1
    assert list(content["regimes"]) == ["cold", "warm", "graph"]
    for rows in content["regimes"].values():
        assert [row["name"] for row in rows] == ["cugen", "copy"]
        assert all(row["samples"] == 5 for row in rows)
    ours = content["regimes"]["cold"][0]
    assert (ours["median_us"], ours["p10_us"], ours["p90_us"]) == (10.0, 10.0, 10.0)
    assert (ours["gb_per_s"], ours["gflop_per_s"]) == (0.48, 0.06)
    assert (ours["share_of_ceiling"], ours["ratio"]) == (1.0, 1.0)


def test_a_reduction_is_held_to_reading(run: Any) -> None:
    content = run(SUM)
    assert content["ceiling"] == "read"
    assert [row["name"] for row in content["regimes"]["cold"]] == ["cugen", "copy", "read"]


def test_a_wrong_kernel_is_not_timed(run: Any) -> None:
    content = run(SCALE, wrong=0.25)
    assert not content["passed"]
    assert content["regimes"] == {}
    assert "elements differ" in content["messages"][0]
    assert text(content, quiet=False).startswith("scale: FAILED (all of its elements checked)")


def test_results_that_change_from_run_to_run_are_no_pass(run: Any) -> None:
    assert run(SCALE)["reruns"] == 100
    content = run(SCALE, unsteady=True)
    assert not content["passed"]
    assert "gave other bits than the first" in content["messages"][0]


def test_peers_take_part_or_say_why_not(run: Any) -> None:
    content = run(SCALE, replace(FEW, against=("torch", "cupy")))
    torch, cupy = content["peers"]
    assert (torch["name"], torch["absent"]) == ("torch", "torch isn't here")
    assert (cupy["absent"], cupy["difference"]) == ("", 0.0)
    assert "return (y,)" in cupy["source"]
    assert [row["name"] for row in content["regimes"]["warm"]] == ["cugen", "cupy", "copy"]
    said = text(content, quiet=False)
    assert "no peer    torch: torch isn't here" in said
    assert "peer       cupy 0.0: y = " in said


def test_a_peer_that_differs_is_not_timed(run: Any) -> None:
    wrong = Called("cupy", "a wrong one", "def peer(x):\n    return (x + 1,)\n")
    content = run(SCALE, replace(FEW, called=(wrong,)))
    (peer,) = content["peers"]
    assert "differs from ours" in peer["absent"]
    assert [row["name"] for row in content["regimes"]["cold"]] == ["cugen", "copy"]


def test_a_given_peer_needs_no_translation(run: Any) -> None:
    halves = "".join(line for line in SCALE.splitlines(True) if "scalars" not in line).replace("a * x[i]", "x[i // 2]")
    given = Called("cupy", "repeated", "def peer(x):\n    return (numpy.repeat(x[:300], 2),)\n")
    translated, called = run(halves, replace(FEW, against=("cupy",), called=(given,)))["peers"]
    assert "`//`" in translated["absent"]
    assert (called["name"], called["absent"]) == ("repeated", "")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return (x[:5],)", "shape (5,)"),
        ("return (x.astype('float64'),)", "float64"),
        ("return (x.nothing,)", "AttributeError"),
    ],
)
def test_a_peer_of_another_form_says_so(run: Any, body: str, reason: str) -> None:
    called = Called("cupy", "odd", f"def peer(x):\n    {body}\n")
    (peer,) = run(SCALE, replace(FEW, called=(called,)))["peers"]
    assert reason in peer["absent"]


def test_a_product_is_held_to_its_peer(run: Any) -> None:
    content = run(PRODUCT, replace(FEW, against=("cupy",)))
    assert content["ceiling"] == "cupy"
    assert "the ceiling is the time of cupy" in text(content, quiet=False)


def test_a_product_asks_for_pytorch_by_itself_and_does_without(run: Any) -> None:
    content = run(PRODUCT)
    assert [peer["name"] for peer in content["peers"]] == ["torch"]
    assert content["ceiling"] == "copy"


def test_the_table_has_a_line_for_each_contender_and_regime(run: Any) -> None:
    content = run(SCALE)
    lines = text(content, quiet=True).splitlines()
    assert lines[0] == "scale: map on a GPU of the tests"
    assert [line.split()[0] for line in lines[1:]] == [
        "cold",
        "cugen",
        "copy",
        "warm",
        "cugen",
        "copy",
        "graph",
        "cugen",
        "copy",
    ]


def test_memory_is_given_back_whatever_happens(run: Any, fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.l2_bytes = 1 << 18
    run(SCALE)
    assert len(fake.released) == 3  # the sets, the copy's target, and what empties the cache
    monkeypatch.setattr(fake, "times_us", lambda works: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(SCALE)
    assert len(fake.released) == 6
