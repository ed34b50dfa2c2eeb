"""Where CUDA's parts are looked for."""

import sys
from pathlib import Path

import pytest

from cugen.toolchain import locations


def toolkit(root: Path) -> Path:
    for name in ("bin/nvcc", "include/cuda_fp16.h", "lib64/libnvrtc.so.13"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch(mode=0o755)
    return root


@pytest.fixture(autouse=True)
def only_named_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_a_named_toolkit_comes_first(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = toolkit(tmp_path / "cuda")
    monkeypatch.setenv("PATH", str(toolkit(tmp_path / "other") / "bin"))
    monkeypatch.setenv(variable, str(root))
    assert locations.program("nvcc") == root / "bin/nvcc"
    assert locations.library("libnvrtc.so*") == root / "lib64/libnvrtc.so.13"
    assert locations.include_folders() == (root / "include",)


def test_wheels_are_found_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "site-packages/nvidia/cu13"
    toolkit(wheel)
    (wheel / "lib").mkdir()
    for name in ("libnvrtc.so.13", "libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0"):
        (wheel / "lib" / name).touch()
    (wheel / "include/cccl").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
    assert locations.program("nvcc") == wheel / "bin/nvcc"
    assert locations.library("libnvrtc.so*") == wheel / "lib/libnvrtc.so.13"
    assert locations.include_folders() == (wheel / "include", wheel / "include/cccl")


def test_each_part_of_older_wheels_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia = tmp_path / "nvidia"
    for name in ("cuda_nvrtc/lib/libnvrtc.so.12", "cuda_runtime/include/cuda_fp16.h"):
        (nvidia / name).parent.mkdir(parents=True)
        (nvidia / name).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert locations.library("libnvrtc.so*") == nvidia / "cuda_nvrtc/lib/libnvrtc.so.12"
    assert locations.include_folders() == (nvidia / "cuda_runtime/include",)


def test_a_toolkit_on_path_brings_its_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = toolkit(tmp_path / "cuda-13.0")
    monkeypatch.setenv("PATH", str(root / "bin"))
    assert root / "include" in locations.include_folders()


def test_headers_come_from_the_toolkit_of_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", str(toolkit(tmp_path / "cuda-12.4")))
    newer = toolkit(tmp_path / "cuda-13.0")
    assert locations.include_folders(newer / "lib64/libnvrtc.so.13") == (newer / "include",)
    nested = toolkit(tmp_path / "cuda-13.1") / "targets/x86_64-linux/lib/libnvrtc.so.13"
    assert locations.include_folders(nested) == (tmp_path / "cuda-13.1/include",)
