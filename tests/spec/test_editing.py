"""Source edits of a spec file: one placement changes, in any notation, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.spec.editing import CannotEdit, EditMismatch, RowLayout, kernels_by_document, rewrite, set_row_layout
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from tests.drawn import examples

HEAD = "cugen: 1\nkernel: {name}\nparams: {{M: 64, N: 32}}\n"
TAIL = "compute: B[n, m] = A[m, n]  # transposed\n"


def document(arrays: str, name: str = "transpose") -> str:
    return HEAD.format(name=name) + arrays + TAIL


def edited(text: str, rows: RowLayout, array: str = "A", number: int = 0) -> str:
    """The text after a rewrite, whose result was verified by loading it."""
    return rewrite(text, {(number, array): rows}, load_text)[0]


def changed_lines(before: str, after: str) -> tuple[list[str], list[str]]:
    """The lines between the common prefix and suffix of both texts."""
    old, new = before.split("\n"), after.split("\n")
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    stop = 0
    while stop < min(len(old), len(new)) - start and old[-1 - stop] == new[-1 - stop]:
        stop += 1
    return old[start : len(old) - stop], new[start : len(new) - stop]


# One notation


@pytest.mark.parametrize(
    ("memory", "rows", "expected"),
    [
        ("shared", RowLayout(1), "{space: shared, pad: 1}"),
        ("'shared'", RowLayout(1), "{space: 'shared', pad: 1}"),
        ("shared", RowLayout(swizzle=True), "{space: shared, swizzle: xor}"),
        ("{space: shared, pad: 0}", RowLayout(3), "{space: shared, pad: 3}"),
        ("{pad: 16, space: shared}", RowLayout(3), "{pad: 3, space: shared}"),
        ("{space: shared, dynamic: true}", RowLayout(3), "{space: shared, dynamic: true, pad: 3}"),
        ("{space: shared, }", RowLayout(3), "{space: shared, pad: 3, }"),
        ("{space: shared, pad: 1}", RowLayout(swizzle=True), "{space: shared, swizzle: xor}"),
        ("{space: shared, swizzle: xor}", RowLayout(2), "{space: shared, pad: 2}"),
        ('{"space": "shared", "pad":1}', RowLayout(swizzle=True), '{"space": "shared", "swizzle":xor}'),
    ],
)
def test_a_placement_changes_in_place(memory: str, rows: RowLayout, expected: str) -> None:
    line = "arrays:\n  A: {shape: [M, N], memory: MEMORY, dtype: float32}  # the input\n"
    text = document(line + "  B: {shape: [N, M], dtype: float32}\n")
    assert edited(text.replace("MEMORY", memory), rows) == text.replace("MEMORY", expected)


def test_a_placement_that_is_not_there_goes_to_the_end_of_a_flow_mapping() -> None:
    text = document("arrays: {A: {shape: [M, N], dtype: float32}, B: {shape: [N, M], dtype: float32}}  # both\n")
    assert edited(text, RowLayout(1)) == text.replace(
        "{shape: [M, N], dtype: float32}", "{shape: [M, N], dtype: float32, memory: {space: shared, pad: 1}}"
    )


def test_a_placement_that_is_not_there_gets_a_separate_line_in_a_block_mapping() -> None:
    text = document(
        "arrays:\n    A:\n        dtype: float32  # narrow\n        shape:\n        - M\n        - N  # columns\n"
        "    # the result\n    B: {shape: [N, M], dtype: float32}\n"
    )
    line = "        memory: {space: shared, pad: 1}\n"
    assert edited(text, RowLayout(1)) == text.replace("# columns\n", "# columns\n" + line)


def test_a_block_mapping_of_the_memory_gets_the_key_in_its_indentation() -> None:
    text = document(
        "arrays:\n  A:\n    shape: [M, N]\n    memory:\n       # why shared\n       space: shared   # a tile\n"
        "    dtype: float32\n  B: {shape: [N, M], dtype: float32}\n"
    )
    after = edited(text, RowLayout(swizzle=True))
    assert after == text.replace("# a tile\n", "# a tile\n       swizzle: xor\n")


@pytest.mark.parametrize("comma", ["", ","])
def test_a_comment_in_a_flow_mapping_of_several_lines_stays_with_its_entry(comma: str) -> None:
    text = document(
        f"arrays:\n  A: {{\n    shape: [M, N],\n    dtype: float32{comma}  # narrow\n  }}\n"
        "  B: {shape: [N, M], dtype: float32}\n"
    )
    after = edited(text, RowLayout(1))
    assert f"    dtype: float32,  # narrow\n    memory: {{space: shared, pad: 1}}{comma}\n  }}\n" in after


def test_a_file_without_a_last_line_break_gets_its_line() -> None:
    text = "cugen: 1\r\nkernel: transpose\r\nparams: {M: 64, N: 32}\r\ncompute: B[n, m] = A[m, n]\r\narrays:\r\n"
    text += "  B: {shape: [N, M], dtype: float32}\r\n  A:\r\n    shape: [M, N]\r\n    dtype: float32"
    assert edited(text, RowLayout(1)) == text + "\r\n    memory: {space: shared, pad: 1}"


def test_a_value_that_an_alias_repeats_ends_where_the_alias_does() -> None:
    text = document(
        "arrays:\n  B: {dtype: &t float32, shape: [N, M]}\n  A: {shape: [M, N], dtype: *t}  # the same type\n"
    )
    assert "dtype: *t, memory: {space: shared, pad: 1}}  # the same" in edited(text, RowLayout(1))


def test_the_right_one_of_several_documents_changes() -> None:
    arrays = "arrays:\n  A: {shape: [M, N], dtype: float32, memory: shared}\n  B: {shape: [N, M], dtype: float32}\n"
    parts = [document(arrays, name) for name in ("one", "two", "three")]
    after = edited("---\n".join(parts), RowLayout(1), number=1).split("---\n")
    assert (after[0], after[2]) == (parts[0], parts[2])
    assert after[1] == parts[1].replace("memory: shared", "memory: {space: shared, pad: 1}")


def test_variants_of_a_document_change_together() -> None:
    text = document(
        "variants: {T: [float32, float64]}\narrays:\n  A: {shape: [M, N], dtype: $T, memory: shared}\n"
        "  B: {shape: [N, M], dtype: $T}\n"
    )
    assert kernels_by_document(text) == (("transpose__float32", "transpose__float64"),)
    _, specs = rewrite(text, {(0, "A"): RowLayout(1)}, load_text)
    assert [spec.array("A").memory.pad for spec in specs] == [1, 1]


# Notations that no local edit changes


@pytest.mark.parametrize(
    ("memory", "more", "reason"),
    [
        pytest.param(
            "{space: shared, pad: $p}",
            "variants: {p: [0, 1]}\n",
            "`pad` in line 6 comes from a variant: `$p`",
            id="pad of a variant",
        ),
        pytest.param(
            "$s",
            "variants: {s: [shared, global]}\n",
            "`memory` in line 6 comes from a variant: `$s`",
            id="memory of a variant",
        ),
        pytest.param(
            "{space: $s}",
            "variants: {s: [shared, global]}\n",
            "`space` in line 6 comes from a variant: `$s`",
            id="space of a variant",
        ),
        pytest.param("global", "", "line 5 has a memory space other than shared", id="global"),
        pytest.param("{space: readonly}", "", "line 5 has a memory space other than shared", id="readonly"),
        pytest.param("&tile shared", "", "`memory` in line 5 has an anchor", id="anchor"),
        pytest.param(
            "{space: shared, pad: 0, swizzle: xor}",
            "",
            "both `pad` and `swizzle` are given in line 5",
            id="pad and swizzle",
        ),
        pytest.param(">-\n      shared", "", "is a block of text", id="block of text"),
    ],
)
def test_what_no_small_edit_changes_is_rejected_with_the_reason(memory: str, more: str, reason: str) -> None:
    block = f"  A:\n    shape: [M, N]\n    dtype: float32\n    memory: {memory}\n"
    flow = f"  A: {{shape: [M, N], dtype: float32, memory: {memory}}}\n"
    text = document(f"{more}arrays:\n{block if '>' in memory else flow}  B: {{shape: [N, M], dtype: float32}}\n")
    with pytest.raises(CannotEdit, match=re.escape(reason)):
        edited(text, RowLayout(2))


def test_an_alias_is_rejected_since_its_value_is_elsewhere() -> None:
    text = document(
        "arrays:\n  B: &same {shape: [M, M], dtype: float32}\n  A: *same\n".replace("[M, M]", "[8, 8]")
    ).replace("{M: 64, N: 32}", "{M: 8, N: 8}")
    with pytest.raises(CannotEdit, match="`A` in line 6 repeats a value by an alias"):
        edited(text, RowLayout(1))


def test_a_text_that_would_mean_something_else_is_never_returned() -> None:
    text = document(
        "arrays:\n  A: {shape: [M, N], dtype: float32, memory: shared}\n  B: {shape: [N, M], dtype: float32}\n"
    )
    (spec,) = load_text(text)

    def stale_load(text: str) -> Sequence[Spec]:
        return (spec,)

    with pytest.raises(EditMismatch):
        rewrite(text, {(0, "A"): RowLayout(1)}, stale_load)


# All notations


@pytest.mark.slow
def test_every_spec_of_the_gallery_with_an_input_outside_textures_takes_a_pad_and_keeps_all_but_one_line() -> None:
    for path in sorted((Path(__file__).parents[2] / "specs").glob("*.yaml")):
        load = partial(load_text, folder=path.parent)
        text = path.read_text()
        specs = {spec.kernel: spec for spec in load(text)}
        for number, names in enumerate(kernels_by_document(text)):
            spec = specs[names[0]]
            inputs = [
                a.name for a in spec.arrays if a.role in ("input", "inout") and a.memory.space in (None, "shared")
            ]
            if not inputs:
                continue
            after, _ = rewrite(text, {(number, inputs[0]): RowLayout(32)}, load)
            old, new = changed_lines(text, after)
            assert (len(old), len(new)) in ((1, 1), (0, 1)), path.name


@st.composite
def files(draw: st.DrawFn) -> tuple[str, int]:
    """A file with a comment wherever one is allowed, and the number of the document to edit."""
    count = iter(range(1000))

    def comment() -> str:
        return f"  # comment {next(count)}" if draw(st.booleans()) else ""

    def key(name: str) -> str:
        return draw(st.sampled_from([name, f"'{name}'", f'"{name}"']))

    def mapping(entries: list[tuple[str, str]], indent: str, *, block: bool) -> str:
        """`entries` are keys and values, formatted to follow `key:`."""
        entries = draw(st.permutations(entries))
        if block:
            deeper = indent + " " * draw(st.integers(1, 4))
            blank = [f"\n{deeper}# alone {next(count)}" if draw(st.booleans()) else "" for _ in entries]
            lines = []
            for before, (name, value) in zip(blank, entries, strict=True):
                behind = "" if "\n" in value else comment()
                inner = value.replace("\n", f"\n{deeper}")
                lines.append(f"{before}\n{deeper}{key(name)}:{inner}{behind}")
            return "".join(lines)
        if draw(st.booleans()):
            last = "," if draw(st.booleans()) else ""
            return " {" + ", ".join(f"{key(k)}:{v}" for k, v in entries) + last + "}"
        lines = [f"{key(k)}:{v}" for k, v in entries]
        ends = [","] * (len(lines) - 1) + [draw(st.sampled_from(["", ","]))]
        inner = "".join(f"\n{indent}    {line}{end}{comment()}" for line, end in zip(lines, ends, strict=True))
        return f" {{{comment()}{inner}\n{indent}  }}"

    def array_entry(name: str) -> str:
        block_arrays, block_array = draw(st.booleans()), draw(st.booleans())
        block_array = block_array and block_arrays
        memory = draw(st.sampled_from(["", " shared", " 'shared'", ' "shared"', "pad", "swizzle", "dynamic"]))
        if memory in ("pad", "swizzle", "dynamic"):
            value = {"pad": " 5", "swizzle": " xor", "dynamic": " true"}[memory]
            inside = [("space", " shared"), (memory, value)]
            memory = mapping(inside, "", block=block_array and draw(st.booleans()))
        a = [("shape", " [M, N]"), ("dtype", " float32")] + ([("memory", memory)] if memory else [])
        b = [("shape", " [N, M]"), ("dtype", " float32")]
        arrays = [("A", mapping(a, "", block=block_array)), ("B", mapping(b, "", block=False))]
        return HEAD.format(name=name) + "arrays:" + mapping(arrays, "", block=block_arrays) + "\n" + TAIL

    names = ["one", "two"][: draw(st.integers(1, 2))]
    text = "---\n".join(map(array_entry, names))
    if draw(st.booleans()):
        text = "# first\n" + text
    if draw(st.booleans()):
        text = text.rstrip("\n")
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    if draw(st.booleans()):
        text = "\ufeff" + text
    return text, draw(st.integers(0, len(names) - 1))


def comments(text: str) -> list[str]:
    return re.findall(r"# \w+(?: \d+)?", text)


@given(files(), st.one_of(st.builds(RowLayout, st.integers(0, 64)), st.just(RowLayout(swizzle=True))))
@settings(max_examples=examples(60), deadline=None)
def test_in_any_notation_one_placement_changes_and_all_else_stays(file: tuple[str, int], rows: RowLayout) -> None:
    text, number = file
    before = load_text(text)
    after, specs = rewrite(text, {(number, "A"): rows}, load_text)
    assert RowLayout.of(specs[number].array("A").memory) == rows
    assert specs[number].array("A").memory.space == "shared"
    assert [s.hash for i, s in enumerate(specs) if i != number] == [s.hash for i, s in enumerate(before) if i != number]
    assert comments(after) == comments(text)
    old, new = changed_lines(text, after)
    assert len(old) <= 2
    assert len(new) <= len(old) + 1
    assert set_row_layout(after, number, "A", rows) == after


@given(files())
@settings(max_examples=examples(25), deadline=None)
def test_going_from_a_pad_to_another_and_back_gives_the_same_bytes(file: tuple[str, int]) -> None:
    text, number = file
    first = set_row_layout(text, number, "A", RowLayout(7))
    assert set_row_layout(set_row_layout(first, number, "A", RowLayout(9)), number, "A", RowLayout(7)) == first
