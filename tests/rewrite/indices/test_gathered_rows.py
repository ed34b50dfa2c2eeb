"""Elements that are gathered from rows are computed there: a loss of a log-softmax stores no other probability."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

PROBABILITIES = "p[n, v] = log_softmax(x[n, v], v)\n"
GATHERED = [
    pytest.param(f"{PROBABILITIES}y[n] = -p[n, t[n]]", id="of each row"),
    pytest.param(f"{PROBABILITIES}loss = -mean(p[n, t[n]], n)", id="a mean"),
    pytest.param(f"{PROBABILITIES}loss = mean(-0.9 * p[n, t[n]] - 0.1 * mean(p[n, v], v), n)", id="smoothed labels"),
    pytest.param(f"{PROBABILITIES}z[n, k] = p[n, i[n, k]]", id="several of a row"),
    pytest.param("p[n, c, v] = softmax(q[n, c, v], c)\nloss = sum(p[n, u[n, v], v], n, v)", id="of columns"),
]
OTHERS = [
    pytest.param(f"{PROBABILITIES}y[n] = p[t[n], 0]", id="rows that are gathered"),
    pytest.param(f"{PROBABILITIES}y[n] = p[n, t[n]]\nw[n, v] = exp(p[n, v])", id="two readers"),
    pytest.param(f"{PROBABILITIES}x[n, 0] += p[n, t[n]]", id="an array that is updated"),
    pytest.param("p[n, v] = cumsum(x[n, v], v)\ny[n] = p[n, t[n]]", id="a scan"),
]
ARRAYS = {
    "x": ("[N, V]", "float32"),
    "q": ("[N, C, V]", "float32"),
    "t": ("[N]", "int64"),
    "i": ("[N, K]", "int32"),
    "u": ("[N, V]", "int64"),
    "y": ("[N]", "float32"),
    "z": ("[N, K]", "float32"),
    "w": ("[N, V]", "float32"),
}


def kernel_of(compute: str, sizes: str):
    used = {name: each for name, each in ARRAYS.items() if f"{name}[" in compute}
    arrays = [f"  {name}: {{shape: {shape}, dtype: {dtype}}}" for name, (shape, dtype) in used.items()]
    arrays += ["  loss: {shape: [], dtype: float32}"] if "loss" in compute else []
    body = [f"  {line}" for line in compute.splitlines()]
    head = ["cugen: 1", "kernel: f", f"params: {{{sizes}}}"]
    (spec,) = load_text("\n".join([*head, "arrays:", *arrays, "compute: |", *body]))
    return generate(spec, analysis=False)


def stored(kernel) -> set[str]:
    return {array.name for array in kernel.plan.workspace}


@pytest.mark.parametrize("compute", GATHERED)
def test_rows_are_not_stored(compute):
    assert not stored(kernel_of(compute, "N: 4096, V: 8000, C: 21, K: 5")) & {"p"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("compute", GATHERED)
def test_their_results_are_right(compute):
    kernel = kernel_of(compute, "N: 37, V: 129, C: 21, K: 5")
    assert not stored(kernel) & {"p"}
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


@pytest.mark.parametrize("compute", OTHERS)
def test_others_are(compute):
    assert "p" in stored(kernel_of(compute, "N: 4096, V: 8000"))
