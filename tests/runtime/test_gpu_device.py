"""The GPU device on a made-up GPU, through PyCUDA and through libcuda."""

from collections.abc import Iterator
from dataclasses import replace

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
from cugen.runtime import gpu
from cugen.runtime.buffers import CANARY_BYTES, pack, poison
from cugen.runtime.cuda import libcuda
from cugen.runtime.cuda.pycuda_binding import missing_pycuda
from cugen.runtime.device import Job
from cugen.runtime.devices import choose
from cugen.spec.types import DTYPES
from cugen.toolchain.cuda import Cubin, KernelResources
from tests.runtime.fakes.gpu import SYMBOL, FakeGpu, IllegalAddressError
from tests.runtime.fakes.installed import installed_gpu

PARAMETERS = ("uint64", "uint64", "uint16", "int32", "uint64")


@pytest.fixture(params=["PyCUDA", "libcuda"])
def driver(request: pytest.FixtureRequest) -> Iterator[FakeGpu]:
    """The GPU, with PyCUDA and without."""
    with installed_gpu(has_pycuda=request.param == "PyCUDA") as fake:
        fake.parameters["scale"] = PARAMETERS
        yield fake
        assert (fake.allocated, fake.textures, fake.current) == (set(), {}, [])
        assert (fake.live_events, fake.live_modules) == (0, 0)


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
def scale(driver: FakeGpu) -> None:
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


@pytest.mark.parametrize(
    ("option", "configured"),
    [
        ({"carveout": 0}, ("carve-out", 0)),
        ({"cache_config": "prefer_equal"}, ("cache", 3)),
        ({"bank_bytes": 8}, ("banks", 2)),
    ],
)
def test_a_function_is_configured_as_the_launch_asks(driver, manifest, scale, option, configured) -> None:
    launch = replace(manifest.launches[0], **option)
    gpu.GpuDevice().run(job(replace(manifest, launches=(launch,))))
    assert driver.configured == [configured]


def test_a_launch_takes_the_texture_object_of_an_array(driver, manifest) -> None:
    def kernel(a: int, c: int, *arguments: object) -> None:
        driver.view(c, 8)[:] = driver.view(driver.textures[int(a)], 8)

    driver.kernels["scale"] = kernel
    outcome = gpu.GpuDevice().run(job(replace(manifest, textures=(Texture("A"),)), repeat=2))
    assert np.array_equal(outcome.buffers["C"], np.arange(8))


def test_a_launch_takes_tensor_maps_before_its_arguments(driver, manifest) -> None:
    def kernel(first: np.void, second: np.void, size: np.int32) -> None:
        (target, target_sizes), (source, source_sizes) = (driver.tensor_maps[m.tobytes()] for m in (first, second))
        assert target_sizes == source_sizes == (8,)
        assert size == 8
        driver.view(target, 8)[:] = driver.view(source, 8)

    driver.kernels["scale"], driver.parameters["scale"] = kernel, ("V128", "V128", "int32")
    entries = tuple(TensorMapEntry(f"{name}_map", name, "float32", ("M",), (), (8,), 0) for name in "AC")
    (launch,) = manifest.launches
    mapped = replace(launch, tensor_maps=("C_map", "A_map"), arguments=("M",))
    outcome = gpu.GpuDevice().run(job(replace(manifest, tensor_maps=entries, launches=(mapped,))))
    assert np.array_equal(outcome.buffers["C"], np.arange(8))
    assert driver.launches[0][1] == {"grid": (4, 1, 1), "block": (32, 1, 1), "shared": 0}


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


def test_a_device_has_its_capability(driver: FakeGpu) -> None:
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

    driver.kernels["scale"], driver.parameters["scale"] = kernel, ("uint64",)
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
        raise IllegalAddressError

    driver.kernels["scale"] = kernel
    outcome = gpu.GpuDevice().run(job(manifest))
    (fault,) = outcome.faults
    assert "illegal memory access" in fault.message
    assert driver.contexts == ["push", "pop"]
    assert np.array_equal(outcome.buffers["C"].view(np.uint32), poison(DTYPES["float32"], 8).view(np.uint32))


def test_no_gpu_is_said_with_the_reason(driver, monkeypatch) -> None:
    assert gpu.available() == ""
    with pytest.raises(RunError, match=r"CG5011.*there is no GPU 1: 1 are visible"):
        gpu.GpuDevice(1)
    driver.count = 0
    assert gpu.available() == "the CUDA driver sees no GPU"
    with pytest.raises(RunError, match="CG5011"):
        gpu.GpuDevice()

    def missing() -> None:
        raise RunError("CG5011", "the CUDA driver (libcuda.so.1) is not installed")

    monkeypatch.setattr(libcuda, "driver", missing)
    assert gpu.available() == "the CUDA driver (libcuda.so.1) is not installed"


@pytest.mark.parametrize("name", ["gpu", "auto"])
def test_without_pycuda_the_choice_says_what_runs_and_what_builds_it(driver, name) -> None:
    note = choose(name).note
    if missing_pycuda():
        assert note.startswith("running through the CUDA driver without PyCUDA (")
        assert "`cugen setup gpu`" in note
    else:
        assert note == ""
    assert choose("cpu").note == ""


def test_with_pycuda_the_launches_of_a_run_are_its_own(driver: FakeGpu, manifest: Manifest, scale: None) -> None:
    gpu.GpuDevice().run(job(manifest))
    through = "libcuda" if missing_pycuda() else "PyCUDA"
    assert driver.launched == [(through, "scale", 0)] * 2


def test_buffers_keep_every_alignment_behind_the_canary() -> None:
    assert CANARY_BYTES % 256 == 0
