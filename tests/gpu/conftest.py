"""These tests need a GPU. Elsewhere each is skipped with the reason, which pytest's summary shows (`-rs`)."""

import pytest

from cugen.runtime import gpu


@pytest.fixture(scope="session")
def device() -> gpu.GpuDevice:
    """The GPU, or a skip that says why there is none."""
    if reason := gpu.available():
        pytest.skip(f"NO GPU, NOT TESTED: {reason}")
    return gpu.GpuDevice()
