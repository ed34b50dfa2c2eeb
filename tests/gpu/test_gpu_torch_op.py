"""Operators of PyTorch on the GPU: the current stream, the allocator, graphs, the compiler and wrong tensors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import cugen
from cugen.abi.errors import RunError
from cugen.runtime.gpu import GpuDevice
from cugen.spec.load import load_text

pytestmark = pytest.mark.gpu

SOFTMAX = """\
cugen: 1
kernel: softmax
params: {M: dynamic, N: 1000}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M, N], dtype: float32}
compute: y[m, n] = exp(x[m, n] - max(x[m, j], j)) / sum(exp(x[m, l] - max(x[m, j], j)), l)
"""
# Two launches with a workspace between them, and a scalar in constant memory.
TOTAL = """\
cugen: 1
kernel: total
params: {N: 10000000}
scalars: {c: {dtype: float32, memory: constant}}
arrays:
  x: {shape: [N], dtype: float32}
  s: {shape: [1], dtype: float32}
compute: s[i] = c * sum(x[n], n)
"""


@pytest.fixture
def torch(device: GpuDevice) -> Any:
    return pytest.importorskip("torch", reason="NOT TESTED: PyTorch is not installed")


def made(text: str) -> Any:
    return cugen.torch_op(load_text(text)[0])


def test_results_and_the_checks_of_pytorch(torch: Any) -> None:
    op, x = made(SOFTMAX), torch.randn(77, 1000, device="cuda")
    torch.testing.assert_close(op(x), torch.softmax(x, -1))
    torch.library.opcheck(op, (x,))


def test_work_on_another_stream_is_in_its_order(torch: Any) -> None:
    op, stream = made(SOFTMAX), torch.cuda.Stream()
    x = torch.zeros(64, 1000, device="cuda")
    op(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        x.normal_()
        y = op(x)
    stream.synchronize()
    torch.testing.assert_close(y, torch.softmax(x, -1))


@pytest.mark.parametrize(
    ("text", "arguments"), [pytest.param(SOFTMAX, (), id="softmax"), pytest.param(TOTAL, (2.0,), id="total")]
)
def test_a_captured_graph_plays_again_on_new_numbers(torch: Any, text: str, arguments: tuple[float, ...]) -> None:
    op = made(text)
    x = torch.rand(*((50, 1000) if text is SOFTMAX else (10_000_000,)), device="cuda")
    op(x, *arguments)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = op(x, *arguments)
    for _ in range(3):
        x.uniform_()
        torch.empty(1 << 20, device="cuda").fill_(float("nan"))  # what would hurt a workspace that was given back
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y, op(x, *arguments))


def test_the_compiler_takes_it_whole(torch: Any) -> None:
    op = made(SOFTMAX)
    compiled = torch.compile(lambda x: op(2 * x) + 1, fullgraph=True)
    x = torch.randn(33, 1000, device="cuda")
    torch.testing.assert_close(compiled(x), torch.softmax(2 * x, -1) + 1)


def test_tensors_that_do_not_fit_are_named(torch: Any) -> None:
    op = made(SOFTMAX)
    good = torch.randn(8, 1000, device="cuda")
    for bad, code in (
        (good.double(), "CG5003"),
        (good[:, :999], "CG5002"),
        (torch.randn(8, 2000, device="cuda")[:, ::2], "CG5006"),
    ):
        with pytest.raises(RunError, match=f"{code}.*`x`"):
            op(bad)


def test_a_gradient_is_the_callers(torch: Any) -> None:
    op = made(SOFTMAX)
    x = torch.randn(8, 1000, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        op(x).sum().backward()


def test_the_example_runs(torch: Any) -> None:
    example = Path(__file__).parents[2] / "examples" / "torch_op" / "norm.py"
    done = subprocess.run([sys.executable, str(example)], check=True, capture_output=True, text=True)
    assert "on cuda: forward, backward and compiled agree" in done.stdout
