"""Hand-written kernels on a real GPU, through PyCUDA and without it: what a fake driver can't show."""

from dataclasses import replace

import numpy as np
import pytest

from cugen.abi.errors import RunError
from cugen.abi.manifest import ArrayArgument, LaunchEntry, Manifest, ParamArgument, ScalarArgument, Upload, Workspace
from cugen.runtime import gpu
from cugen.runtime.buffers import bits, pack, poison
from cugen.runtime.cuda.libcuda_binding import LibcudaBinding
from cugen.runtime.cuda.pycuda_binding import missing_pycuda
from cugen.runtime.device import Job, Outcome
from cugen.runtime.gpu import GpuDevice
from cugen.spec.types import DTYPES

pytestmark = pytest.mark.gpu

N = 1000


@pytest.fixture(params=["PyCUDA", "libcuda"], autouse=True)
def binding(request: pytest.FixtureRequest, device: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way to the driver."""
    if request.param == "libcuda":
        monkeypatch.setattr(gpu, "binding", LibcudaBinding)
    else:
        assert not missing_pycuda(), "cugen setup gpu"


def array(name: str, role: str = "input", dtype: str = "float32", elements: int = N) -> ArrayArgument:
    return ArrayArgument(name, role, dtype, (elements,), (1,), elements, 16)


def manifest(*arguments: object, **changes: object) -> Manifest:
    names = tuple(a.name for a in arguments)
    launch = LaunchEntry("k", ((N + 127) // 128, 1, 1), (128, 1, 1), 0, 0, names, "")
    return replace(Manifest("k", "1", "", "", "sm_90", {}, arguments, (), (), (launch,)), **changes)


def play(device: GpuDevice, source: str, made: Manifest, content: dict, **job: object) -> Outcome:
    arrays = [a for a in made.arguments if isinstance(a, ArrayArgument)]
    buffers = {a.name: pack(content.get(a.name), a, job.get("params", {})) for a in arrays}
    return device.run(Job(source, made, buffers, **job))


def test_scalars_of_every_type_arrive(device: GpuDevice) -> None:
    source = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
extern "C" __global__ void k(double* out, bool a, __half b, signed char c, double d, __nv_bfloat16 e, short f,
                             float g, unsigned long long h, int n) {
    if (threadIdx.x || blockIdx.x) return;
    out[0] = a; out[1] = __half2float(b); out[2] = c; out[3] = d; out[4] = __bfloat162float(e); out[5] = f;
    out[6] = g; out[7] = (double)h; out[8] = n;
}
"""
    types = ("bool", "float16", "int8", "float64", "bfloat16", "int16", "float32", "uint64")
    names = [ScalarArgument("abcdefgh"[i], dtype) for i, dtype in enumerate(types)]
    made = manifest(array("out", "output", "float64", 9), *names, ParamArgument("n", "int32", 0, 2**31 - 1, 1))
    values = dict(zip("abcdefgh", (True, 1.5, -7, 1e300, -2.25, -30000, 0.125, 2**63), strict=True))
    outcome = play(device, source, made, {}, scalars=values, params={"n": 2**31 - 1})
    assert list(outcome.buffers["out"]) == [1.0, 1.5, -7.0, 1e300, -2.25, -30000.0, 0.125, float(2**63), 2**31 - 1]


def test_constants_are_uploaded_from_arrays_and_scalars(device: GpuDevice) -> None:
    source = """
__constant__ float table[4];
__constant__ float factor;
extern "C" __global__ void k(float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1000) out[i] = table[i % 4] * factor;
}
"""
    made = manifest(array("t", elements=4), array("out", "output"), ScalarArgument("f", "float32"))
    launch = replace(made.launches[0], arguments=("out",))
    made = replace(made, launches=(launch,), uploads=(Upload("table", "t", 16), Upload("factor", "f", 4)))
    outcome = play(device, source, made, {"t": np.array([1, 2, 3, 4], np.float32)}, scalars={"f": 0.5})
    assert list(outcome.buffers["out"][:5]) == [0.5, 1.0, 1.5, 2.0, 0.5]


def test_two_launches_share_a_workspace_which_begins_poisoned(device: GpuDevice) -> None:
    source = """
extern "C" __global__ void first(unsigned* seen, float* w, const float* a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1000) { seen[i] = __float_as_uint(w[i]); w[i] = 2.0f * a[i]; }
}
extern "C" __global__ void second(float* out, const float* w) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1000) out[i] = w[i] + 1.0f;
}
"""
    made = manifest(array("a"), array("seen", "output", "uint32"), array("out", "output"))
    first = replace(made.launches[0], kernel="first", arguments=("seen", "w", "a"))
    second = replace(made.launches[0], kernel="second", arguments=("out", "w"))
    made = replace(made, launches=(first, second), workspace=(Workspace("w", "float32", N),))
    a = np.arange(N, dtype=np.float32)
    outcome = play(device, source, made, {"a": a})
    assert np.array_equal(outcome.buffers["out"], 2 * a + 1)
    assert (outcome.buffers["seen"] == bits(poison(DTYPES["float32"], 1))[0]).all()
    assert set(outcome.registers) == {"first", "second"}


@pytest.mark.parametrize(("offset", "words"), [(N, "4 bytes after"), (-3, "4 bytes before")])
def test_a_write_beside_an_array_is_caught(device: GpuDevice, offset: int, words: str) -> None:
    source = f'extern "C" __global__ void k(float* out) {{ if (!threadIdx.x && !blockIdx.x) out[{offset}] = 1.0f; }}'
    (fault,) = play(device, source, manifest(array("out", "output")), {}).faults
    assert words in fault.message


def test_a_block_can_have_nearly_all_shared_memory(device: GpuDevice) -> None:
    source = """
extern "C" __global__ void k(float* out) {
    extern __shared__ float tile[];
    for (int i = threadIdx.x; i < 22528; i += blockDim.x) tile[i] = i;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1000) out[i] = tile[22527 - i];
}
"""
    made = manifest(array("out", "output"))
    large = replace(made, launches=(replace(made.launches[0], dynamic_shared_bytes=22528 * 4),))
    outcome = play(device, source, large, {})
    assert list(outcome.buffers["out"][:2]) == [22527.0, 22526.0]
    too_large = replace(made, launches=(replace(made.launches[0], dynamic_shared_bytes=2**20),))
    with pytest.raises(RunError, match=r"CG5010.*1048576 bytes of shared memory"):
        play(device, source, too_large, {})


def test_each_repetition_is_timed_and_the_context_is_left_alone(device: GpuDevice) -> None:
    import pycuda.driver

    source = """
extern "C" __global__ void k(float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1000) out[i] += 1.0f;
}
"""
    outcome = play(device, source, manifest(array("out", "inout")), {"out": np.zeros(N, np.float32)}, repeat=5)
    assert (outcome.buffers["out"] == 1.0).all()
    assert len(outcome.times_ms) == 5
    assert all(0 < time < 100 for time in outcome.times_ms)
    assert pycuda.driver.Context.get_current() is None
