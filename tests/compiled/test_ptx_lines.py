"""PTX instructions have the lines of the statements in the kernel, those of inlined functions included."""

from __future__ import annotations

import pytest

from cugen.compiled import sass
from cugen.compiled.ptx_lines import check_same_compilation, source_lines
from cugen.toolchain.binary.disassembler import disassemble
from cugen.toolchain.cuda import compile_cubin, compile_ptx


def test_an_instruction_has_the_line_of_the_directive_before_it():
    assert source_lines("\tret;\n\t.loc 1 7 5\n\tret;\n\t.loc 1 9 0\n") == (0, 7, 7, 9)


def test_an_inlined_instruction_has_the_line_of_the_outermost_call():
    ptx = """\
.loc 1 20 5
.loc 1 3 9, function_name $L__info_string0, inlined_at 1 20 5
.loc 2 88 1, function_name $L__info_string1, inlined_at 1 3 9
ld.global.f32 %f1, [%rd1];
.loc 1 21 5
.loc 1 3 9, function_name $L__info_string0, inlined_at 1 21 5
.loc 2 88 1, function_name $L__info_string1, inlined_at 1 3 9
ld.global.f32 %f2, [%rd2];
"""
    lines = source_lines(ptx)
    assert (lines[3], lines[7]) == (20, 21)


def test_a_repeated_chain_of_calls_has_the_latest_line_of_its_calls():
    """The copies of an unrolled loop: in its second trip, the directives leave out the callers of callers."""
    ptx = """\
.loc 1 20 5
.loc 2 69 9, function_name $L__info_string0, inlined_at 1 20 5
.loc 3 88 1, function_name $L__info_string1, inlined_at 2 69 9
cp.async.cg.shared.global [%r1], [%rd1], 16, 16;
.loc 2 69 9, function_name $L__info_string0, inlined_at 1 21 5
.loc 3 88 1, function_name $L__info_string1, inlined_at 2 69 9
cp.async.cg.shared.global [%r2], [%rd2], 16, 16;
.loc 1 20 5
.loc 3 88 1, function_name $L__info_string1, inlined_at 2 69 9
cp.async.cg.shared.global [%r3], [%rd1], 16, 16;
.loc 1 15 5
.loc 3 88 1, function_name $L__info_string1, inlined_at 2 69 9
"""
    lines = source_lines(ptx)
    assert [lines[3], lines[6], lines[9]] == [20, 21, 20]
    assert lines[10:] == (15, 20)


def test_a_line_of_a_function_that_is_not_inlined_is_its_own():
    ptx = """\
.loc 1 3 9, function_name $L__info_string0, inlined_at 1 20 5
.loc 1 3 9
"""
    assert source_lines(ptx) == (20, 3)


def test_a_recursive_call_has_a_line():
    ptx = ".loc 1 3 9, function_name $f, inlined_at 1 4 9\n.loc 1 4 9, function_name $f, inlined_at 1 3 9\n"
    assert all(line in (3, 4) for line in source_lines(ptx))


ADJACENT = """\
__device__ __forceinline__ float4 load(const float* p) {
    return *reinterpret_cast<const float4*>(p);
}
extern "C" __global__ void add(const float* __restrict__ a, const float* __restrict__ b, float4* __restrict__ c) {
    const float4 x = load(a + 4 * threadIdx.x);
    const float4 y = load(b + 4 * threadIdx.x);
    c[threadIdx.x] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
}
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_adjacent_loads_of_one_function_have_the_lines_of_their_calls(target):
    image, ptx = compile_cubin(ADJACENT, "add", target).image, compile_ptx(ADJACENT, "add", target)
    check_same_compilation(image, ptx)
    program = sass.parse(disassemble(image, lines="ptx"), source_lines(ptx))["add"]
    assert sorted(i.line for i in program.instructions if i.name == "LDG") == [5, 6]


def test_the_ptx_of_another_source_is_refused():
    image = compile_cubin(ADJACENT, "add", "sm_90").image
    another = compile_ptx(ADJACENT.replace("x.x + y.x", "x.x * y.x"), "add", "sm_90")
    with pytest.raises(ValueError, match="the PTX isn't that of the cubin"):
        check_same_compilation(image, another)
    with pytest.raises(ValueError, match="has no lines"):
        check_same_compilation(compile_cubin(ADJACENT, "add", "sm_90", lines=False).image, another)
