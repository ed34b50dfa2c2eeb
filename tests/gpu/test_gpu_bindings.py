"""`run`, `bench`, `tune` and compiled kernels are launched through PyCUDA in contexts that cugen makes current, and
through libcuda in those of other libraries: the other way fails here."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cugen
from cugen.bench.measure import Options, bench
from cugen.bench.session import session
from cugen.kernel import Kernel, generate
from cugen.runtime.cuda import libcuda, pycuda_binding
from cugen.runtime.cuda.binding import Binding
from cugen.runtime.cuda.choice import binding
from cugen.runtime.cuda.libcuda_binding import LibcudaBinding
from cugen.runtime.cuda.pycuda_binding import PyCudaBinding, missing_pycuda
from cugen.runtime.gpu import GpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.toolchain.binary.elf import parameters
from cugen.toolchain.cuda import compile_cubin
from cugen.tune.timing.messages import opening, request
from cugen.tune.timing.worker import Bench

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[2]

# Two launches with a workspace between them, and a scalar in constant memory.
TOTAL = """\
cugen: 1
kernel: total_of_bindings
params: {N: 100000}
scalars: {c: {dtype: float32, memory: constant}}
arrays:
  x: {shape: [N], dtype: float32}
  s: {shape: [1], dtype: float32}
compute: s[i] = c * sum(x[n], n)
"""
SLIDE = """\
cugen: 1
kernel: slide_of_bindings
params: {N: 100000}
arrays:
  x: {shape: [N], dtype: float32, memory: texture, boundary: zero}
  y: {shape: [N], dtype: float32}
compute: y[i] = x[i - 1] + x[i + 2]
"""
# Tensor maps, and after them a scalar of two bytes.
PRODUCT = """\
cugen: 1
kernel: product_of_bindings
params: {M: 256, N: 384, K: 512}
scalars: {a: {dtype: float16}}
arrays:
  A: {shape: [M, K], dtype: bfloat16}
  B: {shape: [K, N], dtype: bfloat16}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = a * sum(A[m, k] * B[k, n], k)
"""
TEXTS = [pytest.param(TOTAL, id="constants"), pytest.param(SLIDE, id="textures"), pytest.param(PRODUCT, id="maps")]


@pytest.fixture(autouse=True)
def pycuda(device: GpuDevice) -> Any:
    assert not missing_pycuda(), "cugen setup gpu"
    import pycuda.driver

    return pycuda.driver


def refused(*_: Any) -> None:
    raise AssertionError("launched the other way")


@pytest.fixture
def only_pycuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libcuda.Driver, "launch", refused)


@pytest.fixture
def only_libcuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pycuda_binding._KernelFunction, "launch", refused)


def spec_of(text: str) -> Spec:
    (spec,) = load_text(text)
    return spec.for_device(GpuDevice().capability)


def kernel_of(text: str) -> Kernel:
    kernel = generate(spec_of(text))
    assert bool(kernel.manifest.tensor_maps) == (text is PRODUCT and GpuDevice().capability == "sm_90")
    return kernel


@pytest.mark.parametrize("text", TEXTS)
def test_a_run_is_pycuda_s(device: GpuDevice, only_pycuda: None, text: str) -> None:
    kernel = kernel_of(text)
    run = verify(kernel.spec, kernel.source, kernel.manifest, device, repeat=2)
    assert run.verification.passed, run.verification.messages


@pytest.mark.parametrize("text", TEXTS)
def test_a_benchmark_is_pycuda_s(only_pycuda: None, text: str) -> None:
    with session() as opened:
        content = bench(opened, spec_of(text), {}, Options(samples=10))
    assert content["passed"], content["messages"]
    assert {"cold", "warm"} <= set(content["regimes"])


def test_the_times_of_a_search_are_pycuda_s(only_pycuda: None) -> None:
    kernel = kernel_of(PRODUCT)
    code = {"number": 0, "source": kernel.source, "manifest": kernel.manifest.to_json()}
    with session() as opened:
        answer = Bench(opened, opening(kernel.spec, {}, 0, code)).time(request([code], samples=10, budget_us=1e6))
    assert answer["failed"] == {}
    assert all(0 < time < 1000 for time in answer["times"]["0"])


@dataclass(frozen=True)
class Memory:
    """An array in device memory that no library holds."""

    cuda: Binding
    address: int
    shape: tuple[int, ...]
    typestr: str

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.typestr, "data": (self.address, False), "version": 3}


def memory(cuda: Binding, content: np.ndarray, typestr: str = "") -> Memory:
    address = cuda.allocate(content.nbytes)
    cuda.upload(address, content)
    return Memory(cuda, address, content.shape, typestr or content.dtype.str)


def fetched(array: Memory) -> np.ndarray:
    content = np.empty(array.shape, array.typestr)
    array.cuda.synchronize()
    array.cuda.fetch(content, array.address)
    return content


def without_a_context(work: Callable[[], None]) -> None:
    """Other tests leave contexts of libraries current in the main thread."""

    def checked() -> None:
        assert libcuda.driver().context() == 0
        work()
        assert libcuda.driver().context() == 0

    with ThreadPoolExecutor(1) as pool:
        pool.submit(checked).result()


def total(cuda: Binding) -> tuple[Memory, Memory]:
    return memory(cuda, np.ones(100_000, np.float32)), memory(cuda, np.zeros(1, np.float32))


def test_a_call_without_a_context_is_pycuda_s(only_pycuda: None) -> None:
    function = kernel_of(TOTAL).compile("gpu")
    cuda = binding()

    def work() -> None:
        with cuda.current(0):
            x, s = total(cuda)
        for c in (2.0, 3.0):
            function(x=x, s=s, c=c)
            with cuda.current(0):
                assert fetched(s)[0] == c * 100_000
        with cuda.current(0):
            cuda.release()

    without_a_context(work)


def test_a_call_in_a_context_of_pycuda_is_its_own_on_its_streams(pycuda: Any, only_pycuda: None) -> None:
    function = kernel_of(TOTAL).compile("gpu")

    def work() -> None:
        context = pycuda.Device(0).make_context()
        try:
            cuda = PyCudaBinding()
            x, s = total(cuda)
            stream = pycuda.Stream()
            for c, queue in ((2.0, None), (3.0, stream), (4.0, 0)):
                function(x=x, s=s, c=c, stream=queue)
                assert fetched(s)[0] == c * 100_000
            cuda.release()
            del stream, queue
        finally:
            context.pop()

    without_a_context(work)


def test_a_handle_in_a_context_of_pycuda_is_libcuda_s(pycuda: Any, only_libcuda: None) -> None:
    function = kernel_of(TOTAL).compile("gpu")

    def work() -> None:
        with PyCudaBinding().current(0):
            cuda = LibcudaBinding()
            x, s = total(cuda)
            function(x=x, s=s, c=2.0, stream=cuda.stream())
            assert fetched(s)[0] == 200_000
            cuda.release()

    without_a_context(work)


def test_the_wgmma_kernel_of_a_call_gets_its_tensor_maps(pycuda: Any, only_pycuda: None) -> None:
    function = kernel_of(PRODUCT).compile("gpu")
    draw = np.random.default_rng(1)
    a, b = (draw.integers(-4, 5, shape).astype(np.float32) for shape in ((256, 512), (512, 384)))

    def work() -> None:
        cuda = PyCudaBinding()
        with cuda.current(0):
            # Small integers have their bits in the upper half of float32.
            A, B = (memory(cuda, (m.view(np.uint32) >> 16).astype(np.uint16), "<V2") for m in (a, b))
            C = memory(cuda, np.zeros((256, 384), np.float32))
            stream = cuda.stream()
            function(A=A, B=B, C=C, a=0.5)
            function(A=A, B=B, C=C, a=0.5, stream=stream)
            assert np.array_equal(fetched(C), 0.5 * (a @ b))
            del stream
            cuda.release()

    without_a_context(work)


def test_a_graph_of_calls_plays_again_on_new_numbers(only_pycuda: None) -> None:
    function = kernel_of(TOTAL).compile("gpu")
    with session() as opened:
        x, s = opened.allocate(400_000), opened.allocate(4)
        arrays = {"x": Memory(binding(), x, (100_000,), "<f4"), "s": Memory(binding(), s, (1,), "<f4")}
        function(**arrays, c=2.0, stream=opened.stream)
        play, destroy = opened.captured([lambda: function(**arrays, c=2.0, stream=opened.stream)])
        for value in (1.0, 3.0):
            opened.upload(x, np.full(100_000, value, np.float32))
            play()
            assert opened.fetch(s, 1, np.dtype(np.float32)).view(np.float32)[0] == value * 200_000
        destroy()


def test_calls_with_tensors_of_pytorch_are_libcuda_s(only_libcuda: None) -> None:
    torch = pytest.importorskip("torch", reason="NOT TESTED: PyTorch is not installed")
    function, op = kernel_of(TOTAL).compile("gpu"), cugen.torch_op(load_text(TOTAL)[0])
    x, s, stream = torch.ones(100_000, device="cuda"), torch.zeros(1, device="cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    for c, queue in ((2.0, None), (3.0, stream), (4.0, torch.cuda.current_stream())):
        function(x=x, s=s, c=c, stream=queue)
        torch.cuda.synchronize()
        assert s.item() == c * 100_000
    assert op(x, 5.0).item() == 500_000


def test_tensors_of_pytorch_work_after_a_run_and_beside_a_session(device: GpuDevice) -> None:
    torch = pytest.importorskip("torch", reason="NOT TESTED: PyTorch is not installed")
    kernel = kernel_of(TOTAL)
    function, x = kernel.compile("gpu"), torch.ones(100_000, device="cuda")
    for c in (1.0, 2.0):
        assert verify(kernel.spec, kernel.source, kernel.manifest, device).verification.passed
        s = torch.zeros(1, device="cuda")
        with session() as opened:
            torch.cuda.synchronize()
            function(x=x, s=s, c=c, stream=opened.stream)
            opened.synchronize()
            assert s.item() == c * 100_000
        function(x=x, s=s, c=c + 5, stream=torch.cuda.current_stream())
        assert s.item() == (c + 5) * 100_000


def test_the_driver_has_the_parameters_where_the_cubin_says() -> None:
    cuda = libcuda.driver()
    if not hasattr(cuda._library, "cuFuncGetParamInfo"):
        pytest.skip("NOT TESTED: this driver doesn't say where parameters are")
    kernel = kernel_of(PRODUCT)
    image = compile_cubin(kernel.source, kernel.name, kernel.manifest.target).image
    with cuda.primary(0):
        module = cuda.load(image)
        for launch in kernel.manifest.launches:
            function = ctypes.c_void_p(cuda.function(module, launch.kernel))
            locations = parameters(image, launch.kernel)
            assert len(locations) == len(launch.tensor_maps) + len(launch.arguments)
            for number, location in enumerate(locations):
                offset, size = ctypes.c_size_t(), ctypes.c_size_t()
                cuda.call(
                    "cuFuncGetParamInfo", function, ctypes.c_size_t(number), ctypes.byref(offset), ctypes.byref(size)
                )
                assert (location.offset, location.size) == (offset.value, size.value)


FAULT_OF_A_SESSION = """
from cugen.abi.errors import RunError
from cugen.bench.session import session
from cugen.bench.protocol import Work
try:
    with session() as opened:
        opened.times_us([Work(lambda: opened.read(4096, 1 << 20))])
except RunError as error:
    print(error.code, error.message)
"""
FAULT_OF_A_RUN = """
from cugen.runtime.gpu import GpuDevice
from cugen.runtime.verify import verify
from tests.gpu.test_gpu_bindings import TOTAL, kernel_of
kernel = kernel_of(TOTAL)
start = kernel.source.index("{", kernel.source.index("__global__")) + 1
source = kernel.source[:start] + " *(volatile int*)16 = 1; " + kernel.source[start:]
print(verify(kernel.spec, source, kernel.manifest, GpuDevice()).outcome.faults)
"""
CALLS_OF_THREADS = """
from threading import Thread
from cugen.runtime.cuda.choice import binding
from tests.gpu.test_gpu_bindings import TOTAL, fetched, kernel_of, total

function, cuda, sums = kernel_of(TOTAL).compile("gpu"), binding(), []
def call():
    with cuda.current(0):
        x, s = total(cuda)
    function(x=x, s=s, c=2.0)
    with cuda.current(0):
        sums.append(fetched(s)[0])
        cuda.release()
for _ in range(2):
    thread = Thread(target=call)
    thread.start()
    thread.join()
call()
assert sums == [200_000] * 3
"""


def ended(program: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("program", [FAULT_OF_A_SESSION, FAULT_OF_A_RUN], ids=["session", "run"])
def test_a_fault_is_reported_and_no_crash_at_the_end(program: str) -> None:
    assert "Synchronize failed: an illegal memory access was encountered" in ended(program).stdout


def test_calls_of_threads_that_ended_leave_no_warning_behind() -> None:
    assert ended(CALLS_OF_THREADS).stderr == ""
