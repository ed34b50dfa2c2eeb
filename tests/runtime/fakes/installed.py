"""A GPU of the tests in place of those of the machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from cugen.runtime.cuda import choice, libcuda, pycuda_binding
from tests.runtime.fakes.gpu import FakeGpu, parameters_of
from tests.runtime.fakes.libcuda import FakeLibcuda
from tests.runtime.fakes.pycuda import FakePyCuda


@contextmanager
def installed_gpu(*, has_pycuda: bool) -> Iterator[FakeGpu]:
    """This GPU in place of those of the machine, with PyCUDA or without."""
    gpu = FakeGpu()
    opened = libcuda.Driver(FakeLibcuda(gpu))
    package = ModuleType("pycuda")
    package.driver = FakePyCuda(gpu) if has_pycuda else None  # type: ignore[attr-defined]
    caches = (choice._lasting, pycuda_binding._retained, pycuda_binding.missing_pycuda)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pycuda", package)
        patch.setitem(sys.modules, "pycuda.driver", package.driver)
        patch.setattr(libcuda, "driver", lambda: opened)
        patch.setattr(pycuda_binding, "parameters", lambda image, kernel: parameters_of(gpu, kernel))
        for cache in caches:
            cache.cache_clear()
        try:
            yield gpu
        finally:
            for cache in caches:
                cache.cache_clear()
