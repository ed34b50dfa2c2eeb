"""How often instructions run that a compiler made of a loop, by where they stand in small programs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cugen.analysis.totals.exact import Totals
from cugen.analysis.totals.sites import THREAD, Counter, Predicate, Site
from cugen.compiled import sass
from cugen.compiled.transformations.code import Code
from cugen.compiled.transformations.differences import transformations
from cugen.compiled.transformations.unrolled_trips import WHICH_REMAIN
from cugen.plan.memory import Access, Array
from cugen.plan.symbols import Mod, integer, symbol
from cugen.spec.types import DTYPES

X = THREAD[0]
K, D = symbol("loop 0 k"), symbol("loop 1 d")
SOURCE = Array("x", "x", DTYPES["float32"], (integer(999),), (integer(1),), "readonly")
TILE = Array("xs", "xs", DTYPES["float32"], (integer(999),), (integer(1),), "shared")

# One trip ahead of a loop that makes two in each round, as compilers have it where they don't know how many there are.
CHUNKS = """
    P0| BRA `(.L_x_2)
    LDG.E R1, desc[UR4][R2.64]
    LDG.E R1, desc[UR4][R2.64+0x4]
    .L_x_2:
    LDG.E R1, desc[UR4][R2.64]
    LDG.E R1, desc[UR4][R2.64+0x4]
    LDG.E R1, desc[UR4][R2.64+0x8]
    LDG.E R1, desc[UR4][R2.64+0xc]
    P1| BRA `(.L_x_2)
    EXIT
"""


def program(code: str) -> sass.Program:
    rows = []
    for number, line in enumerate(code.strip().splitlines()):
        predicate, _, remainder = line.strip().rpartition("| ")
        guard = f"@{predicate} " if predicate else ""
        rows.append(remainder if remainder.endswith(":") else f"        /*{16 * number:04x}*/  {guard}{remainder} ;")
    return sass.parse("//--------------------- .text.k   ---\n" + "\n".join(rows))["k"]


def total(site: Site) -> Totals:
    """Costs that grow with the distance of the array's element, by multiples of 4."""
    return Totals(warps=1, wavefronts=1 + int(site.offset.subs({X: 0})) % 4)


def made(code: str, site: Site, indices: tuple[str, ...] = (), unrolled: tuple[str, ...] = ()):
    parsed = program(code)
    known = frozenset(symbol(name) for name in indices)
    nothing = {(site.counters, frozenset()): 0}
    about = Code(parsed, (32, 1, 1), (), known, unrolled, (), {}, nothing, {}, {}, {}, total)
    return transformations(about, site, tuple(i for i in parsed.instructions if i.space))


def read(offset, *counters: Counter) -> Site:
    return Site(Access(SOURCE, (offset,), "load"), offset, counters, (), {}, {})


def test_a_loop_of_unknown_trips_makes_all_of_them_in_its_chunks():
    """4 trips are two rounds of two: the one ahead is passed by."""
    site = read(X + 64 * K + D, Counter(K, 4), Counter(D, 2))
    _, shaped, _ = made(CHUNKS, site, ("k",))
    assert shaped == (site,)


@pytest.mark.parametrize(("pitch", "indices"), [(64, ()), (1, ("k",))])
def test_registers_may_have_the_rest_where_trips_are_known_or_share_elements(pitch, indices):
    _, shaped, why = made(CHUNKS, read(X + pitch * K + D, Counter(K, 4), Counter(D, 2)), indices)
    assert shaped is None
    assert why.startswith("reused: its instructions don't make up its trips")


LOADS_IN_A_LOOP = """
    .L_x_1:
    LDG.E R1, desc[UR4][R2.64]
    LDG.E R1, desc[UR4][R2.64+0x4]
    P1| BRA `(.L_x_1)
    EXIT
"""


def within(limit, *counters: Counter) -> Site:
    """A load of one element, in the trips of an unrolled loop over `d` that its guard lets through."""
    guard = Predicate(((limit, "<"),))
    return Site(Access(SOURCE, (X + K,), "load"), X + 64 * K, counters, (guard,), {}, {})


def test_the_first_of_trips_that_fewer_lanes_make_loads_for_all():
    site = within(X + D - 9, Counter(D, 3))
    changes, shaped, _ = made("LDG.E R1, desc[UR4][R2.64]\nEXIT", site)
    assert changes == ["reused: one element for every d"]
    assert shaped is not None
    assert [part.predicates for part in shaped] == [(Predicate(((X - 9, "<"),)),)]


def test_a_trip_that_other_lanes_make_loads_for_itself():
    _, shaped, why = made("LDG.E R1, desc[UR4][R2.64]\nEXIT", within(9 - X - D, Counter(D, 3)))
    assert shaped is None
    assert why.startswith("reused: 2 of 3 trips")


def test_an_unrolled_loop_with_fewer_loads_than_trips_is_not_counted():
    """Two loads in each of 4 trips of the loop over k, but three in an unrolled one."""
    site = within(X + 4 * D - 60, Counter(K, 4), Counter(D, 3))
    site = replace(site, offset=site.offset + D)
    _, shaped, why = made(LOADS_IN_A_LOOP, site, unrolled=(str(D),))
    assert shaped is None
    assert why.startswith("reused")


COPIES = """
    P0| LDGSTS.E [R8], desc[UR4][R2.64], !PT
    P1| LDGSTS.E [R8+0x100], desc[UR4][R2.64], !PT
    EXIT
"""


@pytest.mark.parametrize(("kind", "made_up"), [("async_copy", True), ("store", False)])
def test_no_copy_that_may_run_is_without_an_instruction(kind, made_up):
    """In the first trip lanes fill, in the others none does; a compiler that sees it of one has two instructions."""
    offset = X + 64 * K
    target = Access(TILE, (offset,), kind)
    outside = Predicate(((3 - Mod(X, integer(8)) - 8 * K, "<"),), negated=True)
    site = Site(target, offset, (Counter(K, 3),), (outside,), {}, {})
    _, shaped, _ = made(COPIES, site)
    assert shaped == ((site,) if made_up else None)


def test_vectorised_instructions_may_move_more_elements_than_the_source():
    """5 elements in two instructions of four, or in six of one: the sixth is of a trip that the plan doesn't have."""
    five = read(X * 8 + K, Counter(K, 5))
    wide = "\n".join(["LDG.E.128 R4, desc[UR4][R2.64]"] * 2)
    narrow = "\n".join(["LDG.E R4, desc[UR4][R2.64]"] * 6)
    assert made(wide, five)[1] is not None
    _, shaped, why = made(narrow, five)
    assert shaped is None
    assert why.startswith("duplicated: 6 instructions on several paths for 5 trips")


TWO_OF_THREE = """
    LDS R1, [R2]
    LDS R1, [R2+0x100]
    EXIT
"""


def of_tile(pitch: int, *predicates: Predicate) -> Site:
    offset = X + pitch * K
    return Site(Access(TILE, (offset,), "load"), offset, (Counter(K, 3),), predicates, {}, {})


def test_which_trips_of_an_unrolled_loop_remain_is_the_same_if_they_cost_the_same():
    changes, shaped, _ = made(TWO_OF_THREE, of_tile(64))
    assert changes[-1] == "eliminated: the values are unused or in registers already, of 1 of 3 trips"
    assert shaped is not None
    assert [(part.offset, [c.count for c in part.counters], part.opaque) for part in shaped] == [(X, [2], "")]


def test_which_trips_remain_is_unknown_if_their_costs_differ():
    _, shaped, _ = made(TWO_OF_THREE, of_tile(65))
    assert shaped is not None
    assert [([c.count for c in part.counters], part.opaque) for part in shaped] == [([2], WHICH_REMAIN)]


@pytest.mark.parametrize(
    ("code", "guards"),
    [
        (TWO_OF_THREE.replace("LDS R1, [R2+", "P0| LDS R1, [R2+"), ()),
        (TWO_OF_THREE, (Predicate(((9 - X - K, "<"),)),)),
    ],
    ids=["one has a predicate", "the guard differs"],
)
def test_trips_under_different_conditions_are_not_exchanged(code, guards):
    _, shaped, why = made(code, of_tile(64, *guards))
    assert shaped is None
    assert why.startswith(("reused", "sunk"))


def test_stores_are_never_in_registers_already():
    site = of_tile(64)
    _, shaped, _ = made(
        TWO_OF_THREE.replace("LDS R1, [R2", "STS [R2"), replace(site, access=Access(TILE, (X,), "store"))
    )
    assert shaped is None
