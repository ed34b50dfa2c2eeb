"""Every spec of the gallery on a real GPU, against the reference."""

from pathlib import Path

import pytest

from cugen.kernel import generate
from cugen.runtime import gpu
from cugen.runtime.cuda.libcuda_binding import LibcudaBinding
from cugen.runtime.gpu import GpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_all

pytestmark = pytest.mark.gpu

SPECS = sorted((Path(__file__).parents[2] / "specs").rglob("*.yaml"))
DYNAMIC = 96  # a value for every dynamic param, brought to its range and multiple


# Tensor maps, flags in a workspace, constants, textures, dynamic shared memory.
WITHOUT_PYCUDA = ("gemm_wgmma_f16", "prefix_sum", "blur5x5", "tone_curve", "enlarge", "matmul_dynamic_shared")


@pytest.mark.parametrize("path", SPECS, ids=[path.stem for path in SPECS])
def test_a_kernel_of_the_gallery_is_right(device: GpuDevice, path: Path) -> None:
    check(device, path)


@pytest.mark.parametrize("name", WITHOUT_PYCUDA)
def test_a_kernel_is_right_without_pycuda(device: GpuDevice, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "binding", LibcudaBinding)
    check(device, Path(__file__).parents[2] / "specs" / f"{name}.yaml")


def check(device: GpuDevice, path: Path) -> None:
    for spec in load_all(path):
        kernel = generate(spec)
        params = {
            p.name: min(max(DYNAMIC, p.minimum), p.maximum) // p.multiple_of * p.multiple_of
            for p in spec.params
            if p.value is None
        }
        run = verify(spec, kernel.source, kernel.manifest, device, params=params)
        assert run.verification.passed, f"{kernel.name}: " + "; ".join(run.verification.messages)
