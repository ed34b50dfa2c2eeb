"""The report of a refused source."""

from cugen.toolchain.errors import CompileError
from cugen.toolchain.failure import explain_failure

SOURCE = "\n".join(f"line {number}" for number in range(1, 21)) + "\n"


def report(output: str, **provenance: dict[int, str]) -> str:
    return explain_failure(CompileError(["nvcc", "k.cu"], output, "k.cu"), SOURCE, **provenance)


def test_the_lines_round_an_error_are_quoted_and_the_error_s_own_is_marked() -> None:
    text = report('k.cu(10): error: identifier "x" is undefined\n')
    quoted = [line for line in text.splitlines() if "line " in line]
    assert quoted == [" 8 | line 8", " 9 | line 9", "10 > line 10", "11 | line 11", "12 | line 12"]
    assert '   = identifier "x" is undefined' in text
    assert "cugen explain CG4001" in text


def test_an_error_at_the_end_quotes_no_line_beyond() -> None:
    text = report("k.cu(20): error: expected a }\n")
    assert text.count("| line") == 2
    assert "20 > line 20" in text


def test_the_template_and_the_key_come_from_the_nearest_line_above() -> None:
    known = {3: "templates/tiled.cu.j2:7, key arrays.A.memory", 9: "templates/tiled.cu.j2:12", 11: "elsewhere"}
    assert "= from: templates/tiled.cu.j2:12\n" in report("k.cu(10): error: no\n", provenance=known)
    assert "= from:" not in report("k.cu(2): error: no\n", provenance=known)


def test_errors_without_a_location_are_listed() -> None:
    text = report("ptxas error   : Entry function 'f' uses too much shared data (0x10000 bytes, 0xc000 max)\n")
    assert "  = Entry function 'f' uses too much shared data (0x10000 bytes, 0xc000 max)" in text


def test_a_long_list_of_errors_is_cut_and_counted() -> None:
    text = report("".join(f"k.cu({n}): error: number {n}\n" for n in range(1, 9)))
    assert "number 5" in text
    assert "number 6" not in text
    assert "and 3 more" in text


def test_output_that_nobody_understands_is_shown_as_it_is() -> None:
    assert "Segmentation fault" in report("Segmentation fault\n")
