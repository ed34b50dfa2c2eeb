"""The GPU device over a driver that is a few lines of Python: memory is bytes, kernels are functions."""

import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from cugen.abi.errors import RunError
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
from cugen.runtime import gpu, libcuda
from cugen.runtime.buffers import CANARY_BYTES, pack, poison
from cugen.runtime.device import Job
from cugen.runtime.packing import pack_number
from cugen.spec.types import DTYPES
from cugen.toolchain.cuda import Cubin, KernelResources

BASE = 1 << 16
SYMBOL = 256


class FakeDriver(ModuleType):
    """As much of `pycuda.driver` as the device uses, with its signatures."""

    class Error(Exception):
        pass

    def __init__(self) -> None:
        super().__init__("pycuda.driver")
        self.memory = np.zeros(1 << 20, np.uint8)
        self.top = BASE
        self.launches: list[tuple[str, dict[str, object]]] = []
        self.attributes: dict[str, int] = {}
        self.contexts: list[str] = []
        self.kernels: dict[str, Callable[..., None]] = {}
        self.count = 1
        self.host_allocations: list[tuple[str, int]] = []
        self.mem_attach_flags = SimpleNamespace(GLOBAL="global")
        self.host_alloc_flags = SimpleNamespace(DEVICEMAP="devicemap")
        names = ["MAX_THREADS_PER_BLOCK", "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", "MAX_REGISTERS_PER_BLOCK"]
        names += [f"MAX_{part}_DIM_{axis}" for part in ("BLOCK", "GRID") for axis in "XYZ"]
        self.device_attribute = SimpleNamespace(**{name: name for name in names})
        self.function_attribute = SimpleNamespace(
            MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic", PREFERRED_SHARED_MEMORY_CARVEOUT="carve-out"
        )
        self.func_cache = SimpleNamespace(PREFER_EQUAL="equal")
        self.shared_config = SimpleNamespace(EIGHT_BYTE_BANK_SIZE="8 bytes")
        self.configured: list[tuple[str, object]] = []
        self.limits = dict.fromkeys(names, 65535) | {
            "MAX_THREADS_PER_BLOCK": 1024,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 99 * 1024,
        }
        driver = self

        class Device:
            def __init__(self, ordinal: int) -> None:
                self.ordinal = ordinal

            @staticmethod
            def count() -> int:
                return driver.count

            def name(self) -> str:
                return "a made-up GPU"

            def compute_capability(self) -> tuple[int, int]:
                return (9, 0)

            def get_attribute(self, name: str) -> int:
                return driver.limits[name]

            def retain_primary_context(self) -> object:
                return SimpleNamespace(push=lambda: driver.contexts.append("push"))

        class Event:
            ticks = 0

            def record(self) -> None:
                Event.ticks += 1
                self.tick = Event.ticks

            def synchronize(self) -> None:
                pass

            def time_since(self, start: "Event") -> float:
                return float(self.tick - start.tick)

        self.Device, self.Event = Device, Event
        self.Context = SimpleNamespace(synchronize=lambda: None, pop=lambda: driver.contexts.append("pop"))

    def init(self) -> None:
        pass

    def mem_alloc(self, size: int) -> int:
        address, self.top = self.top, self.top + (size + 255) // 256 * 256
        return address

    def managed_empty(self, shape: int, dtype: type, order: str = "C", mem_flags: str = "") -> object:
        assert mem_flags == "global"
        return self._on_host("managed", shape)

    def pagelocked_empty(self, shape: int, dtype: type, order: str = "C", mem_flags: str = "") -> object:
        assert mem_flags == "devicemap"
        return self._on_host("mapped", shape)

    def _on_host(self, kind: str, size: int) -> object:
        address = self.mem_alloc(size)
        self.host_allocations.append((kind, size))
        return SimpleNamespace(base=SimpleNamespace(get_device_pointer=lambda: address))

    def memset_d8(self, dest: int, data: int, size: int) -> None:
        self.memory[dest : dest + size] = data

    def memcpy_htod(self, dest: int, src: np.ndarray) -> None:
        self.memory[dest : dest + src.nbytes] = src

    def memcpy_dtoh(self, dest: np.ndarray, src: int) -> None:
        dest[:] = self.memory[src : src + dest.nbytes]

    def memcpy_dtod(self, dest: int, src: int, size: int) -> None:
        self.memory[dest : dest + size] = self.memory[src : src + size]

    def view(self, address: int, count: int, dtype: str = "float32") -> np.ndarray:
        size = np.dtype(dtype).itemsize * count
        return self.memory[int(address) : int(address) + size].view(dtype)

    def module_from_buffer(self, image: bytes) -> object:
        driver = self

        class Function:
            def __init__(self, name: str) -> None:
                self.name = name

            def set_attribute(self, attribute: str, value: int) -> None:
                driver.attributes[self.name] = value
                driver.configured.append((attribute, value))

            def set_cache_config(self, config: str) -> None:
                driver.configured.append(("cache", config))

            def set_shared_config(self, config: str) -> None:
                driver.configured.append(("banks", config))

            def __call__(self, *arguments: np.generic, **shape: object) -> None:
                assert all(isinstance(a, np.number) and a.dtype.char in "bBhHiIlLqQfd" for a in arguments)
                driver.launches.append((self.name, shape))
                driver.kernels[self.name](*arguments)

        return SimpleNamespace(get_function=Function, get_global=lambda name: (SYMBOL, 64))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    fake = FakeDriver()
    package = ModuleType("pycuda")
    package.driver = fake
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", fake)
    gpu._retained.cache_clear()
    yield fake
    gpu._retained.cache_clear()


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is compiled; the requested targets are recorded."""
    targets: list[str] = []

    def compile_cubin(source: str, name: str, target: str) -> Cubin:
        targets.append(target)
        return Cubin(b"", "", {"scale": KernelResources(40, 0, 8, 12, 16, 0)}, 0.5, "nvrtc 13.0", False)

    monkeypatch.setattr(gpu, "compile_cubin", compile_cubin)
    return targets


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
            argument(("M",), (1,), name="A", elements="M"),
            argument(("M",), (1,), name="C", role="output", elements="M"),
            ScalarArgument("s", "float16"),
            ParamArgument("M", "int32", 0, 100, 1),
        ),
        workspace=(Workspace("w", "int16", 3),),
        uploads=(Upload("table", "A", 8), Upload("number", "s", 2)),
        launches=(LaunchEntry("scale", ("M // 2", 1, 1), (32, 1, 1), 0, 0, ("A", "C", "s", "M", "w"), "C = A * s"),),
    )


@pytest.fixture
def scale(driver: FakeDriver) -> None:
    def kernel(a: int, c: int, s: np.uint16, m: np.int32, w: int) -> None:
        assert (driver.view(w, 3, "uint16") == 0xA5A5).all()
        factor = np.asarray(s).view(np.float16)
        driver.view(c, int(m))[:] = driver.view(a, int(m)) * factor

    driver.kernels["scale"] = kernel


def job(manifest: Manifest, rows: int = 8, repeat: int = 1) -> Job:
    params = {"M": rows}
    content = {"A": np.arange(rows, dtype=np.float32), "C": None}
    buffers = {a.name: pack(content[a.name], a, params) for a in manifest.arguments[:2]}
    return Job("source", manifest, buffers, params, {"s": 1.5}, repeat)


def test_the_launch_list_is_played_and_the_outputs_come_back(driver, manifest, scale) -> None:
    outcome = gpu.GpuDevice().run(job(manifest, repeat=3))
    assert np.array_equal(outcome.buffers["C"], np.arange(8) * np.float32(1.5))
    assert outcome.faults == ()
    assert len(outcome.times_ms) == 3
    assert len(driver.launches) == 4
    assert driver.launches[0][1] == {"grid": (4, 1, 1), "block": (32, 1, 1), "shared": 0}
    assert (outcome.compile_ms, outcome.registers, outcome.spill_bytes) == (500.0, {"scale": 40}, {"scale": 20})


def test_arrays_are_allocated_where_the_manifest_says(driver, manifest, scale) -> None:
    a, c, *others = manifest.arguments
    placed = (replace(a, allocation="mapped"), replace(c, allocation="managed"), *others)
    outcome = gpu.GpuDevice().run(job(replace(manifest, arguments=placed)))
    assert np.array_equal(outcome.buffers["C"], np.arange(8) * np.float32(1.5))
    assert outcome.faults == ()
    size = 8 * 4 + 2 * CANARY_BYTES
    assert driver.host_allocations == [("mapped", size), ("managed", size)]


def test_a_launch_takes_the_texture_object_of_an_array(driver, manifest, monkeypatch) -> None:
    objects: dict[int, int] = {}

    class Textures:
        def create_texture(self, address: int, memory: TextureMemory) -> int:
            assert memory == TextureMemory("float32", 8)
            objects[address + 7] = address
            return address + 7

        def destroy_texture(self, texture: int) -> None:
            del objects[texture]

    def kernel(a: int, c: int, *arguments: object) -> None:
        driver.view(c, 8)[:] = driver.view(objects[int(a)], 8)

    monkeypatch.setattr(libcuda, "driver", Textures)
    driver.kernels["scale"] = kernel
    outcome = gpu.GpuDevice().run(job(replace(manifest, textures=(Texture("A"),)), repeat=2))
    assert np.array_equal(outcome.buffers["C"], np.arange(8))
    assert objects == {}


def test_a_launch_takes_tensor_maps_before_its_arguments(driver, manifest, monkeypatch) -> None:
    maps: dict[bytes, tuple[int, TensorMemory]] = {}

    class TensorMaps:
        def encode_tensor_map(self, address: int, memory: TensorMemory) -> bytes:
            encoded = bytes(range(len(maps), len(maps) + 128))
            maps[encoded] = address, memory
            return encoded

        def load(self, image: bytes) -> int:
            return 7

        def function(self, module: int, name: str) -> int:
            assert (module, name) == (7, "scale")
            return 8

        def symbol(self, module: int, name: str) -> int:
            return SYMBOL

        def configure(self, function: int, launch: LaunchEntry) -> None:
            pass

        def launch(self, function, grid, block, shared_bytes, stream, arguments) -> None:
            first, second, size = arguments
            assert [memory.sizes for _, memory in maps.values()] == [(8,), (8,)]
            driver.view(maps[first][0], 8)[:] = driver.view(maps[second][0], 8)
            assert (function, grid, block, shared_bytes, stream) == (8, (4, 1, 1), (32, 1, 1), 0, 0)
            assert int.from_bytes(size, "little") == 8

    entries = tuple(TensorMapEntry(f"{name}_map", name, "float32", ("M",), (), (8,), 0) for name in "AC")
    (launch,) = manifest.launches
    mapped = replace(launch, tensor_maps=("C_map", "A_map"), arguments=("M",))
    monkeypatch.setattr(libcuda, "driver", TensorMaps)
    outcome = gpu.GpuDevice().run(job(replace(manifest, tensor_maps=entries, launches=(mapped,))))
    assert np.array_equal(outcome.buffers["C"], np.arange(8))


def test_flags_are_zeroed_before_each_play(driver, manifest) -> None:
    seen = []

    def kernel(a: int, c: int, s: np.uint16, m: np.int32, w: int) -> None:
        seen.append(driver.view(w, 3, "uint16").tolist())
        driver.view(w, 3, "uint16")[:] = 1

    driver.kernels["scale"] = kernel
    gpu.GpuDevice().run(job(replace(manifest, workspace=(Workspace("w", "int16", 3, (), True),)), repeat=2))
    assert seen == [[0, 0, 0]] * 3


def test_the_context_is_current_for_the_run_alone(driver, manifest, scale) -> None:
    gpu.GpuDevice().run(job(manifest))
    assert driver.contexts == ["push", "pop"]


def test_it_compiles_for_exactly_this_gpu(driver, manifest, scale, compiled) -> None:
    for target in ("sm_80", "sm_90", "sm_90a"):
        gpu.GpuDevice().run(job(replace(manifest, target=target)))
    assert compiled == ["sm_90", "sm_90", "sm_90a"]


def test_architecture_specific_code_is_refused_on_every_other_gpu(manifest) -> None:
    specific = replace(manifest, target="sm_90a")
    assert gpu.target_for(specific, "sm_90") == "sm_90a"
    for capability in ("sm_89", "sm_100", "sm_120"):
        with pytest.raises(RunError, match=f"for sm_90a, whose code doesn't run on {capability}") as refused:
            gpu.target_for(specific, capability)
        assert refused.value.code == "CG5017"


def test_a_device_has_its_capability(driver: FakeDriver) -> None:
    assert gpu.GpuDevice().capability == "sm_90"


def test_clusters_of_blocks_are_refused_on_a_gpu_without_them(manifest) -> None:
    (launch,) = manifest.launches
    clustered = replace(manifest, launches=(replace(launch, cluster=4),))
    assert gpu.target_for(clustered, "sm_90") == "sm_90"
    assert gpu.target_for(clustered, "sm_120") == "sm_120"
    assert gpu.target_for(manifest, "sm_80") == "sm_80"
    with pytest.raises(RunError, match="sm_80 doesn't have") as refused:
        gpu.target_for(clustered, "sm_80")
    assert refused.value.code == "CG5010"


def test_constants_are_uploaded_before_the_launches(driver, manifest, scale) -> None:
    only = replace(manifest, uploads=(Upload("table", "A", 8),))
    gpu.GpuDevice().run(job(only))
    assert list(driver.view(SYMBOL, 2)) == [0.0, 1.0]
    gpu.GpuDevice().run(job(replace(manifest, uploads=(Upload("number", "s", 2),))))
    assert driver.view(SYMBOL, 1, "float16")[0] == 1.5


@pytest.mark.parametrize(("start", "count", "words"), [(-2, 2, "8 bytes before"), (8, 1, "4 bytes after")])
def test_a_write_beside_an_array_is_a_fault_that_names_it(driver, manifest, start, count, words) -> None:
    def kernel(a: int, c: int, *arguments: object) -> None:
        driver.view(c, 8)[:] = 0
        driver.view(int(c) + 4 * start, count)[:] = 1.0

    driver.kernels["scale"] = kernel
    (fault,) = gpu.GpuDevice().run(job(manifest)).faults
    assert fault.kind == "out of bounds"
    assert words in fault.message
    assert "`C`" in fault.message


def test_inputs_come_back_as_the_device_left_them(driver, manifest) -> None:
    driver.kernels["scale"] = lambda a, *arguments: driver.view(a, 1).__setitem__(0, 77.0)
    assert gpu.GpuDevice().run(job(manifest)).buffers["A"][0] == 77.0


def test_what_is_updated_in_place_is_set_back_between_timings(driver, manifest, argument) -> None:
    seen = []

    def kernel(c: int) -> None:
        seen.append(driver.view(c, 1)[0].item())
        driver.view(c, 1)[:] += 1

    driver.kernels["scale"] = kernel
    inout = argument((1,), name="C", role="inout")
    launch = LaunchEntry("scale", (1, 1, 1), (1, 1, 1), 0, 0, ("C",), "")
    only = replace(manifest, arguments=(inout,), uploads=(), workspace=(), launches=(launch,))
    buffers = {"C": np.array([5.0], np.float32)}
    outcome = gpu.GpuDevice().run(Job("", only, buffers, repeat=2))
    assert outcome.buffers["C"][0] == 6.0
    assert seen == [5.0, 5.0, 5.0]


def test_a_grid_with_a_zero_launches_nothing(driver, manifest, scale) -> None:
    outcome = gpu.GpuDevice().run(job(replace(manifest, uploads=()), rows=0))
    assert driver.launches == []
    assert outcome.buffers["C"].size == 0


def test_much_dynamic_shared_memory_is_allowed_first(driver, manifest, scale) -> None:
    launch = replace(manifest.launches[0], dynamic_shared_bytes=60 * 1024)
    gpu.GpuDevice().run(job(replace(manifest, launches=(launch,))))
    assert driver.attributes == {"scale": 60 * 1024}
    assert driver.launches[0][1]["shared"] == 60 * 1024


@pytest.mark.parametrize(
    ("option", "configured"),
    [
        ({"carveout": 0}, ("carve-out", 0)),
        ({"cache_config": "prefer_equal"}, ("cache", "equal")),
        ({"bank_bytes": 8}, ("banks", "8 bytes")),
    ],
)
def test_a_function_is_configured_as_the_launch_asks(driver, manifest, scale, option, configured) -> None:
    launch = replace(manifest.launches[0], **option)
    gpu.GpuDevice().run(job(replace(manifest, launches=(launch,))))
    assert driver.configured == [configured]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"block": (2048, 1, 1)}, "2048 threads per block; a made-up GPU allows 1024"),
        ({"grid": (1, 65536, 1)}, r"65536 blocks in grid\.y; a made-up GPU allows 65535"),
        ({"dynamic_shared_bytes": 100 * 1024, "shared_bytes": 4}, "102404 bytes of shared memory per block.*101376"),
        ({"block": (1024, 2, 1)}, "81920 registers per block"),
    ],
)
def test_a_launch_that_does_not_fit_is_refused_with_numbers(driver, manifest, scale, change, words) -> None:
    launch = replace(manifest.launches[0], **change)
    with pytest.raises(RunError, match=f"CG5010.*{words}"):
        gpu.GpuDevice().run(job(replace(manifest, launches=(launch,))))
    assert driver.launches == []


def test_what_the_driver_reports_is_a_fault(driver, manifest) -> None:
    def kernel(*arguments: object) -> None:
        raise driver.Error("cuCtxSynchronize failed: an illegal memory access was encountered")

    driver.kernels["scale"] = kernel
    outcome = gpu.GpuDevice().run(job(manifest))
    (fault,) = outcome.faults
    assert "illegal memory access" in fault.message
    assert driver.contexts == ["push", "pop"]
    assert np.array_equal(outcome.buffers["C"].view(np.uint32), poison(DTYPES["float32"], 8).view(np.uint32))


def test_no_gpu_is_said_with_the_reason(driver, monkeypatch) -> None:
    assert gpu.available() == ""
    driver.count = 0
    assert gpu.available() == "the CUDA driver sees no GPU"
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    assert "pip install 'cugen[gpu]'" in gpu.available()
    with pytest.raises(RunError, match="CG5011"):
        gpu.GpuDevice()


@pytest.mark.parametrize(
    ("name", "value", "raw"),
    [
        ("float16", 1.5, "003e"),
        ("bfloat16", 1.5, "c03f"),
        ("float8_e4m3", 1.5, "3c"),
        ("float32", 1.5, "0000c03f"),
        ("float64", 1.5, "000000000000f83f"),
        ("bool", True, "01"),
        ("int8", -1, "ff"),
        ("uint16", 65535, "ffff"),
        ("int32", -2, "feffffff"),
        ("uint64", 2**64 - 1, "ff" * 8),
        ("int64", -1, "ff" * 8),
    ],
)
def test_numbers_are_packed_in_their_own_bytes(name: str, value: float, raw: str) -> None:
    packed = pack_number(value, DTYPES[name])
    assert packed.tobytes().hex() == raw
    assert isinstance(packed, np.number)


def test_buffers_keep_every_alignment_behind_the_canary() -> None:
    assert CANARY_BYTES % 256 == 0
