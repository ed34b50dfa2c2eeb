"""Which access of the plan each memory instruction carries out: by memory, array, line and the form of its address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from cugen.analysis.totals.affine import affine_form
from cugen.analysis.totals.sites import BLOCK, THREAD, Site
from cugen.compiled.addresses import Form
from cugen.compiled.sass import Instruction, Program
from cugen.plan.memory import Array
from cugen.plan.nodes import Barrier, NamedBarrier, Node
from cugen.plan.symbols import integer
from cugen.plan.walking import accesses, walk_nodes

SPACES = {"shared": "shared", "constant": "constant", "global": "global", "readonly": "global", "table": "global"}
_WORD = 1 << 32
_NEVER = "!PT"  # compilers put such reads before asynchronous copies


@dataclass(frozen=True)
class Placed:
    """A site of the plan and the line of the .cu at which its access is printed.

    behind: whether the block's threads have met before it, each time that it runs; None where that isn't told."""

    site: Site
    line: int
    behind: bool | None = None

    @property
    def space(self) -> str:
        return "generic" if self.site.access.rank is not None else SPACES[self.site.access.array.space]


@dataclass(frozen=True)
class Matches:
    """`instructions[i]` carry out the i-th site. `joined` are those that serve several sites, on whichever path a lane
    came; `shared_out` those that several sites could have asked for alike (they were dealt out in turn); `unexplained`
    those that none did."""

    instructions: tuple[tuple[Instruction, ...], ...]
    joined: tuple[Instruction, ...]
    shared_out: tuple[Instruction, ...]
    unexplained: tuple[Instruction, ...]


def fills(instruction: Instruction) -> bool:
    """Whether an asynchronous copy writes zeros: its source is behind a predicate that never holds."""
    return instruction.kind == "async_copy" and instruction.operands[-1] == _NEVER


def match(
    program: Program,
    forms: Mapping[int, Form],
    sources: Mapping[int, Form],
    placed: Sequence[Placed],
    pointers: Mapping[str, str],
) -> Matches:
    """Matches the global and shared accesses. `sources` has what asynchronous copies read from; `pointers` gives the
    array behind each word of the argument bank."""
    copied = _copied(sources, pointers)
    behind = _behind_barriers(program)
    starts = _tile_starts(program, forms, placed, copied)
    pointers = {**pointers, **_table_pointers(program, forms, placed)}
    found: list[list[Instruction]] = [[] for _ in placed]
    joined: list[Instruction] = []
    dealt: list[Instruction] = []
    unexplained: list[Instruction] = []
    turns: dict[tuple[int, ...], int] = {}
    for instruction in program.instructions:
        if instruction.space not in ("global", "shared", "generic") or instruction.predicate == _NEVER:
            continue
        form = forms.get(instruction.address, Form())
        able = [
            n
            for n, p in enumerate(placed)
            if p.space == instruction.space
            and p.site.access.kind == instruction.kind
            and _may_move(instruction, p, copied)
        ]
        if instruction.space == "shared" and behind is not None:  # such accesses never pass a barrier
            able = [n for n in able if placed[n].behind in (None, instruction.address in behind)]
        candidates = _candidates(instruction, form, placed, able, pointers, starts)
        if not candidates:
            unexplained.append(instruction)
            continue
        if len({_identity(placed[n].site.access.array) for n in candidates}) > 1:
            joined.append(instruction)
            for number in candidates:
                found[number].append(instruction)
            continue
        turn = turns.get(candidates, 0)
        turns[candidates] = turn + 1
        found[candidates[turn % len(candidates)]].append(instruction)
        if len(candidates) > 1:
            dealt.append(instruction)
    targets = {id(place.site.access): own for place, own in zip(placed, found, strict=True)}
    for place, own in zip(placed, found, strict=True):
        if place.site.copy_target is not None:  # one instruction reads and writes
            own += targets.get(id(place.site.copy_target), [])
    return Matches(tuple(tuple(f) for f in found), tuple(joined), tuple(dealt), tuple(unexplained))


def _candidates(
    instruction: Instruction,
    form: Form,
    placed: Sequence[Placed],
    numbers: Sequence[int],
    pointers: Mapping[str, str],
    starts: Mapping[str, int],
) -> tuple[int, ...]:
    """Which of the sites of its kind an instruction belongs to; more than one only where nothing tells them apart."""
    here = [n for n in numbers if placed[n].line == instruction.line]
    possible = {_identity(placed[n].site.access.array): placed[n].site.access.array for n in numbers}
    arrays = _arrays(instruction, form, pointers, starts, possible)
    inside = [n for n in numbers if _identity(placed[n].site.access.array) in arrays]
    if instruction.space == "shared" and here and not form.is_linear:
        # The constant of an address that isn't linear may lie in another tile.
        numbers = [n for n in here if n in inside] or here
    else:
        numbers = inside if arrays else here
    numbers = _nearest(instruction, placed, numbers)
    for agrees in (_steps_agree, _constant_agrees):
        if len(numbers) > 1:
            numbers = [n for n in numbers if agrees(form, placed[n].site)] or numbers
    return tuple(numbers)


def behind_barrier(body: Sequence[Node]) -> dict[int, bool]:
    """Whether an access, by its identity, stands behind the first barrier; empty where not all threads come to that, or
    more than once."""
    first = next((n for n, node in enumerate(body) if any(map(_is_barrier, walk_nodes((node,))))), 0)
    if not body or not _is_barrier(body[first]):
        return {}
    return {id(access): n > first for n, node in enumerate(body) for access in accesses((node,))}


def _is_barrier(node: Node) -> bool:
    """Whether the node is compiled to a barrier's instruction, which one of a single warp isn't."""
    return isinstance(node, Barrier) or (isinstance(node, NamedBarrier) and not node.is_of_warp)


def _behind_barriers(program: Program) -> frozenset[int] | None:
    """The places in the code that can be come to from a barrier; None where branches go to addresses in registers."""
    if any(i.name == "BRX" for i in program.instructions):
        return None
    barriers = {program.block_of(i): i.address for i in reversed(program.instructions) if i.name == "BAR"}
    waiting = [*barriers]
    reached: set[int] = set()
    while waiting:
        goals = [goal for goal in program.next_blocks(waiting.pop()) if goal not in reached]
        reached.update(goals)
        waiting += goals
    blocks = [(program.block_of(i), i.address) for i in program.instructions]
    return frozenset(at for block, at in blocks if block in reached or at > barriers.get(block, at))


def _copied(sources: Mapping[int, Form], pointers: Mapping[str, str]) -> dict[int, str]:
    """The array that each asynchronous copy reads, where the origin of its source tells. Its line may not: compilers
    give some copies of an unrolled loop the line behind it, on which the next array is copied."""
    arrays = {
        address: {pointers[word] for word in form.origins if word in pointers} for address, form in sources.items()
    }
    return {address: name for address, names in arrays.items() if len(names) == 1 for name in names}


def _may_move(instruction: Instruction, placed: Placed, copied: Mapping[int, str]) -> bool:
    """Whether an instruction of its width may carry the access out; asynchronous copies are compiled as they stand."""
    element = placed.site.access.array.dtype.bytes
    if instruction.kind == "async_copy":
        source = placed.site.source
        if source is not None and copied.get(instruction.address, source.array.name) != source.array.name:
            return False
        return instruction.bytes == element * placed.site.access.width
    return instruction.bytes % element == 0


def _nearest(instruction: Instruction, placed: Sequence[Placed], numbers: Sequence[int]) -> list[int]:
    """Those that are printed nearest to the instruction's line: of the tiles that share the memory, or of the sites of
    each array that a pointer may be into."""
    names = {n: "" if instruction.space == "shared" else _identity(placed[n].site.access.array) for n in numbers}
    near: dict[str, int] = {}
    for n, name in names.items():
        distance = abs(instruction.line - placed[n].line)
        near[name] = min(distance, near.get(name, distance))
    return [n for n, name in names.items() if abs(instruction.line - placed[n].line) == near[name]]


def _identity(array: Array) -> str:
    return array.symbol if array.space == "shared" else array.name


def _arrays(
    instruction: Instruction,
    form: Form,
    pointers: Mapping[str, str],
    starts: Mapping[str, int],
    possible: Mapping[str, Array],
) -> tuple[str, ...]:
    """The arrays that an address can lie in as far as its form tells, empty where it doesn't."""
    if instruction.space == "global":
        return tuple(pointers[word] for word in form.origins if word in pointers)
    if instruction.space == "generic":
        return ()
    below = [(start, name) for name, start in starts.items() if start <= form.constant and name in possible]
    if not below:
        return ()
    last = possible[max(below)[1]]
    return tuple(name for _, name in below if possible[name] is last or _overlap(possible[name], last))


def _overlap(one: Array, other: Array) -> bool:
    """Whether two tiles lie in the same memory: one may lie where others have been before."""
    lower, upper = sorted((one, other), key=lambda tile: tile.dynamic_offset)
    end = lower.dynamic_offset + prod(lower.padded_shape, start=integer(1)) * lower.dtype.bytes
    return one.dynamic and other.dynamic and not (upper.dynamic_offset - end).is_nonnegative


def _tile_starts(
    program: Program, forms: Mapping[int, Form], placed: Sequence[Placed], copied: Mapping[int, str]
) -> dict[str, int]:
    """Where each tile begins in shared memory: the least constant of the stores that are known to go to it alone.

    Empty where some tile has no such store."""
    starts: dict[str, int] = {}
    for instruction in program.instructions:
        if not instruction.opcode.startswith(("STS", "LDGSTS")) or instruction.address not in forms:
            continue
        stored = _stored(instruction, placed, copied)
        if len(stored) == 1:
            (name,) = stored
            constant = forms[instruction.address].constant
            starts[name] = min(constant, starts.get(name, constant))
    wanted = {p.site.access.array.symbol for p in placed if p.space == "shared"}
    return starts if set(starts) == wanted else {}


def _stored(instruction: Instruction, placed: Sequence[Placed], copied: Mapping[int, str]) -> set[str]:
    """The tiles that a store may go to: those on its line, but one alone if no other one's copies are as wide and read
    the same array."""
    able = [p for p in placed if p.space == "shared" and p.site.access.kind != "load"]
    if instruction.kind == "async_copy":
        able = [p for p in able if p.site.access.kind == "async_copy" and _may_move(instruction, p, copied)]
    found = {p.site.access.array.symbol for p in able}
    if len(found) > 1 or instruction.kind != "async_copy":
        found = {p.site.access.array.symbol for p in able if p.line == instruction.line}
    return found


def _table_pointers(program: Program, forms: Mapping[int, Form], placed: Sequence[Placed]) -> dict[str, str]:
    """The tables behind the words of constant bank 4, in which the compiler keeps their addresses: told by the lines
    on which one table alone is read."""
    found: dict[str, str] = {}
    for instruction in program.instructions:
        here = {_identity(p.site.access.array) for p in placed if p.line == instruction.line and p.space == "global"}
        origins = forms[instruction.address].origins if instruction.space == "global" else ()
        words = [word for word in origins if word.startswith("c[0x4]")]
        if len(here) == len(words) == 1:
            (found[words[0]],) = here
    return found


def linear_steps(form: Form) -> dict[str, int] | None:
    """Bytes by which an address moves with each thread index; None where a part of it isn't linear."""
    if any(symbol.startswith("op@") for symbol in form.symbols):
        return None
    return {f"threadIdx.{s[-1].lower()}": c for s, c in form.terms if s.startswith("SR_TID.")}


def planned_steps(site: Site) -> tuple[dict[str, int], int] | None:
    """The same of a site, and its constant in bytes; None where its offset isn't linear."""
    affine = affine_form(site.offset, (*THREAD, *BLOCK, *(c.symbol for c in site.counters)))
    if not affine.residual.is_Integer:
        return None
    size = site.access.array.dtype.bytes
    steps = {str(s): c * size % _WORD for s, c in affine.coefficients.items() if s in THREAD}
    return steps, int(affine.residual) * size % _WORD


def _steps_agree(form: Form, site: Site) -> bool:
    planned, found = planned_steps(site), linear_steps(form)
    return planned is not None and found == planned[0]


def _constant_agrees(form: Form, site: Site) -> bool:
    planned = planned_steps(site)
    return planned is not None and planned[1] == form.constant
