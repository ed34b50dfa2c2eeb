"""A template can't print another program than the plan: whatever is moved in it is an EmissionError."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from cugen.emit.environment import environment, template_folder
from cugen.emit.printer.statements import EmissionError
from cugen.emit.provenance import provenance
from cugen.emit.source import render_raw
from cugen.families.registry import families
from cugen.kernel import Kernel, generate
from cugen.plan.remarks import Remarks
from cugen.plan.traversal.walking import accesses
from cugen.spec.load import load_all

ROOT = Path(__file__).parents[2]
FAMILIES = [family.name for family in families()]
TEMPLATES = [f"{name}.cu.j2" for name in FAMILIES]
TEMPLATES += [f"macros/{path.name}" for path in sorted((template_folder() / "macros").glob("*.cu.j2"))]
PRINTS = re.compile(r"\s*\{\{ (body|barrier)\(|\s*\{% call\(")
MAX_LINES = 25  # of a section
LINES_OF_A_TILE = 5  # that fill one of a launch's tiles, or compute with its elements

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Item:
    """Lines of a template, from `start` to before `end`, that print sections; `inside` are those of a loop's body."""

    start: int
    end: int
    inside: tuple[Item, ...] = ()
    is_call: bool = False


def items(lines: list[str], start: int, end: int) -> Iterator[Item]:
    """What prints something on one level; an `if` or a `for` round sections counts as one."""
    number = start
    while number < end:
        line = lines[number].strip()
        if opened := re.match(r"\{%-? (call|if|for|macro|filter|block)\b", line):
            close = closing(lines, number)
            inside = tuple(items(lines, number + 1, close))
            if opened[1] in ("macro", "filter", "block"):
                yield from inside
            else:
                yield Item(number, close + 1, inside, is_call=opened[1] == "call")
            number = close + 1
            continue
        if PRINTS.match(line):
            yield Item(number, number + 1)
        number += 1


def closing(lines: list[str], start: int) -> int:
    """The line that ends the tag of another."""
    depth = 0
    for number in range(start, len(lines)):
        depth += bool(re.match(r"\s*\{%-? (call|if|for|macro|filter|block)\b", lines[number]))
        depth -= bool(re.match(r"\s*\{%-? end(call|if|for|macro|filter|block)\b", lines[number]))
        if depth == 0:
            return number
    raise ValueError(f"line {start + 1} has no end")


def levels(level: tuple[Item, ...]) -> Iterator[tuple[Item, ...]]:
    yield level
    for item in level:
        yield from levels(item.inside)


@cache
def kernels(family: str) -> tuple[Kernel, ...]:
    """Kernels with a launch of the family."""
    return tuple(kernel for kernel in _all_kernels() if any(part.family == family for part in kernel.plan.kernels))


@cache
def _all_kernels() -> tuple[Kernel, ...]:
    """Those of the gallery, and those for branches of templates that the gallery doesn't take."""
    paths = [*sorted((ROOT / "specs").glob("*.yaml")), ROOT / "tests" / "data" / "template_specs.yaml"]
    return tuple(generate(spec, analysis=False) for path in paths for spec in load_all(path))


@cache
def marks_of(kernel_name: str) -> Mapping[int, str]:
    """The provenance of a kernel's lines."""
    (kernel,) = (kernel for kernel in _all_kernels() if kernel.name == kernel_name)
    return provenance(kernel.context, kernel.plan)


@cache
def printed_lines(template: str) -> tuple[tuple[Kernel, frozenset[int]], ...]:
    """Each kernel that a template prints a part of, the shortest first, with the template's lines that do (from 0)."""
    name = re.compile(rf"templates/{re.escape(template)}:(\d+)")
    printed_by_kernel = []
    for kernel in sorted(_all_kernels(), key=lambda kernel: len(kernel.source)):
        lines = frozenset(int(mark[1]) - 1 for mark in map(name.match, marks_of(kernel.name).values()) if mark)
        if lines:
            printed_by_kernel.append((kernel, lines))
    return tuple(printed_by_kernel)


def rendered(kernel: Kernel, name: str, template: str) -> str:
    env = environment(((name, template),))
    return render_raw(env, kernel.context, kernel.plan, Remarks()).source


def is_printed(item: Item, lines: frozenset[int]) -> bool:
    return any(line in lines for line in range(item.start, item.end))


def is_rejected(kernel: Kernel, name: str, mutated: str) -> bool:
    """Whether a mutated template is an EmissionError; if not, it has to print the same program, as the swap of two
    branches does of which a use of the macro takes one."""
    try:
        source = rendered(kernel, name, mutated)
    except EmissionError:
        return True
    assert program(source) == program(rendered(kernel, name, (template_folder() / name).read_text()))
    return False


def program(source: str) -> list[str]:
    """The lines but for comments and indentation, which differ where a loop is executed once, without its braces."""
    lines = (line.strip() for line in source.splitlines())
    return [line for line in lines if line and not line.startswith("//")]


@pytest.mark.parametrize("template", TEMPLATES)
def test_sections_that_change_places_are_an_error(template: str) -> None:
    lines = (template_folder() / template).read_text().splitlines()
    swapped = 0
    for level in levels(tuple(items(lines, 0, len(lines)))):
        for first, second in pairwise(level):
            head, between, tail = lines[: first.start], lines[first.end : second.start], lines[second.end :]
            moved = [*lines[second.start : second.end], *between, *lines[first.start : first.end]]
            mutated = "\n".join([*head, *moved, *tail]) + "\n"
            kernels_with_both = (
                kernel
                for kernel, printed in printed_lines(template)
                if is_printed(first, printed) and is_printed(second, printed)
            )
            swapped += any(is_rejected(kernel, template, mutated) for kernel in kernels_with_both)
    assert swapped > 0 or template.startswith("macros/")


def barrier_moves(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Templates in which a barrier left its loop, or went into the one before or after it, with the barrier's line."""

    def is_barrier(item: Item) -> bool:
        return "barrier(" in lines[item.start] and item.end == item.start + 1

    for level in levels(tuple(items(lines, 0, len(lines)))):
        for item in level:
            for inner in filter(is_barrier, item.inside if item.is_call else ()):
                out = [*lines[: inner.start], *lines[inner.end : item.end], lines[inner.start]]
                yield inner.start, [*out, *lines[item.end :]]
        for first, second in pairwise(level):
            if is_barrier(first) and second.is_call:
                head, call = lines[: first.start], lines[first.end : second.start + 1]
                yield first.start, [*head, *call, lines[first.start], *lines[second.start + 1 :]]
            if is_barrier(second) and first.is_call:
                head, between = lines[: first.end - 1], lines[first.end - 1 : second.start]
                yield second.start, [*head, lines[second.start], *between, *lines[second.end :]]


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_barrier_that_leaves_or_enters_a_loop_is_an_error(template: str) -> None:
    """But in kernels in which the loop is executed once, without its braces: these are the same programs."""
    lines = (template_folder() / template).read_text().splitlines()
    printed_moves, rejected = 0, 0
    for line, text in barrier_moves(lines):
        mutated = "\n".join(text) + "\n"
        with_barrier = [kernel for kernel, printed in printed_lines(template) if line in printed]
        printed_moves += bool(with_barrier)
        rejected += any(is_rejected(kernel, template, mutated) for kernel in with_barrier)
    assert rejected > 0 or printed_moves == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_the_template_of_a_family_shows_where_each_line_of_its_kernels_comes_from(family: str) -> None:
    family_lines = f"templates/{family}.cu.j2:"
    for kernel in kernels(family):
        marks = marks_of(kernel.name)
        for part in kernel.plan.kernels:
            if part.family == family:
                body = list(body_lines(kernel.source, part.name))
                shown = [line for line in body if marks.get(line, "").startswith((family_lines, "templates/macros/"))]
                assert len(shown) > 0.9 * len(body), kernel.name


def body_lines(source: str, name: str) -> Iterator[int]:
    """The numbers of a kernel's lines between its braces, empty ones left out."""
    lines = source.splitlines()
    start = next(n for n, line in enumerate(lines) if line.endswith(f" {name}("))
    first = lines.index("{", start) + 1
    last = lines.index("}", first)
    yield from (number + 1 for number in range(first, last) if lines[number].strip())


@pytest.mark.parametrize("family", FAMILIES)
def test_no_section_prints_more_lines_than_a_reader_can_keep_in_mind(family: str) -> None:
    for kernel in kernels(family):
        source, marks = kernel.source.splitlines(), marks_of(kernel.name)
        for part in kernel.plan.kernels:
            longest: dict[str, int] = {}
            for number in body_lines(kernel.source, part.name):
                mark = marks.get(number, "")
                if mark.startswith(f"templates/{family}.cu.j2") and not source[number - 1].strip().startswith("//"):
                    section = mark.partition(",")[0]
                    longest[section] = longest.get(section, 0) + 1
            tiles = {access.array.symbol for access in accesses(part.body) if access.array.space == "shared"}
            limit = max(MAX_LINES, LINES_OF_A_TILE * len(tiles))
            assert {section: count for section, count in longest.items() if count > limit} == {}
