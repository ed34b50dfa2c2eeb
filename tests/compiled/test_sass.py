"""nvdisasm's text as instructions with lines, widths, targets and loops."""

from __future__ import annotations

import pytest

from cugen.compiled import sass
from cugen.compiled.ptx_lines import source_lines
from cugen.toolchain.binary.disassembler import disassemble
from cugen.toolchain.cuda import compile_cubin, compile_ptx

# From the disassembly of a tiled product, shortened.
TEXT = """
	.target	sm_90
//--------------------- .text.product             --------------------------
	.section	.text.product,"ax",@progbits
        .global         product
product:
.text.product:
	//## File ".nv_debug_ptx_txt", line 1
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   ULDC.64 UR4, c[0x0][0x208] ;
.L_x_0:
	//## File ".nv_debug_ptx_txt", line 4
        /*01b0*/              @!P1 LDG.E.U8.CONSTANT R20, desc[UR4][R16.64+-0x8] ;
        /*01c0*/                   IMAD R12, R13.reuse, 0x44, R12 ;
        /*0320*/                   STS.U16 [R23+UR4+0x40], R20 ;
	//## File ".nv_debug_ptx_txt", line 2
        /*0350*/                   LDS.128 R24, [R13] ;
        /*0360*/              @!P1 BRA `(.L_x_0) ;
.L_x_2:
        /*0370*/               @P0 EXIT ;
	//## File ".nv_debug_ptx_txt", line 3
        /*0380*/                   STG.E.64 desc[UR4][R2.64], R18 ;
        /*0390*/                   EXIT ;
.L_x_1:
        /*03a0*/                   BRA `(.L_x_1);
        /*03b0*/                   NOP;
.L_x_3:

//--------------------- SYMBOLS --------------------------
	.type		.nv.reservedSmem.offset0,@object
"""


PTX_LINES = (16, 38, 45, 33)  # in the .cu


@pytest.fixture
def program() -> sass.Program:
    return sass.parse(TEXT, PTX_LINES)["product"]


def instruction_at(program: sass.Program, address: int) -> sass.Instruction:
    return next(i for i in program.instructions if i.address == address)


def test_an_instruction_has_its_predicate_opcode_and_operands(program):
    load = instruction_at(program, 0x1B0)
    assert (load.predicate, load.opcode, load.name) == ("!P1", "LDG.E.U8.CONSTANT", "LDG")
    assert load.operands == ("R20", "desc[UR4][R16.64+-0x8]")
    assert instruction_at(program, 0x1C0).operands == ("R12", "R13.reuse", "0x44", "R12")


def test_an_instruction_has_the_line_of_its_ptx(program):
    assert [instruction_at(program, address).line for address in (0x0, 0x10, 0x1B0, 0x350, 0x380)] == [
        16,
        16,
        33,
        38,
        45,
    ]


@pytest.mark.parametrize(
    ("address", "space", "kind", "width"),
    [
        (0x000, "constant", "load", 4),
        (0x010, "constant", "load", 8),
        (0x1B0, "global", "load", 1),
        (0x1C0, "", "", 4),
        (0x320, "shared", "store", 2),
        (0x350, "shared", "load", 16),
        (0x380, "global", "store", 8),
    ],
)
def test_the_opcode_says_which_memory_moves_and_how_much(program, address, space, kind, width):
    actual = instruction_at(program, address)
    assert (actual.space, actual.kind, actual.bytes) == (space, kind, width)


def test_a_branch_back_is_a_loop_and_the_trap_behind_the_code_is_none(program):
    assert program.loops == ((0x1B0, 0x360),)
    assert program.loop_of(instruction_at(program, 0x350)) == (0x1B0, 0x360)
    assert program.loop_of(instruction_at(program, 0x380)) is None


def test_a_block_begins_at_a_label_and_behind_a_branch_or_an_exit(program):
    assert program.block_starts == (0x000, 0x1B0, 0x370, 0x380, 0x3A0)
    assert program.block_of(instruction_at(program, 0x350)) == 0x1B0
    assert program.block_of(instruction_at(program, 0x390)) == 0x380


def test_kernels_are_separated_and_padding_is_left_out():
    two = TEXT + TEXT.replace("product", "other")
    programs = sass.parse(two, PTX_LINES)
    assert list(programs) == ["product", "other"]
    assert [i.opcode for i in programs["other"].instructions] == [i.opcode for i in programs["product"].instructions]
    assert all(i.name != "NOP" for i in programs["product"].instructions)


SOURCE = """
__device__ __forceinline__ float twice(const float* p) {
    return 2.0f * __ldg(p);
}
extern "C" __global__ void first(const float* __restrict__ a, float* __restrict__ b, int n) {
    float sum = 0.0f;
    #pragma unroll 1
    for (int i = 0; i < n; ++i)
        sum += twice(a + i);
    b[threadIdx.x] = sum;
}
extern "C" __global__ void second(float4* b) {
    b[threadIdx.x] = make_float4(1, 2, 3, 4);
}
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_fresh_disassembly_is_read_whole(target):
    text = disassemble(compile_cubin(SOURCE, "two", target).image, lines="ptx")
    programs = sass.parse(text, source_lines(compile_ptx(SOURCE, "two", target)))
    assert sorted(programs) == ["first", "second"]
    assert sum(len(p.instructions) for p in programs.values()) == sum(
        1 for line in text.splitlines() if line.lstrip().startswith("/*") and "NOP" not in line
    )
    (load,) = (i for i in programs["first"].instructions if i.name == "LDG")
    assert load.line == 9
    assert programs["first"].loop_of(load) is not None
    (store,) = (i for i in programs["second"].instructions if i.name == "STG")
    assert (store.bytes, store.line) == (16, 13)


RETURNING = """
//--------------------- .text.sum             --------------------------
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_0:
        /*0010*/                   LDG.E R2, desc[UR4][R4.64] ;
        /*0020*/               @P0 BRA `(.L_x_0) ;
        /*0030*/                   BRA.DIV UR4, `(.L_x_2) ;
.L_x_1:
        /*0040*/                   STG.E desc[UR4][R2.64], R18 ;
        /*0050*/                   EXIT ;
.L_x_2:
        /*0060*/                   IADD3 R2, R2, R3, RZ ;
        /*0070*/                   BRA `(.L_x_1) ;
//--------------------- .nv.info             --------------------------
"""


def test_code_behind_the_rest_that_returns_to_it_makes_no_loop():
    actual = sass.parse(RETURNING)["sum"]
    assert actual.loops == ((0x10, 0x20),)
    assert actual.loop_of(instruction_at(actual, 0x10)) == (0x10, 0x20)
    assert actual.loop_of(instruction_at(actual, 0x40)) is None
    assert actual.next_blocks(0x30) == (0x60, 0x40)


def test_a_block_outside_the_address_range_of_its_loop_is_in_the_loop():
    actual = sass.parse(RETURNING.replace("@P0 EXIT", "EXIT").replace("BRA `(.L_x_1)", "BRA `(.L_x_0)"))["sum"]
    assert (0x10, 0x70) in actual.loops
    assert (
        actual.loop_of(instruction_at(actual, 0x40)) is None
    )  # between the loop's ends, but nothing leads back from it
    assert actual.loop_of(instruction_at(actual, 0x60)) == (0x10, 0x70)


def test_where_a_branch_goes_to_an_address_in_a_register_every_branch_back_is_a_loop():
    actual = sass.parse(RETURNING.replace("EXIT ;", "BRX R6 ;"))["sum"]
    assert (0x40, 0x70) in actual.loops
