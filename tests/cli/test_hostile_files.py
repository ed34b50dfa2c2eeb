"""Files that no editor would write: wrong bytes, huge and deep ones, links, .npy files that lie about themselves."""

from __future__ import annotations

import io
import os
import pickle
import re

import numpy as np
import pytest

from cugen.spec.parse.source import Source
from tests import cpu_time

GOOD = """\
cugen: 1
kernel: k
arrays:
  x: {shape: [8], dtype: float32}
  y: {shape: [8], dtype: float32}
compute: y[i] = x[i]
schedule: {family: direct}
"""
BAKED = GOOD.replace("dtype: float32}", "dtype: float32, values: x.npy}", 1)


@pytest.fixture
def refused(cli, tmp_path):
    """Generates from bytes; the codes with their lines and columns, after checking that nothing was written."""

    def generate(content: bytes | str, *arguments: object) -> list[tuple[str, int, int]]:
        spec, out = tmp_path / "bad.yaml", tmp_path / "out"
        spec.write_bytes(content if isinstance(content, bytes) else content.encode())
        answer = cpu_time.at_most(1, lambda: cli("generate", spec, "-o", out, *arguments))
        assert answer.status == 2, answer.err
        assert not out.exists()
        locations = re.findall(r"error\[(CG\d{4})\]: .*\n +--> [^\n]*?(?::(\d+):(\d+))?\n", answer.err)
        assert len(re.findall("^ += help: .", answer.err, re.MULTILINE)) == len(locations) > 0
        return [(code, int(line or 0), int(column or 0)) for code, line, column in locations]

    return generate


@pytest.mark.parametrize(
    ("content", "location"),
    [
        pytest.param(GOOD.encode().replace(b"x[i]", b"x[\xff]"), ("CG1002", 6, 19), id="invalid UTF-8"),
        pytest.param(GOOD.encode("utf-16"), ("CG1002", 1, 1), id="UTF-16"),
        pytest.param(GOOD.encode("utf-32"), ("CG1002", 1, 1), id="UTF-32"),
        pytest.param(GOOD.replace("k\n", "k\0\n", 1), ("CG1003", 2, 10), id="null"),
        pytest.param(GOOD.replace("k\n", "k\x1b[31m\n", 1), ("CG1003", 2, 10), id="escape sequence"),
        pytest.param(GOOD.replace("[i]", "\u200b[i]", 1), ("CG1101", 6, 11), id="zero-width space"),
        pytest.param(GOOD.replace("  y:", "\ty:"), ("CG1005", 5, 1), id="tab before a key"),
        pytest.param(GOOD.replace("kernel: k", "kernel:\tk\n\tdoc: d"), ("CG1005", 2, 8), id="tab after a key"),
        pytest.param(
            GOOD.replace("y[i] = x[i]", "y[i]\u00a0=\u00a0x[i] \u2028"), ("CG1003", 6, 22), id="line separator"
        ),
        pytest.param(b"\x1f\x8b\x08\x00" + bytes(range(256)), ("CG1002", 1, 2), id="gzip"),
        pytest.param(b"\x89PNG\r\n\x1a\n", ("CG1002", 1, 1), id="png"),
        pytest.param(b"#!/bin/sh\necho no\n", ("CG1015", 2, 1), id="script"),
        pytest.param(b"{}", ("CG1013", 1, 1), id="empty mapping"),
        pytest.param(b"[" * 5000, ("CG1004", 1, 34), id="brackets"),
        pytest.param(b"{a: " * 5000, ("CG1004", 1, 130), id="braces"),
        pytest.param(b"- " * 5000, ("CG1004", 1, 67), id="dashes"),
        pytest.param(b"? " * 5000, ("CG1004", 1, 67), id="question marks"),
        pytest.param(GOOD.replace("[8]", "[" * 40 + "8" + "]" * 40, 1), ("CG1004", 4, 44), id="nested list"),
        pytest.param(b"'" * 200_001, ("CG1005", 1, 1), id="quotes"),
        pytest.param(b"a: &a [*a]\n", ("CG1008", 1, 8), id="recursive anchor"),
        pytest.param(b"&" * 1000, ("CG1005", 1, 2), id="ampersands"),
        pytest.param(b"%" * 1000, ("CG1005", 1, 2), id="percent signs"),
    ],
)
def test_bytes_that_are_no_spec_are_refused_where_they_go_wrong(refused, content, location):
    assert refused(content)[0] == location


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\xef\xbb\xbf" + GOOD.encode(), id="byte order mark"),
        pytest.param(GOOD.replace("\n", "\r\n").encode(), id="crlf"),
    ],
)
def test_marks_and_line_ends_of_windows_change_nothing(cli, tmp_path, content):
    (tmp_path / "spec.yaml").write_bytes(GOOD.encode())
    assert cli("generate", tmp_path / "spec.yaml", "-o", tmp_path / "plain").status == 0
    (tmp_path / "spec.yaml").write_bytes(content)
    assert cli("generate", tmp_path / "spec.yaml", "-o", tmp_path / "windows").status == 0
    code = [
        (tmp_path / folder / "k.cu").read_text().split("Made by")[1].split("\n", 1)[1]
        for folder in ("plain", "windows")
    ]
    assert code[0] == code[1]


def test_places_count_characters_after_a_byte_order_mark_and_before_a_carriage_return(refused):
    content = "\ufeff" + GOOD.replace("x[i]", "«?»[i]").replace("«?»", "q").replace("\n", "\r\n")
    assert refused(content) == [("CG1201", 6, 17)]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("# " + "a" * 10_000_000, id="comment"),
        pytest.param(GOOD + "# comment\n" * 1_000_000, id="comment lines"),
        pytest.param("[" * 10_000_000, id="brackets"),
        pytest.param("a: &a [x, x, x, x, x, x, x, x, x]\n" * 300_000, id="aliases"),
        pytest.param("\n" * 10_000_000, id="empty lines"),
        pytest.param("- a\n" * 2_500_000, id="list"),
    ],
)
def test_ten_megabytes_are_refused_at_once(refused, content):
    assert refused(content) == [("CG1004", 0, 0)]


def test_aliases_that_multiply_are_refused_at_once(refused):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    ((code, line, _),) = refused("\n".join(lines))
    assert (code, line) == ("CG1004", 6)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("expression", "column"),
    [
        ("(" * 500 + "x[i]" + ")" * 500, 17 + 100),
        ("-" * 500 + "x[i]", None),
        ("not " * 500 + "x[i]", None),
        (" + ".join(["x[i]"] * 200), 17),
        (" ** ".join(["x[i]"] * 200), None),
        ("1 if x[i] else " * 200 + "0", None),
        ("exp(" * 200 + "x[i]" + ")" * 200, None),
        ("x[" * 200 + "i" + "]" * 200, None),
        ("x[i] + 1 * " * 10_000 + "1", 10),
        (" < ".join(["x[i]"] * 4_000), None),
        ("x[i]+" * 20_000 + "1", 10),
        ("9" * 100_000, 10),
        ("sum(" * 150 + "x[i]" + ", j)" * 150, None),
        ("maximum(x[i], " * 90 + "0" + ")" * 90, "fine"),
    ],
)
def test_expressions_that_are_too_large_or_too_deep_are_refused_at_once(cli, refused, tmp_path, expression, column):
    text = GOOD.replace("= x[i]", f"= {expression}")
    if column == "fine":
        (tmp_path / "deep.yaml").write_text(text)
        assert cli("generate", tmp_path / "deep.yaml", "-o", tmp_path / "deep").status == 0
        return
    ((code, line, reported),) = refused(text)
    assert (code, line) == ("CG1106", 6)
    assert column in (None, reported)


def test_each_of_many_unused_temporaries_is_a_finding(refused):
    lines = "".join(f"  t{n}[i] = x[i] + {n}\n" for n in range(200))
    findings = refused(GOOD.replace("compute: y[i] = x[i]\n", f"compute: |\n{lines}  y[i] = x[i]\n"))
    assert findings == [("CG1311", 7 + n, 3) for n in range(200)]


def test_more_statements_than_a_kernel_may_have_are_refused_at_once(refused):
    lines = "".join(f"  - t{n}[i] = x[i] + {n}\n" for n in range(10_000))
    findings = refused(GOOD.replace("compute: y[i] = x[i]\n", f"compute:\n{lines}  - y[i] = x[i]\n"))
    assert findings == [("CG1106", 7 + 256, 5)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("before", "after"),
    [("|\n", ""), (">\n", ""), ("\n    - |\n", ""), ("'\n", "'"), ('"\n', '"')],
    ids=["literal", "folded", "in a list", "quoted", "double quoted"],
)
def test_a_text_that_is_too_long_is_refused_before_each_character_gets_a_position(refused, before, after, monkeypatch):
    positions = set()
    position = Source.position
    monkeypatch.setattr(Source, "position", lambda self, offset: positions.add(offset) or position(self, offset))
    lines = "".join(f"      t{n}[i] = x[i] + {n}\n" for n in range(30_000))
    ((code, line, _),) = refused(GOOD.replace("compute: y[i] = x[i]\n", f"compute: {before}{lines}    {after}\n"))
    assert (code, line) == ("CG1106", {"|": 7, ">": 7, "\n": 8}.get(before[0], 6))
    assert len(positions) < 25_000


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("declarations", "line"),
    [
        pytest.param(
            "params:\n  p0: 1\n" + "".join(f"  p{n}: p{n - 1} + 1\n" for n in range(1, 45_000)), 520, id="chain"
        ),
        pytest.param("scalars:\n" + "".join(f"  s{n}: {{dtype: float32}}\n" for n in range(30_000)), 520, id="scalars"),
        pytest.param("indices:\n" + "".join(f"  k{n}: 8\n" for n in range(60_000)), 520, id="indices"),
        pytest.param("variants:\n" + "".join(f"  v{n}: [1]\n" for n in range(60_000)), 520, id="names of variants"),
        pytest.param("require:\n" + "".join(f"  - {n} < 9\n" for n in range(20_000)), 520, id="conditions"),
        pytest.param("".join(f"q{n}: 8\n" for n in range(60_000)), 514, id="keys"),
        pytest.param("---\n".join(["a: 1\n"] * 60_000), 520, id="documents"),
    ],
)
def test_long_lists_of_declarations_are_refused_at_once(refused, declarations, line):
    ((code, reported, _),) = refused(GOOD + declarations)
    assert code == "CG1004"
    assert abs(reported - line) <= 8


def test_many_large_statements_are_refused_at_once(refused):
    total = "+".join(f"x[i]*{n}" for n in range(90))
    lines = "".join(f"  - t{n}[i] = {total}\n" for n in range(60))
    ((code, line, _),) = refused(GOOD.replace("compute: y[i] = x[i]\n", f"compute:\n{lines}  - y[i] = x[i]\n"))
    assert code == "CG1106"
    assert 7 < line < 60


@pytest.mark.parametrize(
    ("old", "new", "location"),
    [
        pytest.param("[8]", f"[{' * '.join(f'(p{n} + 1)' for n in range(60))}]", (4, 15), id="extent"),
        pytest.param("[8]", f"[{', '.join(['(p0 + 1) * (p1 + 1)'] * 5)}]", (4, 3), id="extents that make a stride"),
        pytest.param("x[i]", f"x[i * {' * '.join(f'(p{n} + 1)' for n in range(20))}]", (6, 19), id="subscript"),
    ],
)
def test_products_of_sums_that_have_too_many_terms_are_refused_at_once(refused, old, new, location):
    params = ", ".join(f"p{n}: dynamic" for n in range(60))
    text = GOOD.replace("kernel: k", f"kernel: k\nparams: {{{params}}}").replace(old, new, 1)
    line, column = location
    assert ("CG1106", line + 1, column) in refused(text)


@pytest.mark.parametrize(("depth", "code"), [(12, "CG1304"), (13, "CG1106"), (40, "CG1106")])
def test_divisions_within_divisions_do_not_take_forever(refused, depth, code):
    subscript = "(" * depth + "i" + " * 3) // 2" * depth
    ((reported, line, _),) = refused(GOOD.replace("= x[i]", f"= x[{subscript}]"))
    assert (reported, line) == (code, 6)


@pytest.mark.slow
def test_statements_that_double_each_other_are_planned_without_writing_them_out(cli, tmp_path):
    lines = "".join(f"  t{n}[i] = t{n - 1}[i] + sum(t{n - 1}[j], j)\n" for n in range(1, 24))
    text = GOOD.replace("compute: y[i] = x[i]\n", f"compute: |\n  t0[i] = x[i]\n{lines}  y[i] = t23[i]\n")
    (tmp_path / "spec.yaml").write_text(text.replace("schedule: {family: direct}\n", ""))
    assert cpu_time.at_most(20, lambda: cli("check", tmp_path / "spec.yaml")).status == 0


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "number", "count"), [("int8", "1", 65536), ("float32", "1.25", 100_000)])
def test_a_large_table_is_written_out_in_seconds(cli, tmp_path, dtype, number, count):
    text = GOOD.replace("[8]", f"[{count}]").replace("float32", dtype)
    (tmp_path / "spec.yaml").write_text(text.replace("}", f", values: [{', '.join([number] * count)}]}}", 1))
    assert cpu_time.at_most(10, lambda: cli("generate", tmp_path / "spec.yaml", "-o", tmp_path / "out")).status == 0
    source = (tmp_path / "out" / "k.cu").read_text()
    assert source.count(number) >= count
    assert max(map(len, source.split("\n"))) <= 120


def npy(array: np.ndarray, **options: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return stream.getvalue()


class Trap:
    """Shows that it was unpickled."""

    def __reduce__(self):
        return os.mkdir, ("owned",)


FLOATS = npy(np.arange(8, dtype=np.float32))


@pytest.mark.parametrize(
    ("content", "code"),
    [
        pytest.param(npy(np.array([Trap()] * 8, dtype=object)), "CG1035", id="objects"),
        pytest.param(pickle.dumps(Trap()), "CG1035", id="pickle"),
        pytest.param(FLOATS[:-1], "CG1035", id="a byte short"),
        pytest.param(FLOATS + b"\0", "CG1035", id="a byte more"),
        pytest.param(FLOATS[:40], "CG1035", id="header cut"),
        pytest.param(FLOATS[:6], "CG1035", id="magic cut"),
        pytest.param(b"", "CG1035", id="empty"),
        pytest.param(b"\x93NUMPY\x07\x00" + FLOATS[8:], "CG1035", id="format 7"),
        pytest.param(FLOATS.replace(b"'<f4'", b"'<c8'"), "CG1035", id="complex"),
        pytest.param(FLOATS.replace(b"(8,)", b"(9,)"), "CG1035", id="9 elements"),
        pytest.param(FLOATS.replace(b"(8,)", b"(-8)"), "CG1035", id="-8 elements"),
        pytest.param(FLOATS.replace(b"False", b"exit("), "CG1035", id="code in the header"),
        pytest.param(npy(np.zeros(8, [("a", "f4")])), "CG1035", id="records"),
        pytest.param(npy(np.zeros(8, "S4")), "CG1035", id="strings"),
        pytest.param(npy(np.zeros(0, "f4")), "CG1035", id="no element"),
        pytest.param(b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + FLOATS[10:], "CG1035", id="huge header"),
        pytest.param(npy(np.zeros((2, 4), "f4")), "CG1032", id="matrix"),
        pytest.param(npy(np.zeros(7, "f4")), "CG1032", id="7 elements"),
        pytest.param(npy(np.full(8, 1e300)), "CG1031", id="infinite in float32"),
        pytest.param(npy(np.zeros(8, "?")), "CG1031", id="bool"),
    ],
)
def test_a_file_of_values_that_is_not_what_it_says_is_refused(refused, tmp_path, monkeypatch, content, code):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.npy").write_bytes(content)
    assert refused(BAKED) == [(code, 4, 43)]
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize("dtype", ["float64", "int8", "uint8", "float16", ">f4"])
def test_values_of_another_type_are_taken_where_each_of_them_fits(cli, tmp_path, dtype):
    (tmp_path / "spec.yaml").write_text(BAKED)
    (tmp_path / "x.npy").write_bytes(npy(np.arange(8).astype(dtype)))
    assert cli("generate", tmp_path / "spec.yaml", "-o", tmp_path / "out").status == 0
    assert "7" in (tmp_path / "out" / "k.cu").read_text()


def test_a_link_that_leads_out_of_the_folder_is_refused(refused, tmp_path, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.npy").write_bytes(FLOATS)
    (tmp_path / "x.npy").symlink_to(outside / "secret.npy")
    assert refused(BAKED) == [("CG1034", 4, 43)]
    (tmp_path / "x.npy").unlink()
    (tmp_path / "sub").symlink_to(outside)
    assert refused(BAKED.replace("x.npy", "sub/secret.npy")) == [("CG1034", 4, 43)]


def test_a_link_to_itself_a_folder_and_a_pipe_are_no_values(refused, tmp_path):
    (tmp_path / "x.npy").symlink_to(tmp_path / "x.npy")
    assert refused(BAKED) == [("CG1035", 4, 43)]
    (tmp_path / "x.npy").unlink()
    (tmp_path / "x.npy").mkdir()
    assert refused(BAKED) == [("CG1035", 4, 43)]
    (tmp_path / "x.npy").rmdir()
    os.mkfifo(tmp_path / "x.npy")
    assert refused(BAKED) == [("CG1035", 4, 43)]


@pytest.mark.parametrize("what", ["missing", "folder", "pipe", "\0", "a" * 5000, ""])
def test_a_spec_that_is_no_file_is_refused(cli, tmp_path, what):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    answer = cli("generate", os.path.join(tmp_path, what), "-o", tmp_path / "out")
    assert answer.status == 2
    assert answer.err.startswith("error[CG1001]: ")
    help = "name its files, as in `" if what in ("folder", "") else "check the path"
    if what == "pipe":
        help = "write the spec to a file"
        assert "it is a pipe or a device" in answer.err
    assert f"= help: {help}" in answer.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "doc",
    [
        pytest.param("*/ int evil = 1; /*", id="end of a comment"),
        pytest.param("a \\\\", id="backslashes"),
        pytest.param("what ??/", id="trigraph"),
        pytest.param("{{ 7 * 7 }} {% raw %}", id="template tags"),
        pytest.param("first\\nint evil = 1;", id="line feed"),
        pytest.param("first\\r#define evil", id="carriage return"),
        pytest.param("// nothing */ /*", id="line comment"),
        pytest.param("\\u2029#include <evil>", id="line separator"),
    ],
)
def test_prose_stays_inside_its_comment(cli, tmp_path, doc):
    (tmp_path / "spec.yaml").write_text(GOOD)
    assert cli("generate", tmp_path / "spec.yaml", "-o", tmp_path / "plain").status == 0
    (tmp_path / "spec.yaml").write_text(GOOD.replace("kernel: k\n", f'kernel: k\ndoc: "{doc}"\n'))
    answer = cli("generate", tmp_path / "spec.yaml", "-o", tmp_path / "out")
    if answer.status == 2:
        assert "CG1003" in answer.err
        return
    for name in ("k.cu", "k.h"):
        plain, written = ((tmp_path / folder / name).read_text() for folder in ("plain", "out"))
        assert without_comments(plain) == without_comments(written)
        assert "49" not in written.split("\n", 1)[0]


def test_a_file_name_stays_inside_its_comment(cli, tmp_path):
    for name in ("spec.yaml", "a\nint evil;.yaml", "b* evil.yaml", "c\\", "{{ evil }}.yaml"):
        (tmp_path / name).write_text(GOOD)
        assert cli("generate", tmp_path / name, "-o", tmp_path / "out").status == 0
        assert "evil" not in without_comments((tmp_path / "out" / "k.cu").read_text())


def without_comments(text: str) -> str:
    """What a compiler sees: continued lines are joined before `//` ends, and no block comment is expected."""
    joined = re.sub(r"\\\s*\n", "", text)
    return re.sub(r"//[^\n]*", "", joined)
