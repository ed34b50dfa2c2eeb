"""Calls go through PyCUDA in its own contexts and in those that cugen makes current, else through libcuda."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from cugen.runtime.cuda import choice, libcuda
from cugen.runtime.cuda.choice import binding, context_of_call
from cugen.runtime.cuda.libcuda_binding import LibcudaBinding
from cugen.runtime.cuda.pycuda_binding import PyCudaBinding
from tests.runtime.fakes.gpu import PRIMARY, FakeGpu
from tests.runtime.fakes.installed import installed_gpu

FOREIGN = 0x77  # a context or stream of another library


@pytest.fixture
def gpu() -> Iterator[FakeGpu]:
    with installed_gpu(has_pycuda=True) as fake:
        yield fake


@pytest.fixture
def pycuda(gpu: FakeGpu) -> Any:
    return sys.modules["pycuda.driver"]


@pytest.fixture
def foreign(gpu: FakeGpu) -> None:
    """Another library's context is current."""
    gpu.current.append(FOREIGN)


def chosen(stream: Any = None, on_gpu: int | None = None) -> tuple[type, int, Any]:
    with context_of_call(stream, on_gpu) as current:
        assert libcuda.driver().context() == current.context
        return type(current.cuda), current.context, current.stream


def test_a_context_that_cugen_makes_current_is_pycuda_s(gpu: FakeGpu) -> None:
    for default in (None, 0):
        assert chosen(default) == (PyCudaBinding, PRIMARY, None)
    assert (gpu.current, gpu.contexts) == ([], ["push", "pop"] * 2)


def test_a_stream_of_another_library_is_libcuda_s(gpu: FakeGpu) -> None:
    assert chosen(FOREIGN) == (LibcudaBinding, PRIMARY, FOREIGN)
    assert gpu.current == []


def test_a_context_of_another_library_is_libcuda_s_and_left_as_it_is(gpu: FakeGpu, foreign: None) -> None:
    assert chosen() == (LibcudaBinding, FOREIGN, 0)
    assert chosen(FOREIGN) == (LibcudaBinding, FOREIGN, FOREIGN)
    assert (gpu.current, gpu.contexts) == ([FOREIGN], [])


def test_a_context_of_pycuda_is_its_own(gpu: FakeGpu, pycuda: Any) -> None:
    context = pycuda.Device(0).make_context()
    stream = pycuda.Stream()
    assert chosen() == (PyCudaBinding, context.handle, None)
    assert chosen(stream) == (PyCudaBinding, context.handle, stream)
    assert gpu.current == [context.handle]


def test_the_handle_of_a_stream_is_libcuda_s_in_a_context_of_pycuda(gpu: FakeGpu, pycuda: Any) -> None:
    context = pycuda.Device(0).make_context()
    handle = pycuda.Stream().handle
    assert chosen(handle) == (LibcudaBinding, context.handle, handle)
    per_thread = 2
    assert chosen(per_thread) == (LibcudaBinding, context.handle, per_thread)


def test_a_context_that_another_library_pushed_over_pycuda_s_is_libcuda_s(gpu: FakeGpu, pycuda: Any) -> None:
    pycuda.Device(0).make_context()
    gpu.current.append(FOREIGN)
    assert chosen() == (LibcudaBinding, FOREIGN, 0)


def test_after_a_run_the_context_of_another_library_is_still_libcuda_s(gpu: FakeGpu, foreign: None) -> None:
    with binding().current(0):
        assert chosen() == (PyCudaBinding, PRIMARY, None)
    assert chosen() == (LibcudaBinding, FOREIGN, 0)


@pytest.mark.parametrize("way", ["pushed over", "set in place of"])
def test_a_run_leaves_the_context_that_another_library_put_beside_pycuda_s(gpu: FakeGpu, pycuda: Any, way: str) -> None:
    handle = pycuda.Device(0).make_context().handle
    gpu.current[:] = [handle, FOREIGN] if way == "pushed over" else [FOREIGN]
    before = list(gpu.current)
    with binding().current(0):
        assert chosen() == (PyCudaBinding, PRIMARY, None)
    assert gpu.current == before


def test_the_gpu_of_a_tensor_is_its_library_s(gpu: FakeGpu, foreign: None) -> None:
    assert chosen(FOREIGN, on_gpu=2) == (LibcudaBinding, PRIMARY + 2, FOREIGN)
    assert chosen(0, on_gpu=2) == (LibcudaBinding, PRIMARY + 2, 0)


def test_an_exception_leaves_no_context_current(gpu: FakeGpu) -> None:
    with pytest.raises(ZeroDivisionError), context_of_call(None):
        _ = 1 // 0
    assert gpu.current == []


def test_without_pycuda_all_is_libcuda_s() -> None:
    with installed_gpu(has_pycuda=False) as gpu:
        assert chosen() == (LibcudaBinding, PRIMARY, 0)
        assert isinstance(binding(), LibcudaBinding)
        assert "`cugen setup gpu` builds it" in choice.without_pycuda()
        assert gpu.current == []


def test_calls_share_a_binding_which_is_never_released(gpu: FakeGpu) -> None:
    with context_of_call(None) as first:
        pass
    with context_of_call(None) as second:
        pass
    assert first.cuda is second.cuda
    assert binding() is not binding()


def test_a_call_in_another_library_s_context_does_not_import_pycuda() -> None:
    program = """
import sys
from types import SimpleNamespace
from cugen.runtime.cuda import choice, libcuda
libcuda.driver = lambda: SimpleNamespace(context=lambda: 5, ordinal=lambda: 0)
with choice.context_of_call(None) as current:
    assert type(current.cuda).__name__ == "LibcudaBinding"
assert "pycuda" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
