"""The cubin reader refuses what is no cubin; its figures are tested against ptxas in test_cuda."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.toolchain import cuda
from cugen.toolchain.binary import elf

SOURCE = 'extern "C" __global__ void f(float* a) { __shared__ float t[8]; t[0] = a[0]; a[1] = t[0]; }\n'


def test_a_file_without_an_elf_header_is_refused() -> None:
    with pytest.raises(ValueError, match="not a cubin"):
        elf.kernels(b"\x7fELX" + bytes(100))


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUGEN_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        return cuda.compile_cubin(SOURCE, "f", "sm_80").image


@given(part=st.floats(min_value=0, max_value=0.9))
def test_a_truncated_cubin_is_refused(image: bytes, part: float) -> None:
    with pytest.raises(ValueError, match="cubin"):  # the table of sections is near the end
        elf.kernels(image[: int(part * len(image))])


def test_a_device_function_is_no_kernel() -> None:
    source = 'extern "C" __device__ __noinline__ int g(int x) { return x * x; }\n' + SOURCE.replace(
        "a[0]; a[1]", "g(a[0]); a[1]"
    )
    assert list(elf.kernels(cuda.compile_cubin(source, "f", "sm_80").image)) == ["f"]


def test_constants_have_their_offsets_in_the_bank():
    source = """
__constant__ float taps[3] = {1.0f, 2.0f, 4.0f};
__constant__ double scale;
extern "C" __global__ void k(float* out, int n) { out[threadIdx.x] = taps[n] * (float)scale; }
"""
    constants = elf.constants(cuda.compile_cubin(source, "k", "sm_90").image)
    assert {name: size for name, (_, size) in constants.items()} == {"taps": 12, "scale": 8}
    ranges = sorted((start, start + size) for start, size in constants.values())
    assert ranges[0][1] <= ranges[1][0]


def test_a_section_that_is_not_there_is_empty():
    image = cuda.compile_cubin('extern "C" __global__ void k() {}', "k", "sm_90").image
    assert elf.section(image, ".nv.constant2.k") == b""
    assert elf.section(image, ".text.k")


MAPS = """
struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void maps(const __grid_constant__ Map a, const __grid_constant__ Map b, float* c, int n) {
    c[n] = a.bytes[n] + b.bytes[n];
}
extern "C" __global__ void numbers(bool a, double* b, short c, signed char d, float e, long long f, int g) {
    b[g] = a + c + d + e + f;
}
extern "C" __global__ void nothing() {}
"""


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100", "sm_120"])
def test_parameters_have_the_places_that_the_code_reads(target: str) -> None:
    """A tensor map is aligned in the constant bank, whose first bytes are the driver's: it isn't at offset 0."""
    image = cuda.compile_cubin(MAPS, "maps", target).image
    numbers = [(p.offset, p.size) for p in elf.parameters(image, "numbers")]
    assert numbers == [(0, 1), (8, 8), (16, 2), (18, 1), (20, 4), (24, 8), (32, 4)]
    a, b, c, n = elf.parameters(image, "maps")
    assert [p.size for p in (a, b, c, n)] == [128, 128, 8, 4]
    base = elf.kernels(image)["maps"].argument_bytes - (n.offset + n.size)
    assert (base + a.offset) % 64 == (base + b.offset) % 64 == (base + c.offset) % 8 == 0
    assert 0 <= a.offset <= b.offset - 128 <= c.offset - 256 <= n.offset - 264
    assert elf.parameters(image, "nothing") == ()
