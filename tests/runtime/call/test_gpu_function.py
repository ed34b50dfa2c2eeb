"""A compiled kernel's calls through libcuda, whose functions are recorded."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from cugen.abi.errors import RunError
from cugen.abi.limits import Limits
from cugen.abi.manifest import (
    LaunchEntry,
    Manifest,
    ParamArgument,
    ScalarArgument,
    TensorMapEntry,
    Texture,
    Upload,
    Workspace,
)
from cugen.abi.tensor_maps import TensorMemory
from cugen.abi.textures import TextureMemory
from cugen.runtime.call import callable as calling
from cugen.runtime.call.callable import CpuFunction, GpuFunction, compiled
from cugen.runtime.cuda import choice, libcuda
from cugen.runtime.device import Fault, Job, Outcome
from cugen.toolchain.cuda import Cubin, KernelResources


class FakeDriver:
    """`log` has one entry for each thing that was put into a stream."""

    def __init__(self) -> None:
        self.log: list[tuple] = []
        self.context_handle = 7
        self.gpu = 0
        self.homes: dict[int, int] = {}
        self.loads = 0
        self.allowed: dict[int, int] = {}
        self.configured: list[tuple[int, int | None]] = []

    def context(self) -> int:
        return self.context_handle

    def ordinal(self) -> int:
        return self.gpu

    @contextmanager
    def primary(self, ordinal: int) -> Iterator[int]:
        yield 1000 + ordinal

    def ordinal_of(self, address: int) -> int:
        return self.homes.get(address, 0)

    def capability(self, ordinal: int) -> str:
        return "sm_90"

    def limits(self, ordinal: int) -> Limits:
        return Limits("a made-up GPU", 1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535), 232448, 65536)

    def load(self, image: bytes) -> int:
        self.loads += 1
        return 99 + self.loads

    def function(self, module: int, name: str) -> int:
        return 200

    def symbol(self, module: int, name: str) -> int:
        return 200 + module

    def allow_dynamic_shared(self, function: int, size: int) -> None:
        self.allowed[function] = size

    def configure(self, function: int, launch: LaunchEntry) -> None:
        self.configured.append((function, launch.carveout))

    def allocate(self, size: int, stream: int) -> int:
        self.log.append(("allocate", size, stream))
        return 1 << 30

    def free(self, address: int, stream: int) -> None:
        self.log.append(("free", address, stream))

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        self.log.append(("copy", target, source, size, stream))

    def set_bytes(self, address: int, value: int, size: int, stream: int) -> None:
        assert value == 0
        self.log.append(("clear", address, size, stream))

    def store(self, address: int, number: bytes, stream: int) -> None:
        self.log.append(("store", address, number, stream))

    def create_texture(self, address: int, memory: TextureMemory) -> int:
        self.log.append(("texture", address, memory))
        return address + 7

    def encode_tensor_map(self, address: int, memory: TensorMemory) -> bytes:
        self.log.append(("tensor map", address, memory))
        return address.to_bytes(128, "little")

    def launch(self, function, grid, block, shared, stream, arguments) -> None:
        self.log.append(("launch", grid, block, shared, stream, tuple(arguments)))


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    fake = FakeDriver()
    monkeypatch.setattr(libcuda, "driver", lambda: fake)
    choice._lasting.cache_clear()
    resources = {"scale": KernelResources(32, 0, 0, 0, 0, 0)}
    cubin = Cubin(b"", "", resources, 0.1, "nvrtc 13.0", False)
    monkeypatch.setattr(calling, "compile_cubin", lambda source, name, target: cubin)
    yield fake
    choice._lasting.cache_clear()


@pytest.fixture
def manifest(argument) -> Manifest:
    return Manifest(
        kernel="scale",
        version="1",
        spec_file="scale.yaml",
        spec_hash="",
        target="sm_90",
        params={},
        arguments=(
            argument(("M",), (1,), name="A", elements="M", alignment=4),
            argument(("M",), (1,), name="C", role="output", elements="M", alignment=4),
            ScalarArgument("s", "float16"),
            ParamArgument("M", "int32", 0, 10**6, 1),
        ),
        workspace=(Workspace("w", "float64", "M"),),
        uploads=(Upload("table", "A", 8), Upload("number", "s", 2)),
        launches=(LaunchEntry("scale", ("M // 2", 1, 1), (32, 1, 1), 0, 64, ("A", "C", "s", "M", "w"), "C = A * s"),),
    )


def tensor(count: int, address: int, gpu: int | None = None) -> object:
    interface = {"shape": (count,), "typestr": "<f4", "data": (address, False), "version": 3}
    return SimpleNamespace(__cuda_array_interface__=interface)


A, C = 1 << 20, 1 << 22


def call(function: GpuFunction, count: int = 8, **options: object) -> None:
    function(A=tensor(count, A), C=tensor(count, C), s=1.5, **options)


def test_workspaces_may_be_the_callers(driver, manifest) -> None:
    requested_bytes = []
    function = GpuFunction("source", manifest)
    arguments = {"A": tensor(8, A), "C": tensor(8, C), "s": 1.5}
    function.queue(arguments, 55, lambda size: requested_bytes.append(size) or 1 << 31)
    assert requested_bytes == [64]
    assert "allocate" not in [entry[0] for entry in driver.log]
    assert driver.log[-1][-1][-1] == (1 << 31).to_bytes(8, "little")


def test_uploads_and_launches_are_queued_in_order_on_the_stream(driver, manifest) -> None:
    call(GpuFunction("source", manifest), stream=55)
    assert driver.log == [
        ("allocate", 64, 55),
        ("copy", 300, A, 8, 55),
        ("store", 300, bytes.fromhex("003e"), 55),
        (
            "launch",
            (4, 1, 1),
            (32, 1, 1),
            64,
            55,
            (
                A.to_bytes(8, "little"),
                C.to_bytes(8, "little"),
                bytes.fromhex("003e"),
                (8).to_bytes(4, "little"),
                (1 << 30).to_bytes(8, "little"),
            ),
        ),
    ]


def test_a_texture_object_is_made_once_for_each_address_and_context(driver, manifest) -> None:
    (launch,) = manifest.launches
    only = replace(launch, arguments=("A", "C"))
    function = GpuFunction("source", replace(manifest, uploads=(), launches=(only,), textures=(Texture("A"),)))
    call(function, stream=55)
    call(function, stream=56)
    assert [entry for entry in driver.log if entry[0] == "texture"] == [("texture", A, TextureMemory("float32", 8))]
    pointers = ((A + 7).to_bytes(8, "little"), C.to_bytes(8, "little"))
    assert [entry[-1] for entry in driver.log if entry[0] == "launch"] == [pointers, pointers]
    driver.context_handle = 8
    call(function, stream=55)
    assert len([entry for entry in driver.log if entry[0] == "texture"]) == 2


def test_a_tensor_map_is_encoded_once_for_each_address_and_size(driver, manifest) -> None:
    (launch,) = manifest.launches
    names = ("A", "w")
    entries = tuple(TensorMapEntry(f"{name}_map", name, "float32", ("M",), (), (8,), 0) for name in names)
    only = replace(launch, tensor_maps=("w_map", "A_map"), arguments=("C",))
    function = GpuFunction("source", replace(manifest, uploads=(), launches=(only,), tensor_maps=entries))
    for count in (8, 8, 4):
        call(function, count, stream=55)
    assert [entry[1:] for entry in driver.log if entry[0] == "tensor map"] == [
        (address, TensorMemory("float32", (count,), (), (8,), 0)) for count in (8, 4) for address in (A, 1 << 30)
    ]
    values = ((1 << 30).to_bytes(128, "little"), A.to_bytes(128, "little"), C.to_bytes(8, "little"))
    assert [entry[-1] for entry in driver.log if entry[0] == "launch"] == [values] * 3


def test_a_workspace_is_kept_for_its_stream_and_grows(driver, manifest) -> None:
    function = GpuFunction("source", manifest)
    for count, stream in ((8, 1), (8, 1), (4, 1), (8, 2), (16, 1)):
        call(function, count, stream=stream)
    taken = [entry for entry in driver.log if entry[0] in ("allocate", "free")]
    assert taken == [("allocate", 64, 1), ("allocate", 64, 2), ("free", 1 << 30, 1), ("allocate", 128, 1)]


def test_flags_are_zeroed_in_the_stream_before_each_launch(driver, manifest) -> None:
    function = GpuFunction("source", replace(manifest, workspace=(Workspace("w", "int32", "M + 1", (), True),)))
    for _ in range(2):
        call(function, 8, stream=3)
    queued = [entry[0] for entry in driver.log]
    assert queued == ["allocate", *["copy", "store", "clear", "launch"] * 2]
    assert ("clear", 1 << 30, 36, 3) in driver.log


def test_flags_that_are_left_zero_are_zeroed_when_they_are_allocated(driver, manifest) -> None:
    space = Workspace("w", "int32", "M + 1", (), True, True)
    function = GpuFunction("source", replace(manifest, workspace=(space,), uploads=()))
    for count, stream in ((8, 3), (8, 3), (4, 3), (8, 4), (16, 3)):
        call(function, count, stream=stream)
    first_call = ["allocate", "clear", "launch"]
    assert [entry[0] for entry in driver.log] == [*first_call, "launch", "launch", *first_call, "free", *first_call]
    assert [entry[1:] for entry in driver.log if entry[0] == "clear"] == [
        (1 << 30, 36, 3),
        (1 << 30, 36, 4),
        (1 << 30, 68, 3),
    ]


def test_flags_in_the_callers_memory_are_zeroed_before_each_launch(driver, manifest) -> None:
    space = Workspace("w", "int32", "M + 1", (), True, True)
    function = GpuFunction("source", replace(manifest, workspace=(space,), uploads=()))
    for _ in range(2):
        function.queue({"A": tensor(8, A), "C": tensor(8, C), "s": 1.5}, 55, lambda size: 1 << 31)
    assert [entry[0] for entry in driver.log] == ["clear", "launch"] * 2


def test_a_call_that_fails_when_it_clears_leaves_no_workspace_behind(driver, manifest, monkeypatch) -> None:
    def failing(*_: object) -> None:
        raise RunError("CG5011", "out of order")

    space = Workspace("w", "int32", "M + 1", (), True, True)
    function = GpuFunction("source", replace(manifest, workspace=(space,), uploads=()))
    with monkeypatch.context() as broken:
        broken.setattr(driver, "set_bytes", failing)
        with pytest.raises(RunError):
            call(function)
    call(function)
    assert [entry[0] for entry in driver.log][-2:] == ["clear", "launch"]


def test_a_module_is_loaded_once_for_each_context(driver, manifest) -> None:
    function = GpuFunction("source", manifest)
    call(function)
    call(function)
    assert driver.loads == 1
    driver.context_handle = 8
    call(function)
    assert driver.loads == 2


def test_an_array_on_another_gpu_is_refused_before_anything_is_queued(driver, manifest) -> None:
    driver.homes[C] = 1
    with pytest.raises(RunError, match=r"CG5008.*`C` is in the memory of GPU 1; the kernel runs on GPU 0"):
        call(GpuFunction("source", manifest))
    driver.homes[C] = -1
    with pytest.raises(RunError, match=r"CG5008.*`C` is not in GPU memory"):
        call(GpuFunction("source", manifest))
    assert driver.log == []


@pytest.mark.parametrize("allocation", ["managed", "mapped"])
def test_a_numpy_array_is_taken_where_the_spec_has_memory_that_both_sides_address(driver, manifest, allocation) -> None:
    a, *others = manifest.arguments
    placed = replace(manifest, arguments=(replace(a, allocation=allocation), *others))
    x = np.zeros(8, np.float32)
    driver.homes[x.ctypes.data] = 0
    GpuFunction("source", placed)(A=x, C=tensor(8, C), s=1.5)
    with pytest.raises(RunError, match=r"CG5008.*`A` is in host memory"):
        GpuFunction("source", manifest)(A=x, C=tensor(8, C), s=1.5)
    driver.homes[x.ctypes.data] = -1
    with pytest.raises(RunError, match=r"CG5008.*`A` is not in GPU memory"):
        GpuFunction("source", placed)(A=x, C=tensor(8, C), s=1.5)


def test_a_launch_over_a_limit_is_refused_before_anything_is_queued(driver, manifest) -> None:
    big = replace(manifest, launches=(replace(manifest.launches[0], dynamic_shared_bytes=300_000),))
    with pytest.raises(RunError, match=r"CG5010.*300000 bytes of shared memory per block.*232448"):
        call(GpuFunction("source", big))
    assert driver.log == []


def test_much_dynamic_shared_memory_is_allowed_first(driver, manifest) -> None:
    big = replace(manifest, launches=(replace(manifest.launches[0], dynamic_shared_bytes=200_000),))
    call(GpuFunction("source", big))
    assert driver.allowed == {200: 200_000}


def test_a_function_is_configured_once_for_all_its_calls(driver, manifest) -> None:
    function = GpuFunction(
        "source",
        replace(manifest, launches=(replace(manifest.launches[0], carveout=25),), requires=("launch_options",)),
    )
    call(function)
    call(function)
    assert driver.configured == [(200, 25)]


def test_empty_arrays_launch_nothing(driver, manifest) -> None:
    function = GpuFunction("source", replace(manifest, uploads=()))
    function(A=tensor(0, 0), C=tensor(0, 0), s=1.0)
    assert driver.log == []


class NumpyDevice:
    name = "numpy"

    def __init__(self, *faults: Fault) -> None:
        self.faults = faults

    def run(self, job: Job) -> Outcome:
        self.job = job
        return Outcome({"C": job.buffers["A"] * np.float32(job.scalars["s"])}, faults=self.faults)


def test_on_the_cpu_numpy_arrays_are_filled(manifest) -> None:
    device = NumpyDevice()
    a, c = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
    function = compiled("source", manifest, device)
    assert isinstance(function, CpuFunction)
    assert function(A=a, C=c, s=2.0) is None
    assert list(c) == [0.0, 2.0, 4.0, 6.0]
    assert device.job.params == {"M": 4}
    assert np.isnan(device.job.buffers["C"]).all()


def test_on_the_cpu_a_fault_is_an_error_and_nothing_is_filled(manifest) -> None:
    a, c = np.ones(4, np.float32), np.zeros(4, np.float32)
    with pytest.raises(RunError, match=r"CG5013.*race: As\[0\]"):
        compiled("source", manifest, NumpyDevice(Fault("race", "As[0]")))(A=a, C=c, s=2.0)
    assert not c.any()


def test_on_the_cpu_a_stream_is_refused(manifest) -> None:
    with pytest.raises(RunError, match="no stream"):
        compiled("source", manifest, NumpyDevice())(A=1, C=1, s=1.0, stream=5)


class OnlyDlpack:
    """An array of somebody else's in the CPU's memory."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)


def test_on_the_cpu_any_array_with_dlpack_is_used_without_a_copy(manifest) -> None:
    a, c = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    compiled("source", manifest, NumpyDevice())(A=OnlyDlpack(a), C=OnlyDlpack(c), s=2.0)
    assert np.array_equal(c, 2 * a)


def test_nothing_is_read_of_arrays_without_elements(manifest) -> None:
    empty = np.zeros(0, np.float32)
    compiled("source", manifest, NumpyDevice())(A=empty, C=empty.copy(), s=2.0)


def test_streams_have_constants_of_their_own(driver, manifest) -> None:
    function = GpuFunction("source", manifest)
    for stream in (1, 55, 1):
        call(function, stream=stream)
    uploads = [(entry[1], entry[-1]) for entry in driver.log if entry[0] == "store"]
    assert uploads == [(300, 1), (301, 55), (300, 1)]


def test_threads_have_constants_of_their_own_on_the_stream_per_thread(driver, manifest) -> None:
    function = GpuFunction("source", manifest)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call, function, stream=2).result()
    call(function, stream=2)
    assert [entry[1] for entry in driver.log if entry[0] == "store"] == [300, 301]


def test_threads_have_workspaces_of_their_own_on_the_stream_per_thread(driver, manifest) -> None:
    function = GpuFunction("source", manifest)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call, function, stream=2).result()
    for _ in range(2):
        call(function, stream=2)
    assert [entry[0] for entry in driver.log].count("allocate") == 2


def test_a_caller_may_name_the_gpu(driver, manifest) -> None:
    function = GpuFunction("source", manifest)
    driver.homes = {A: 3, C: 3}
    arguments = {"A": tensor(8, A), "C": tensor(8, C), "s": 1.5}
    for gpu in (3, 3):
        function.queue(arguments, 55, on_gpu=gpu)
    assert driver.loads == 1
    with pytest.raises(RunError, match="the kernel runs on GPU 0"):
        function.queue(arguments, 55)


def test_a_kernel_without_constants_is_loaded_once_for_all_streams(driver, manifest) -> None:
    function = GpuFunction("source", replace(manifest, uploads=()))
    for stream in (1, 55):
        call(function, stream=stream)
    assert driver.loads == 1
