"""The driver's functions are called with what their prototypes say; the library is a recorder."""

import ctypes

import pytest

from cugen.abi.errors import RunError
from cugen.abi.manifest import LaunchEntry
from cugen.abi.tensor_maps import TensorMemory
from cugen.abi.textures import TextureMemory
from cugen.runtime.cuda.libcuda import Driver


class Recorder:
    """Stands for libcuda: notes each call; `answers` maps a function to what it does with its arguments."""

    def __init__(self, **answers: object) -> None:
        self.calls: list[tuple[str, tuple]] = []
        self.answers = answers

    def __getattr__(self, name: str) -> object:
        def function(*arguments: object) -> int:
            self.calls.append((name, arguments))
            answer = self.answers.get(name, 0)
            return answer(*arguments) if callable(answer) else answer

        return function

    def called(self, name: str) -> list[tuple]:
        return [arguments for called, arguments in self.calls if called == name]


def pointed(reference: object, kind: type) -> object:
    return ctypes.cast(reference, ctypes.POINTER(kind)).contents


def sets(value: int, kind: type = ctypes.c_void_p):
    def answer(reference: object, *remaining: object) -> int:
        pointed(reference, kind).value = value
        return 0

    return answer


def test_a_kernel_s_arguments_are_passed_by_their_addresses() -> None:
    seen = []

    def launch(function, gx, gy, gz, bx, by, bz, shared, stream, pointers, extra) -> int:
        seen.append([ctypes.string_at(pointers[0], 8), ctypes.string_at(pointers[1], 2)])
        seen.append([n.value for n in (function, gx, gy, gz, bx, by, bz, shared, stream)])
        assert extra is None
        return 0

    Driver(Recorder(cuLaunchKernel=launch)).launch(9, (2**31 - 1, 2, 3), (4, 5, 6), 77, 11, [b"abcdefgh", b"xy"])
    assert seen == [[b"abcdefgh", b"xy"], [9, 2**31 - 1, 2, 3, 4, 5, 6, 77, 11]]


@pytest.mark.parametrize(
    ("option", "called"),
    [
        ({}, []),
        ({"carveout": 0}, [("cuFuncSetAttribute", [9, 9, 0])]),
        ({"cache_config": "prefer_l1"}, [("cuFuncSetCacheConfig", [9, 2])]),
        ({"bank_bytes": 8}, [("cuFuncSetSharedMemConfig", [9, 2])]),
    ],
)
def test_a_function_is_configured_by_the_numbers_of_the_header(option, called) -> None:
    library = Recorder()
    driver = Driver(library)
    library.calls.clear()
    driver.configure(9, LaunchEntry("k", (1, 1, 1), (32, 1, 1), 0, 0, (), "", **option))
    assert [(name, [getattr(a, "value", a) for a in arguments]) for name, arguments in library.calls] == called


def test_addresses_above_four_gigabytes_stay_whole() -> None:
    library = Recorder(cuMemAllocAsync=sets(0x7F1234567890, ctypes.c_uint64))
    driver = Driver(library)
    assert driver.allocate(2**33, stream=5) == 0x7F1234567890
    (arguments,) = library.called("cuMemAllocAsync")
    assert [argument.value for argument in arguments[1:]] == [2**33, 5]
    driver.copy(2**40, 2**41, 2**33, stream=5)
    (arguments,) = library.called("cuMemcpyDtoDAsync_v2")
    assert [argument.value for argument in arguments] == [2**40, 2**41, 2**33, 5]


@pytest.mark.parametrize(
    ("content", "function", "filled"),
    [
        pytest.param(b"\x81", "cuMemsetD8Async", [(0x300, 0x81)], id="1 byte"),
        pytest.param(b"\x00\x3e", "cuMemsetD16Async", [(0x300, 0x3E00)], id="2 bytes"),
        pytest.param(b"\x04\x03\x02\x81", "cuMemsetD32Async", [(0x300, 0x81020304)], id="4 bytes"),
        pytest.param(b"\x01\0\0\0\x02\0\0\0", "cuMemsetD32Async", [(0x300, 1), (0x304, 2)], id="8 bytes"),
    ],
)
def test_a_number_is_uploaded_by_value(content: bytes, function: str, filled: list[tuple[int, int]]) -> None:
    """A copy from the host's memory would be captured in a CUDA graph with an address that is soon somebody else's."""
    library = Recorder()
    Driver(library).store(0x300, content, stream=5)
    calls = [[argument.value for argument in arguments] for arguments in library.called(function)]
    assert calls == [[address, value, 1, 5] for address, value in filled]


def test_the_current_context_has_a_handle_and_a_gpu() -> None:
    driver = Driver(Recorder(cuCtxGetCurrent=sets(0x55), cuCtxGetDevice=sets(3, ctypes.c_int)))
    assert (driver.context(), driver.ordinal()) == (0x55, 3)
    assert Driver(Recorder(cuCtxGetCurrent=sets(0))).context() == 0


def test_a_primary_context_is_retained_once_and_current_for_the_while() -> None:
    library = Recorder(cuDevicePrimaryCtxRetain=sets(0x66))
    driver = Driver(library)
    with driver.primary(0) as current:
        assert current == 0x66
    with pytest.raises(ZeroDivisionError), driver.primary(0):
        _ = 1 // 0
    assert len(library.called("cuDevicePrimaryCtxRetain")) == 1
    assert len(library.called("cuCtxPushCurrent_v2")) == len(library.called("cuCtxPopCurrent_v2")) == 2


def test_a_failed_call_says_what_the_driver_says() -> None:
    def says(text: bytes):
        def answer(status: int, reference: object) -> int:
            pointed(reference, ctypes.c_char_p).value = text
            return 0

        return answer

    library = Recorder(
        cuLaunchKernel=700,
        cuGetErrorName=says(b"CUDA_ERROR_ILLEGAL_ADDRESS"),
        cuGetErrorString=says(b"an illegal memory access was encountered"),
    )
    with pytest.raises(
        RunError, match=r"CG5013.*cuLaunchKernel failed: CUDA_ERROR_ILLEGAL_ADDRESS \(700\), an illegal"
    ):
        Driver(library).launch(1, (1, 1, 1), (1, 1, 1), 0, 0, [])


def test_a_driver_that_does_not_start_means_no_gpu() -> None:
    with pytest.raises(RunError, match="CG5011"):
        Driver(Recorder(cuInit=100))


def test_memory_of_the_host_has_no_gpu() -> None:
    assert Driver(Recorder(cuPointerGetAttribute=1)).ordinal_of(4096) == -1
    assert Driver(Recorder(cuPointerGetAttribute=sets(2, ctypes.c_int))).ordinal_of(4096) == 2


def test_a_module_is_loaded_though_the_thread_captures_a_graph() -> None:
    modes: list[int] = []

    def exchange(reference: object) -> int:
        mode = pointed(reference, ctypes.c_int)
        modes.append(mode.value)
        mode.value = 0  # the mode of the thread: global
        return 0

    library = Recorder(cuThreadExchangeStreamCaptureMode=exchange, cuModuleLoadData=sets(0x77))
    assert Driver(library).load(b"image") == 0x77
    assert modes == [2, 0]
    names = [name for name, _ in library.calls if name != "cuInit"]
    assert names[1] == "cuModuleLoadData"


def test_a_texture_object_of_linear_memory_is_described_as_the_header_lays_it_out() -> None:
    """CUDA_RESOURCE_DESC: a type, a union of 128 bytes, flags. CUDA_TEXTURE_DESC: 104 bytes with flags at 16."""
    seen = []

    def create(texture, resource, reading, view) -> int:
        pointed(texture, ctypes.c_uint64).value = 0x700000001
        described = ctypes.string_at(ctypes.addressof(resource._obj), 144)
        numbers = [int.from_bytes(described[i:j], "little") for i, j in ((0, 4), (8, 16), (16, 20), (20, 24), (24, 32))]
        seen.append((numbers, any(described[32:]), ctypes.sizeof(reading._obj), view))
        assert ctypes.string_at(ctypes.addressof(reading._obj), 20)[16] == 1  # CU_TRSF_READ_AS_INTEGER
        return 0

    driver = Driver(Recorder(cuTexObjectCreate=create))
    assert driver.create_texture(2**40 + 512, TextureMemory("int16", 2**32)) == 0x700000001
    assert seen == [([2, 2**40 + 512, 0x09, 1, 2**33], False, 104, None)]
    assert driver.create_texture(0, TextureMemory("float32", 0)) == 0
    assert len(seen) == 1


@pytest.mark.parametrize("is_linear", [False, True])
@pytest.mark.parametrize(
    ("mode", "number", "flags"), [("wrap", 0, 3), ("clamp", 1, 1), ("mirror", 2, 3), ("border", 3, 1)]
)
def test_a_texture_object_of_pitched_memory_is_described_as_the_header_lays_it_out(
    mode, number, flags, is_linear
) -> None:
    """Of CUDA_TEXTURE_DESC: three address modes, the filter (0: point, 1: linear), and flags, 2 for normalized
    coordinates."""
    seen = []

    def create(texture, resource, reading, view) -> int:
        described = ctypes.string_at(ctypes.addressof(resource._obj), ctypes.sizeof(resource._obj))
        fields = ((0, 4), (8, 16), (16, 20), (20, 24), (24, 32), (32, 40), (40, 48))
        numbers = [int.from_bytes(described[i:j], "little") for i, j in fields]
        read = ctypes.string_at(ctypes.addressof(reading._obj), ctypes.sizeof(reading._obj))
        words = [int.from_bytes(read[i : i + 4], "little") for i in range(0, 20, 4)]
        seen.append((numbers, any(described[48:]), len(described), words))
        return 0

    driver = Driver(Recorder(cuTexObjectCreate=create))
    driver.create_texture(2**40 + 512, TextureMemory("float16", 5000, 90, 50, 224, mode, is_linear))
    assert seen == [([3, 2**40 + 512, 0x10, 1, 90, 50, 224], False, 144, [number, number, number, is_linear, flags])]


@pytest.mark.parametrize(
    ("dtype", "tf32", "number"),
    [("bfloat16", False, 9), ("float16", False, 6), ("float32", False, 7), ("float32", True, 11)]
    + [(name, False, 0) for name in ("int8", "uint8", "float8_e4m3", "float8_e5m2")]
    + [("int32", False, 3), ("uint32", False, 2)],
)
def test_a_tensor_map_is_encoded_with_the_numbers_of_the_header(dtype, tf32, number) -> None:
    def encode(encoded, *arguments) -> int:
        assert ctypes.addressof(encoded) % 64 == 0
        encoded[:] = [7] * 128
        seen.append([list(a) if isinstance(a, ctypes.Array) else getattr(a, "value", a) for a in arguments])
        return 0

    seen: list[list[object]] = []
    driver = Driver(Recorder(cuTensorMapEncodeTiled=encode))
    memory = TensorMemory(dtype, (2**31, 5, 3), (2**33, 2**36), (64, 16, 1), 128, tf32)
    assert driver.encode_tensor_map(2**40 + 16, memory) == bytes([7] * 128)
    box = [64, 16, 1]
    # No interleave, a swizzle of 128 bytes, promotion to 128 bytes in L2, zeros outside.
    assert seen == [[number, 3, 2**40 + 16, [2**31, 5, 3], [2**33, 2**36], box, [1, 1, 1], 0, 3, 2, 0]]


def numbers_of(arguments: tuple) -> list[object]:
    return [list(a) if isinstance(a, ctypes.Array) else getattr(a, "value", a) for a in arguments]


def test_pixels_are_encoded_with_the_arguments_of_the_im2col_function() -> None:
    recorder = Recorder()
    sizes, strides = (64, 13, 12, 5, 3), (128, 2**11, 2**14, 2**17)
    pixels = ((-1, 2, -16), (0, -3, 15), (1, 8, 2))
    memory = TensorMemory("float16", sizes, strides, (32, 96, 1, 1, 1), 64, False, *pixels)
    Driver(recorder).encode_tensor_map(2**40, memory)
    ((_, *arguments),) = recorder.called("cuTensorMapEncodeIm2col")
    # Then corners, channels and pixels of a copy, and the steps along all dimensions.
    head, box = [6, 5, 2**40, list(sizes), list(strides)], [[-1, 2, -16], [0, -3, 15], 32, 96, [1, 1, 8, 2, 1]]
    assert numbers_of(arguments) == [*head, *box, 0, 2, 2, 0]
    assert isinstance(arguments[5], ctypes.Array)
    assert arguments[5]._type_ is ctypes.c_int
    assert recorder.called("cuTensorMapEncodeTiled") == []


def test_an_im2col_map_of_no_images_is_zeros() -> None:
    recorder = Recorder()
    memory = TensorMemory("int8", (64, 3, 0), (64, 192), (64, 8, 1), 0, False, (-1,), (-1,), (1,))
    assert Driver(recorder).encode_tensor_map(16, memory) == bytes(128)
    assert recorder.called("cuTensorMapEncodeIm2col") == []


@pytest.mark.parametrize(("bytes_of_row", "number"), [(0, 0), (32, 1), (64, 2), (128, 3)])
def test_a_tensor_map_has_the_swizzle_of_its_rows(bytes_of_row, number) -> None:
    recorder = Recorder()
    Driver(recorder).encode_tensor_map(16, TensorMemory("int8", (64, 64), (64,), (32, 8), bytes_of_row))
    ((*_, swizzle, _, _),) = recorder.called("cuTensorMapEncodeTiled")
    assert swizzle == number


def test_the_tensor_map_of_an_empty_array_is_zeros() -> None:
    recorder = Recorder()
    empty = TensorMemory("int8", (64, 0), (64,), (32, 8), 0)
    assert Driver(recorder).encode_tensor_map(0, empty) == bytes(128)
    assert recorder.called("cuTensorMapEncodeTiled") == []


def test_what_the_driver_says_about_a_tensor_map_is_the_error() -> None:
    with pytest.raises(RunError, match="cuTensorMapEncodeTiled failed"):
        Driver(Recorder(cuTensorMapEncodeTiled=1)).encode_tensor_map(8, TensorMemory("int8", (64,), (), (32,), 0))
