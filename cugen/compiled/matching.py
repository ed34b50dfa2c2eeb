"""Matching of SASS memory instructions with accesses: by memory space, array, source line and address expression."""

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
from cugen.plan.traversal.walking import accesses, walk_nodes

SPACES = {"shared": "shared", "constant": "constant", "global": "global", "readonly": "global", "table": "global"}
_REGISTER_BYTES = 4
_WORD = 1 << 32  # values of a 32-bit register
_NEVER = "!PT"  # predicate that never holds; ptxas emits such loads before asynchronous copies


@dataclass(frozen=True)
class PrintedSite:
    """A site of the plan with the line of its access in the .cu.

    is_after_barrier: whether a block-wide barrier precedes every execution; None if unknown."""

    site: Site
    line: int
    is_after_barrier: bool | None = None

    @property
    def space(self) -> str:
        return "generic" if self.site.access.rank is not None else SPACES[self.site.access.array.space]


@dataclass(frozen=True)
class Matches:
    """Instructions by site: `instructions[i]` implement the i-th one.

    merged: instructions that serve several sites on different paths (tail merging). ambiguous: instructions that match
    several sites equally well, assigned round-robin. unexplained: instructions that match no site."""

    instructions: tuple[tuple[Instruction, ...], ...]
    merged: tuple[Instruction, ...]
    ambiguous: tuple[Instruction, ...]
    unexplained: tuple[Instruction, ...]


def fills_zeros(instruction: Instruction) -> bool:
    """Whether an asynchronous copy only zero-fills: the predicate of its source never holds."""
    return instruction.kind == "async_copy" and instruction.operands[-1] == _NEVER


def match(
    program: Program,
    forms: Mapping[int, Form],
    sources: Mapping[int, Form],
    printed: Sequence[PrintedSite],
    pointers: Mapping[str, str],
) -> Matches:
    """Matches the global and shared accesses with instructions.

    sources: source addresses of asynchronous copies, by instruction address. pointers: array names by the word of the
    argument bank that holds their pointer."""
    copied = _copied(sources, pointers)
    is_after_barrier = _reached_from_barrier(program)
    starts = _tile_starts(program, forms, printed, copied)
    pointers = {**pointers, **_table_pointers(program, forms, printed)}
    matched: list[list[Instruction]] = [[] for _ in printed]
    merged: list[Instruction] = []
    ambiguous: list[Instruction] = []
    unexplained: list[Instruction] = []
    next_candidate: dict[tuple[int, ...], int] = {}
    for instruction in program.instructions:
        if instruction.space not in ("global", "shared", "generic") or instruction.predicate == _NEVER:
            continue
        form = forms.get(instruction.address, Form())
        able = [
            n
            for n, p in enumerate(printed)
            if p.space == instruction.space
            and p.site.access.kind == instruction.kind
            and _may_move(instruction, p, copied)
        ]
        if (
            instruction.space == "shared" and is_after_barrier is not None
        ):  # shared accesses are never moved across a barrier
            able = [n for n in able if printed[n].is_after_barrier in (None, instruction.address in is_after_barrier)]
        candidates = _candidates(instruction, form, printed, able, pointers, starts)
        if not candidates:
            unexplained.append(instruction)
            continue
        if len({_identity(printed[n].site.access.array) for n in candidates}) > 1:
            merged.append(instruction)
            for number in candidates:
                matched[number].append(instruction)
            continue
        index = next_candidate.get(candidates, 0)
        next_candidate[candidates] = index + 1
        matched[candidates[index % len(candidates)]].append(instruction)
        if len(candidates) > 1:
            ambiguous.append(instruction)
    targets = {site.site.access.serial: instructions for site, instructions in zip(printed, matched, strict=True)}
    for printed_site, matched_here in zip(printed, matched, strict=True):
        if printed_site.site.copy_target is not None:  # one instruction reads and writes
            matched_here += targets.get(printed_site.site.copy_target.serial, [])
    return Matches(tuple(tuple(f) for f in matched), tuple(merged), tuple(ambiguous), tuple(unexplained))


def _candidates(
    instruction: Instruction,
    form: Form,
    printed: Sequence[PrintedSite],
    numbers: Sequence[int],
    pointers: Mapping[str, str],
    starts: Mapping[str, int],
) -> tuple[int, ...]:
    """Sites that an instruction may implement; several only if they can't be distinguished."""
    here = [n for n in numbers if printed[n].line == instruction.line]
    possible = {_identity(printed[n].site.access.array): printed[n].site.access.array for n in numbers}
    arrays = _arrays(instruction, form, pointers, starts, possible)
    inside = [n for n in numbers if _identity(printed[n].site.access.array) in arrays]
    if instruction.space == "shared" and here and not form.is_linear:
        # The constant of a non-linear address may fall into another tile.
        numbers = [n for n in here if n in inside] or here
    else:
        # Line tables may have an access at the line of another, but one array alone has its space and width.
        numbers = inside if arrays else here or (list(numbers) if len(possible) == 1 else [])
    numbers = _nearest(instruction, printed, numbers)
    for agrees in (_steps_agree, _constant_agrees):
        if len(numbers) > 1:
            numbers = [n for n in numbers if agrees(form, printed[n].site)] or numbers
    return tuple(numbers)


def after_barrier(body: Sequence[Node]) -> dict[int, bool]:
    """Whether each access follows the first barrier, by serial number. Empty if that barrier is conditional or in a
    loop."""
    first = next((n for n, node in enumerate(body) if any(map(_is_barrier, walk_nodes((node,))))), 0)
    if not body or not _is_barrier(body[first]):
        return {}
    return {access.serial: n > first for n, node in enumerate(body) for access in accesses((node,))}


def _is_barrier(node: Node) -> bool:
    """Whether the node is compiled to a `BAR` instruction. A barrier within one warp is not."""
    return isinstance(node, Barrier) or (isinstance(node, NamedBarrier) and not node.is_of_warp)


def _reached_from_barrier(program: Program) -> frozenset[int] | None:
    """Addresses of the instructions reachable from a barrier; None if the code has indirect branches."""
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
    return frozenset(address for block, address in blocks if block in reached or address > barriers.get(block, address))


def _copied(sources: Mapping[int, Form], pointers: Mapping[str, str]) -> dict[int, str]:
    """Source array of each asynchronous copy whose source address has one known pointer.

    Line numbers are not reliable here: compilers give some copies of an unrolled loop the line that follows it."""
    arrays = {
        address: {pointers[word] for word in form.origins if word in pointers} for address, form in sources.items()
    }
    return {address: name for address, names in arrays.items() if len(names) == 1 for name in names}


def _may_move(instruction: Instruction, printed: PrintedSite, copied: Mapping[int, str]) -> bool:
    """Whether the instruction's width allows it to implement the access. Asynchronous copies keep their width."""
    element = printed.site.access.array.dtype.bytes
    if instruction.kind == "async_copy":
        source = printed.site.source
        if source is not None and copied.get(instruction.address, source.array.name) != source.array.name:
            return False
        return instruction.bytes == element * printed.site.access.width
    return instruction.bytes % element == 0 or is_half(instruction, printed.site)


def is_half(instruction: Instruction, site: Site) -> bool:
    """Whether it loads one register of the two that a 64-bit element takes, as for the sign of an integer."""
    halves = site.access.array.dtype.bytes == 2 * _REGISTER_BYTES
    return halves and instruction.kind == "load" and instruction.bytes == _REGISTER_BYTES


def _nearest(instruction: Instruction, printed: Sequence[PrintedSite], numbers: Sequence[int]) -> list[int]:
    """Sites with the smallest distance to the instruction's line: among all sites in shared memory, among those of each
    array in global memory."""
    names = {n: "" if instruction.space == "shared" else _identity(printed[n].site.access.array) for n in numbers}
    near: dict[str, int] = {}
    for n, name in names.items():
        distance = abs(instruction.line - printed[n].line)
        near[name] = min(distance, near.get(name, distance))
    return [n for n, name in names.items() if abs(instruction.line - printed[n].line) == near[name]]


def _identity(array: Array) -> str:
    return array.symbol if array.space == "shared" else array.name


def _arrays(
    instruction: Instruction,
    form: Form,
    pointers: Mapping[str, str],
    starts: Mapping[str, int],
    possible: Mapping[str, Array],
) -> tuple[str, ...]:
    """Arrays that an address may point into, from its linear form; empty if unknown."""
    if instruction.space == "global":
        return tuple(pointers[word] for word in form.origins if word in pointers)
    if instruction.space == "generic":
        return ()
    below = [(start, name) for name, start in starts.items() if start <= form.constant and name in possible]
    if not below:
        return ()
    last = possible[max(below)[1]]
    return tuple(name for _, name in below if possible[name] is last or _overlap(possible[name], last))


def _overlap(first: Array, second: Array) -> bool:
    """Whether two tiles overlap in dynamic shared memory, which tiles may reuse."""
    lower, upper = sorted((first, second), key=lambda tile: tile.dynamic_offset)
    end = lower.dynamic_offset + prod(lower.padded_shape, start=integer(1)) * lower.dtype.bytes
    return first.dynamic and second.dynamic and not (upper.dynamic_offset - end).is_nonnegative


def _tile_starts(
    program: Program, forms: Mapping[int, Form], printed: Sequence[PrintedSite], copied: Mapping[int, str]
) -> dict[str, int]:
    """Byte offset of each tile in shared memory: the minimum constant of the stores that can only go to this tile.

    Empty if some tile has no such store."""
    starts: dict[str, int] = {}
    for instruction in program.instructions:
        if not instruction.opcode.startswith(("STS", "LDGSTS")) or instruction.address not in forms:
            continue
        stored = _stored(instruction, printed, copied)
        if len(stored) == 1:
            (name,) = stored
            constant = forms[instruction.address].constant
            starts[name] = min(constant, starts.get(name, constant))
    wanted = {p.site.access.array.symbol for p in printed if p.space == "shared"}
    return starts if set(starts) == wanted else {}


def _stored(instruction: Instruction, printed: Sequence[PrintedSite], copied: Mapping[int, str]) -> set[str]:
    """Tiles that a store may write: those stored on its line, or the only one with asynchronous copies of this width
    from this array. Line tables give a store the last line of its statement, which may be wrapped."""
    able = [p for p in printed if p.space == "shared" and p.site.access.kind != "load"]
    if instruction.kind == "async_copy":
        able = [p for p in able if p.site.access.kind == "async_copy" and _may_move(instruction, p, copied)]
    matched = {p.site.access.array.symbol for p in able}
    if len(matched) > 1 or instruction.kind != "async_copy":
        line = instruction.line
        if instruction.kind != "async_copy":
            line = max((p.line for p in able if p.line <= line), default=line)
        matched = {p.site.access.array.symbol for p in able if p.line == line}
    return matched


def _table_pointers(program: Program, forms: Mapping[int, Form], printed: Sequence[PrintedSite]) -> dict[str, str]:
    """Tables by the word of constant bank 4 that holds their address, from the lines that read a single table."""
    matched: dict[str, str] = {}
    for instruction in program.instructions:
        here = {_identity(p.site.access.array) for p in printed if p.line == instruction.line and p.space == "global"}
        origins = forms[instruction.address].origins if instruction.space == "global" else ()
        words = [word for word in origins if word.startswith("c[0x4]")]
        if len(here) == len(words) == 1:
            (matched[words[0]],) = here
    return matched


def linear_steps(form: Form) -> dict[str, int] | None:
    """Stride of an address in bytes for each thread index; None if it isn't linear."""
    if any(symbol.startswith("op@") for symbol in form.symbols):
        return None
    return {f"threadIdx.{s[-1].lower()}": c for s, c in form.terms if s.startswith("SR_TID.")}


def planned_steps(site: Site) -> tuple[dict[str, int], int] | None:
    """Strides of a site in bytes for each thread index, and its constant in bytes; None if its offset isn't linear."""
    affine = affine_form(site.offset, (*THREAD, *BLOCK, *(c.symbol for c in site.counters)))
    if not affine.residual.is_Integer:
        return None
    size = site.access.array.dtype.bytes
    steps = {str(s): c * size % _WORD for s, c in affine.coefficients.items() if s in THREAD}
    return steps, int(affine.residual) * size % _WORD


def _steps_agree(form: Form, site: Site) -> bool:
    planned, matched = planned_steps(site), linear_steps(form)
    return planned is not None and matched == planned[0]


def _constant_agrees(form: Form, site: Site) -> bool:
    planned = planned_steps(site)
    return planned is not None and planned[1] == form.constant
