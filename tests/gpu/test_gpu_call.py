"""Compiled kernels called with arrays of other libraries, on their streams."""

from dataclasses import replace

import numpy as np
import pytest

from cugen.abi.errors import RunError
from cugen.abi.manifest import ArrayArgument, LaunchEntry, Manifest, ParamArgument, ScalarArgument, Workspace
from cugen.runtime.call.callable import compiled
from cugen.runtime.gpu import GpuDevice

pytestmark = pytest.mark.gpu

SOURCE = """
extern "C" __global__ void first(const float* a, float* w, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] = 2.0f * a[i];
}
extern "C" __global__ void second(const float* w, float* out, float s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = w[i] + s;
}
"""


@pytest.fixture
def manifest() -> Manifest:
    blocks = "(n + 255) // 256"
    return Manifest(
        "twice",
        "1",
        "",
        "",
        "sm_90",
        {},
        (
            ArrayArgument("a", "input", "float32", ("n",), (1,), "n", 4),
            ArrayArgument("out", "output", "float32", ("n",), (1,), "n", 4),
            ScalarArgument("s", "float32"),
            ParamArgument("n", "int32", 0, 2**31 - 1, 1),
        ),
        (Workspace("w", "float32", "n"),),
        (),
        (
            LaunchEntry("first", (blocks, 1, 1), (256, 1, 1), 0, 0, ("a", "w", "n"), ""),
            LaunchEntry("second", (blocks, 1, 1), (256, 1, 1), 0, 0, ("w", "out", "s", "n"), ""),
        ),
    )


def test_arrays_of_pycuda_work(device: GpuDevice, manifest: Manifest) -> None:
    import pycuda.driver as cuda
    from pycuda import gpuarray

    context = cuda.Device(0).retain_primary_context()
    context.push()
    try:
        function = compiled(SOURCE, manifest)
        stream = cuda.Stream()
        for count in (1000, 100_000, 10):
            a = gpuarray.to_gpu(np.arange(count, dtype=np.float32))
            out = gpuarray.zeros(count, np.float32)
            function(a=a, out=out, s=3.0, stream=stream)
            stream.synchronize()
            assert np.array_equal(out.get(), 2 * np.arange(count, dtype=np.float32) + 3)
        del a, out, stream
    finally:
        cuda.Context.pop()


@pytest.fixture
def torch(device: GpuDevice):
    return pytest.importorskip("torch", reason="NOT TESTED: PyTorch is not installed")


def test_tensors_of_pytorch_work_on_their_stream(torch, manifest: Manifest) -> None:
    function = compiled(SOURCE, manifest)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        a = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
        out = torch.empty_like(a)
        for _ in range(10):
            function(a=a, out=out, s=3.0, stream=stream)
            a.copy_(out)
    stream.synchronize()
    expected = np.arange(1 << 20, dtype=np.float32)
    for _ in range(10):
        expected = 2 * expected + np.float32(3)
    assert np.array_equal(out.cpu().numpy(), expected)


def test_a_call_does_not_wait_for_what_runs(torch, manifest: Manifest) -> None:
    function = compiled(SOURCE, manifest)
    a = torch.ones(1000, device="cuda")
    out = torch.empty_like(a)
    function(a=a, out=out, s=0.0)  # loads the module
    torch.cuda.synchronize()
    torch.cuda._sleep(2_000_000_000)
    done = torch.cuda.Event()
    function(a=a, out=out, s=0.0)
    done.record()
    assert not done.query()
    torch.cuda.synchronize()


def test_bfloat16_tensors_of_pytorch_are_known_as_such(torch, manifest: Manifest) -> None:
    arguments = tuple(
        replace(a, dtype="bfloat16", alignment=2) if isinstance(a, ArrayArgument) else a for a in manifest.arguments
    )
    source = "#include <cuda_bf16.h>\n" + SOURCE.replace("const float* a", "const __nv_bfloat16* a").replace(
        "2.0f * a[i]", "2.0f * __bfloat162float(a[i])"
    ).replace("float* out", "__nv_bfloat16* out").replace("w[i] + s", "__float2bfloat16_rn(w[i] + s)")
    a = torch.arange(100, device="cuda").to(torch.bfloat16)
    out = torch.empty_like(a)
    compiled(source, replace(manifest, arguments=arguments))(a=a, out=out, s=1.0)
    assert torch.equal(out.cpu(), (2 * torch.arange(100) + 1).to(torch.bfloat16))
    with pytest.raises(RunError, match=r"CG5003.*`a` holds bfloat16.*float32"):
        compiled(SOURCE, manifest)(a=a, out=out, s=1.0)


def test_mistakes_are_caught_before_the_launch(torch, manifest: Manifest) -> None:
    function = compiled(SOURCE, manifest)
    good = torch.ones(8, device="cuda")
    wrong = [
        ({"a": torch.ones(8)}, "CG5008"),
        ({"a": torch.ones(8, dtype=torch.float64, device="cuda")}, "CG5003"),
        ({"a": torch.ones(16, device="cuda")[::2]}, "CG5006"),
        ({"a": torch.ones(9, device="cuda")}, "CG5009"),
        ({"out": good}, "CG5014"),
    ]
    for change, code in wrong:
        arguments = {"a": good, "out": torch.empty(8, device="cuda"), "s": 1.0} | change
        with pytest.raises(RunError, match=code):
            function(**arguments)
