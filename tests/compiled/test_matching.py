"""Whose access a memory instruction carries out, where its line or the constant of its address alone would mislead."""

from __future__ import annotations

import pytest

from cugen.analysis.totals.sites import Site
from cugen.compiled import sass
from cugen.compiled.addresses import address_forms, source_forms
from cugen.compiled.matching import PrintedSite, after_barrier, match
from cugen.plan.memory import Access, Array
from cugen.plan.nodes import Barrier, Guard, If, Load, NamedBarrier
from cugen.plan.symbols import integer
from cugen.spec.expressions import Local
from cugen.spec.types import DTYPES

POINTERS = {"c[0x0][0x210]": "A", "c[0x0][0x218]": "B"}


def array(name: str, space: str = "shared", size: int = 256, offset: int | None = None) -> Array:
    """With an offset in bytes it lies in dynamic shared memory."""
    where = {} if offset is None else {"dynamic": True, "dynamic_offset": offset}
    return Array(name, name, DTYPES["float32"], (integer(size),), (integer(1),), space, **where)


def site(tile: Array, kind: str, source: Array | None = None) -> Site:
    zero = integer(0)
    read = None if source is None else Access(source, (zero,), "load")
    source_offset = None if source is None else zero
    return Site(Access(tile, (zero,), kind), zero, (), (), {}, {}, source=read, source_offset=source_offset)


def matched(code: str, *printed: PrintedSite) -> list[list[int]]:
    """The places in the code of each site's instructions; `code` has the line before each instruction."""
    rows: list[str] = []
    lines: list[int] = []
    for number, row in enumerate(code.strip().splitlines()):
        line, _, remainder = row.strip().partition(" ")
        lines.append(int(line))
        rows += [f'        //## File "ptx", line {len(lines)}', f"        /*{16 * number:04x}*/  {remainder} ;"]
    program = sass.parse("//--------------------- .text.k   ---\n" + "\n".join(rows), lines)["k"]
    matches = match(program, address_forms(program), source_forms(program), printed, POINTERS)
    assert (matches.unexplained, matches.merged, matches.ambiguous) == ((), (), ())
    return [[instruction.address // 16 for instruction in matched] for matched in matches.instructions]


POINTED = """
    1 LDC.64 R2, c[0x0][0x210]
    1 LDC.64 R4, c[0x0][0x218]
    1 S2R R0, SR_TID.X
    1 LOP3.LUT R8, R0, 0x7, RZ, 0xc0, !PT"""


def test_a_copy_is_of_the_array_that_its_source_points_into_whatever_its_line():
    a, b = array("As"), array("Bs")
    copies = [
        PrintedSite(site(a, "async_copy", array("A", "readonly")), 10),
        PrintedSite(site(b, "async_copy", array("B", "readonly")), 12),
    ]
    code = f"""{POINTED}
    10 LDGSTS.E [R8], desc[UR4][R2.64]
    12 LDGSTS.E [R8+0x80], desc[UR4][R2.64+0x80]
    12 LDGSTS.E [R8+0x400], desc[UR4][R4.64]
    12 LDGSTS.E [R8+0x480], desc[UR4][R4.64+0x80]
    """
    assert matched(code, *copies) == [[4, 5], [6, 7]]


def test_a_tile_begins_where_the_array_copied_into_it_is_copied_to_first():
    """All copies have one line, so no line tells which tile begins where."""
    a, b = array("As"), array("Bs")
    addresses = [
        PrintedSite(site(a, "async_copy", array("A", "readonly")), 10),
        PrintedSite(site(b, "async_copy", array("B", "readonly")), 12),
        PrintedSite(site(a, "load"), 20),
        PrintedSite(site(b, "load"), 22),
    ]
    code = f"""{POINTED}
    12 LDGSTS.E [R8], desc[UR4][R2.64]
    12 LDGSTS.E [R8+0x400], desc[UR4][R4.64]
    99 LDS R10, [R8+0x40]
    99 LDS R11, [R8+0x440]
    """
    assert matched(code, *addresses) == [[4], [5], [6], [7]]


def test_a_copy_of_one_array_into_two_tiles_goes_by_its_line():
    both = array("A", "readonly")
    copies = [PrintedSite(site(array(name), "async_copy", both), line) for name, line in (("As", 10), ("At", 12))]
    code = f"""{POINTED}
    10 LDGSTS.E [R8], desc[UR4][R2.64]
    12 LDGSTS.E [R8+0x400], desc[UR4][R2.64+0x80]
    """
    assert matched(code, *copies) == [[4], [5]]


OVER_A_RING = """
    1 S2R R0, SR_TID.X
    1 LOP3.LUT R8, R0, 0x7, RZ, 0xc0, !PT
    10 STS [R8], R1
    12 STS [R8+0x400], R1
    {bs} LDS R10, [R8+0x440]
    30 STS [R8], R1
    {first} LDS R11, [R8+0x40]
    {second} LDS R12, [R8+0x440]
"""


@pytest.mark.parametrize(("bs", "first", "second"), [(22, 32, 32), (23, 33, 33)])
def test_tiles_that_share_memory_are_matched_by_line(bs, first, second):
    """The second line of a statement counts as near to its first."""
    a, b, parts = array("As", offset=0), array("Bs", offset=1024), array("parts", size=512, offset=0)
    addresses = [
        PrintedSite(site(a, "store"), 10),
        PrintedSite(site(b, "store"), 12),
        PrintedSite(site(a, "load"), 20),
        PrintedSite(site(b, "load"), 22),
        PrintedSite(site(parts, "store"), 30),
        PrintedSite(site(parts, "load"), 32),
    ]
    actual = matched(OVER_A_RING.format(bs=bs, first=first, second=second), *addresses)
    assert actual == [[2], [3], [], [4], [5], [6, 7]]


def test_disjoint_tiles_are_matched_by_address():
    a, b, parts = array("As", offset=0), array("Bs", offset=1024), array("parts", size=256, offset=0)
    addresses = [
        PrintedSite(site(a, "store"), 10),
        PrintedSite(site(b, "store"), 12),
        PrintedSite(site(b, "load"), 22),
        PrintedSite(site(parts, "store"), 30),
        PrintedSite(site(parts, "load"), 32),
    ]
    actual = matched(OVER_A_RING.format(bs=22, first=33, second=33), *addresses)
    assert actual == [[2], [3], [4, 7], [5], [6]]


def test_a_copy_that_comes_before_a_barrier_in_the_code_does_so_in_the_source():
    """The compiler gives the last copy ahead of a loop the line of those in it."""
    source = array("A", "readonly")
    addresses = [
        PrintedSite(site(array("As"), "async_copy", source), 10, is_after_barrier=False),
        PrintedSite(site(array("As"), "async_copy", source), 20, is_after_barrier=True),
    ]
    code = f"""{POINTED}
    10 LDGSTS.E [R8], desc[UR4][R2.64]
    20 LDGSTS.E [R8+0x80], desc[UR4][R2.64+0x80]
    12 BAR.SYNC.DEFER_BLOCKING 0x0
    20 LDGSTS.E [R8+0x100], desc[UR4][R2.64+0x100]
    """
    assert matched(code, *addresses) == [[4, 5], [7]]


def test_a_barrier_parts_a_kernel_where_all_threads_come_to_it_once():
    before, inside, after = (Access(array(name), (integer(0),), "load") for name in ("x", "y", "z"))
    loads = [Load(Local("value", DTYPES["float32"]), access) for access in (before, inside, after)]
    assert after_barrier((loads[0], Barrier(), loads[1], Barrier(), loads[2])) == {
        before.serial: False,
        inside.serial: True,
        after.serial: True,
    }
    assert after_barrier((loads[0],)) == {}
    block = If(Guard(()), (loads[1], Barrier()))
    assert after_barrier((loads[0], block, Barrier(), loads[2])) == {}


@pytest.mark.parametrize(("threads", "is_behind"), [(64, True), (32, False)])
def test_a_team_of_several_warps_meets_at_a_barrier_and_a_single_warp_at_none(threads, is_behind):
    before, after = (Access(array(name), (integer(0),), "load") for name in ("x", "y"))
    loads = [Load(Local("value", DTYPES["float32"]), access) for access in (before, after)]
    is_named = NamedBarrier(integer(0), threads)
    assert after_barrier((loads[0], is_named, loads[1], Barrier()))[after.serial] is is_behind
