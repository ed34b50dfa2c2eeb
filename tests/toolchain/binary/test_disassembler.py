"""Machine code as text."""

import re

import pytest

from cugen.toolchain import cuda, locations
from cugen.toolchain.binary.disassembler import disassemble
from cugen.toolchain.errors import ToolMissing

SOURCE = """\
extern "C" __global__ void copy4(const float4* __restrict__ a, float4* __restrict__ b) {
    b[threadIdx.x] = a[threadIdx.x];
}
"""


def test_the_width_of_a_load_and_the_line_that_made_it_can_be_read() -> None:
    sass = disassemble(cuda.compile_cubin(SOURCE, "copy4", "sm_90").image)
    assert re.search(r"LDG\.E\.128", sass)
    assert re.search(r'copy4\.cu", line 2', sass)


@pytest.mark.slow
def test_lines_of_the_ptx_are_those_that_compile_ptx_returns() -> None:
    sass = disassemble(cuda.compile_cubin(SOURCE, "copy4", "sm_90").image, lines="ptx")
    ptx = cuda.compile_ptx(SOURCE, "copy4", "sm_90").splitlines()
    load = re.search(r"line (\d+)\n[^\n]*LDG", sass)
    assert load is not None
    assert "ld.global.nc.v4" in ptx[int(load[1]) - 1]


@pytest.mark.slow
def test_without_lines_no_file_is_named() -> None:
    assert "copy4.cu" not in disassemble(cuda.compile_cubin(SOURCE, "copy4", "sm_90").image, lines=None)


def test_a_missing_nvdisasm_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locations, "program", lambda name: None)
    with pytest.raises(ToolMissing, match=r"(?s)nvdisasm was not found.*pip install nvidia-cuda-nvdisasm"):
        disassemble(b"")
