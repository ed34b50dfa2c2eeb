"""The form of an address in machine code, through arithmetic, loops and paths that meet."""

from __future__ import annotations

from cugen.compiled import sass
from cugen.compiled.addresses import Form, address_forms, source_forms


def program(code: str) -> sass.Program:
    rows = []
    address = 0
    for line in code.strip().splitlines():
        if line.strip().endswith(":"):
            rows.append(line.strip())
        else:
            predicate, _, remainder = line.strip().rpartition("| ")
            rows.append(f"        /*{address:04x}*/  {'@' + predicate + ' ' if predicate else ''}{remainder} ;")
            address += 16
    text = "//--------------------- .text.k   ---\n" + "\n".join(rows)
    return sass.parse(text)["k"]


def forms(code: str, constants: bytes = b"") -> dict[int, Form]:
    parsed = program(code)
    forms = address_forms(parsed, constants)
    return {i.address: forms[i.address] for i in parsed.instructions if i.space in ("global", "shared")}


def only(actual: dict[int, Form]) -> Form:
    (form,) = actual.values()
    return form


def test_products_sums_and_shifts_make_a_linear_form():
    actual = only(
        forms("""
        S2R R0, SR_CTAID.Y
        S2R R9, SR_TID.X
        LDC.64 R6, c[0x0][0x210]
        IMAD R3, R0, 0x2010, R9
        LEA R3, R9, R3, 0x2
        IMAD.WIDE R6, R3, 0x4, R6
        LDG.E.CONSTANT R1, desc[UR4][R6.64+0x10]
        """)
    )
    assert actual == Form(0x10, (("SR_CTAID.Y", 0x8040), ("SR_TID.X", 20), ("c[0x0][0x210]", 1)))
    assert actual.origins == ("c[0x0][0x210]",)
    assert actual.is_linear


def test_negative_numbers_wrap():
    actual = only(
        forms("""
        S2R R0, SR_TID.X
        IADD3 R1, -R0, 0x3, RZ
        VIADD R1, R1, 0xfffffffe
        LDS R2, [R1.X4+-0x4]
        """)
    )
    assert actual == Form(0, (("SR_TID.X", (1 << 32) - 4),))


def test_constants_come_from_half_precision_pairs_and_from_the_compilers_bank():
    actual = forms(
        """
        HFMA2.MMA R3, -RZ, RZ, 0, 2.384185791015625e-07
        S2R R0, SR_TID.X
        IMAD R1, R0, R3, c[0x2][0x4]
        LDS R2, [R1]
        """,
        constants=bytes([9, 9, 9, 9, 0x40, 4, 0, 0]),
    )
    assert only(actual) == Form(0x440, (("SR_TID.X", 4),))


def test_what_is_not_linear_is_named_after_its_instruction():
    actual = only(
        forms("""
        S2R R0, SR_TID.X
        LOP3.LUT R1, R0, 0x7, RZ, 0xc0, !PT
        LDS R2, [R1+0x400]
        """)
    )
    assert actual == Form(0x400, (("op@10", 1),))
    assert not actual.is_linear


def test_an_induction_variable_keeps_the_pointer_that_it_started_from():
    actual = forms("""
        LDC.64 R2, c[0x0][0x210]
        .L_x_0:
        LDG.E R4, desc[UR4][R2.64]
        IADD3 R2, P0, R2, 0x40, RZ
        IADD3.X R3, RZ, R3, RZ, P0, !PT
        P1| BRA `(.L_x_0)
        LDG.E R4, desc[UR4][R2.64]
        EXIT
    """)
    first, last = actual.values()
    assert first.origins == last.origins == ("c[0x0][0x210]",)
    assert not first.is_linear


def test_where_paths_with_different_pointers_meet_both_are_named():
    actual = only(
        forms("""
        LDC.64 R2, c[0x0][0x210]
        P0| BRA `(.L_x_0)
        LDC.64 R2, c[0x0][0x218]
        .L_x_0:
        LDG.E R4, desc[UR4][R2.64]
        EXIT
        """)
    )
    assert actual.origins == ("c[0x0][0x210]", "c[0x0][0x218]")


def test_a_wide_load_overwrites_all_its_registers():
    actual = forms("""
        MOV R6, 0x8
        LDS.128 R4, [0x10]
        LDS R8, [R6]
    """)
    assert actual[0x10] == Form(0x10)
    assert not actual[0x20].is_linear


def test_an_asynchronous_copy_has_an_address_to_write_to_and_one_to_read_from():
    code = """
        LDC.64 R2, c[0x0][0x210]
        S2R R0, SR_TID.X
        IMAD.WIDE R4, R0, 0x4, R2
        LDGSTS.E [R0.X4+0x100], desc[UR4][R4.64+0x20]
        LDG.E R6, desc[UR4][R4.64]
    """
    position = 0x30
    assert forms(code)[position] == Form(0x100, (("SR_TID.X", 4),))
    assert source_forms(program(code)) == {position: Form(0x20, (("SR_TID.X", 4), ("c[0x0][0x210]", 1)))}
    assert source_forms(program("LDG.E R6, desc[UR4][R4.64]")) == {}
