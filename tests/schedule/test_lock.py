"""Reading the lock file: completed schedules, stale entries, diagnostics of malformed files."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cugen
from cugen.kernel import generate
from cugen.schedule.codes import CODES
from cugen.schedule.lock import (
    Entry,
    Lock,
    Measured,
    Time,
    apply,
    completed,
    read,
    read_text_of,
    refused_warning,
    spec_key,
    warnings,
)
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from cugen.spec.model import Schedule, Spec
from cugen.tune.lockfile import text
from tests.drawn import examples

SCALE = """\
cugen: 1
kernel: scale
params: {N: 4096}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = 2 * x[i]
"""
EXPLAIN = Path(cugen.__file__).parent / "explain"


def spec_of(text: str = SCALE) -> Spec:
    (spec,) = load_text(text)
    return spec


def entry_of(spec: Spec, device: str = "NVIDIA H200", vector: int = 2) -> Entry:
    schedule = Schedule("map", tunables=(("vector", vector),))
    return Entry(spec.kernel, spec_key(spec), spec.target, device, (("y", schedule),), Time(5, 4), Time(6, 5), "0.1.0")


def lock_of(*entries: Entry) -> Lock:
    return Lock("kernels/cugen.lock", entries)


def findings(text: str) -> list[tuple[str, int, int]]:
    with pytest.raises(SpecError) as caught:
        read_text_of(text)
    return [(d.code, d.span.line, d.span.column) for d in caught.value.diagnostics]


def test_the_lock_says_what_the_spec_leaves_open_and_the_source_says_so() -> None:
    spec = spec_of()
    source = generate(apply(spec, lock_of(entry_of(spec)))).source
    assert "schedule  from cugen.lock: NVIDIA H200, 5 µs, 1.20 times as fast as untuned" in source
    assert "Vector<float, 2>" in source
    assert "Vector<float, 4>" in generate(spec).source


def test_the_first_device_by_name_counts_unless_one_is_named() -> None:
    spec = spec_of()
    lock = lock_of(entry_of(spec, "NVIDIA H200", 2), entry_of(spec, "NVIDIA A100", 1))
    chosen = [apply(spec, lock, device).tuned for device in ("", "NVIDIA H200", "NVIDIA T4")]
    assert [tuned.device if tuned else "" for tuned in chosen] == ["NVIDIA A100", "NVIDIA H200", ""]


def test_typical_sizes_are_not_in_the_key() -> None:
    sizes = ("dynamic", "{default: 4096}", "{default: 77}")
    specs = [spec_of(SCALE.replace("N: 4096", f"N: {size}")) for size in sizes]
    assert len({spec.hash for spec in specs}) == 3
    assert len({spec_key(spec) for spec in specs}) == 1


def test_what_the_user_wrote_wins_key_by_key() -> None:
    written = Schedule("tiled", block=(("m", 16),), tunables=(("vector", 1),))
    chosen = Schedule("gemm", (("m", 64), ("n", 32)), step=(("k", 8),), tunables=(("vector", 4), ("stages", 3)))
    assert completed(written, chosen) == Schedule(
        "tiled", (("m", 16), ("n", 32)), step=(("k", 8),), tunables=(("vector", 1), ("stages", 3))
    )


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        ("doc: another text\n", True),
        ("check: {sectors: 3}\n", True),
        ("# a comment\n", True),
        ("schedule: {vectors: 2}\n", False),
        ("target: sm_80\n", False),
    ],
)
def test_an_entry_is_for_the_spec_as_it_was_tuned(change: str, counts: bool) -> None:
    changed = spec_of(SCALE + change)
    lock = lock_of(entry_of(spec_of()))
    assert bool(lock.of(changed)) is counts


def test_an_entry_of_an_earlier_state_is_not_used_and_that_is_said() -> None:
    lock, changed = lock_of(entry_of(spec_of())), spec_of(SCALE.replace("4096", "8192"))
    assert apply(changed, lock).tuned is None
    (finding,) = warnings(changed, lock)
    assert (finding.code, finding.severity) == ("CG2107", "warning")
    assert "tuned on NVIDIA H200" in finding.notes[0]
    assert warnings(spec_of(), lock) == ()
    assert warnings(changed, lock_of()) == ()


def test_entries_of_a_target_and_its_architecture_specific_one_are_distinct() -> None:
    plain, specific = spec_of(SCALE + "target: sm_90\n"), spec_of(SCALE + "target: sm_90a\n")
    lock = lock_of().with_entry(entry_of(plain, vector=2)).with_entry(entry_of(specific, vector=4))
    assert [[entry.target for entry in lock.of(spec)] for spec in (plain, specific)] == [["sm_90"], ["sm_90a"]]
    assert read_text_of(text(lock)) == replace(lock, path="cugen.lock")
    assert warnings(specific, lock_of(entry_of(plain))) == ()


@pytest.mark.parametrize(("tuned", "used"), [("sm_90a", "sm_90"), ("sm_90", "sm_90a")])
def test_an_entry_for_another_target_is_named_where_the_spec_states_none(tuned: str, used: str) -> None:
    lock = lock_of(entry_of(replace(spec_of(), target=tuned)))
    spec = replace(spec_of(), target=used)
    assert apply(spec, lock).tuned is None
    (finding,) = warnings(spec, lock)
    assert (finding.code, finding.severity) == ("CG2109", "warning")
    assert finding.message == f"cugen.lock has an entry for `scale` for {tuned}, none for {used}"
    assert f"--target {tuned}" in finding.help


def test_a_device_without_an_entry_is_answered_with_those_that_have_one() -> None:
    lock = lock_of(entry_of(spec_of()))
    assert warnings(spec_of(), lock, "NVIDIA H200") == ()
    (finding,) = warnings(spec_of(), lock, "H200")
    assert apply(spec_of(), lock, "H200").tuned is None
    assert (finding.code, finding.severity) == ("CG2113", "warning")
    assert finding.message == "cugen.lock has no entry for `scale` on H200"
    assert '`--device-name "NVIDIA H200"` takes what was tuned' in finding.help


def test_an_entry_that_no_longer_fits_leaves_the_generators_choice_and_that_is_said() -> None:
    spec = spec_of()
    kernel = generate(apply(spec, lock_of(entry_of(spec, vector=16))))
    (finding,) = refused_warning(kernel.spec)
    assert (finding.code, finding.severity, finding.file) == ("CG2105", "warning", "kernels/cugen.lock")
    head = " ".join(kernel.source.split("*/")[0].replace("//", "").split())
    assert "the generator's own: the one in cugen.lock for NVIDIA H200 no longer fits" in head
    assert "Vector<float, 4>" in kernel.source
    assert refused_warning(generate(apply(spec, lock_of(entry_of(spec)))).spec) == ()


def test_a_spec_that_is_wrong_by_itself_stays_an_error_with_a_lock() -> None:
    spec = spec_of(SCALE + "schedule: {family: tiled}\n")
    with pytest.raises(SpecError, match="CG2102"):
        generate(apply(spec, lock_of(entry_of(spec))))


def test_the_python_api_takes_a_lock_file(tmp_path: Path) -> None:
    from cugen.tune.lockfile import text

    spec = spec_of()
    path = tmp_path / "cugen.lock"
    path.write_text(text(lock_of(entry_of(spec))))
    kernel = cugen.generate(spec, lock=path)
    assert "from cugen.lock" in kernel.source
    assert kernel.spec.dependencies[-1] == str(path)
    assert "from cugen.lock" not in cugen.generate(spec, lock=path, device_name="NVIDIA T4").source


def test_a_new_entry_takes_the_place_of_those_of_earlier_states() -> None:
    old, new = entry_of(spec_of()), entry_of(spec_of(SCALE.replace("4096", "8192")))
    on_a100 = replace(old, device="NVIDIA A100")
    assert lock_of(old, on_a100).with_entry(new).entries == tuple(sorted([new, on_a100], key=lambda e: e.sort_key))


HEAD = "cugen_lock: 1\nkernels:\n"
BLOCK = """\
- kernel: scale
  spec: "0123456789abcdef"
  target: sm_90
  device: NVIDIA H200
  schedule:
    y: {family: map, vector: 2}
  sums: as untuned
  time_us: {cold: 5, warm: 4}
  untuned_us: {cold: 6, warm: 5}
  cugen: "0.1.0"
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(HEAD + "<<<<<<< HEAD\n" + BLOCK, [("CG2106", 3, 1)], id="conflict marker"),
        pytest.param(HEAD + BLOCK + "=======\n" + BLOCK, [("CG2106", 13, 1)], id="conflict separator"),
        pytest.param(HEAD + BLOCK + BLOCK, [("CG2106", 13, 3)], id="entry twice"),
        pytest.param(HEAD.replace("1", "2") + BLOCK, [("CG2106", 1, 13)], id="version 2"),
        pytest.param(HEAD + BLOCK.replace("  target: sm_90\n", ""), [("CG1013", 3, 3)], id="no target"),
        pytest.param(HEAD + BLOCK + "  surprise: 1\n", [("CG1014", 13, 3)], id="unknown key"),
        pytest.param(HEAD + BLOCK.replace("cold: 5", "cold: fast"), [("CG1015", 10, 19)], id="word for a number"),
        pytest.param(
            HEAD + BLOCK.replace("{family: map, vector: 2}", "map"), [("CG1015", 8, 8)], id="schedule not a mapping"
        ),
        pytest.param(HEAD + "  a: [\n", [("CG1005", 3, 6)], id="syntax error"),
        pytest.param("kernels: 3\n", [("CG1013", 1, 1)], id="no version"),
        pytest.param("cugen_lock: 1\nkernels: 3\n", [("CG1015", 2, 10)], id="kernels not a list"),
    ],
)
def test_a_broken_file_is_a_finding_with_its_place(text: str, expected: list[tuple[str, int, int]]) -> None:
    assert findings(text) == expected


def test_a_file_that_is_no_mapping_is_not_called_a_spec() -> None:
    with pytest.raises(SpecError, match="the file must be a mapping, not the text `garbage`"):
        read_text_of("garbage\n")


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 12), st.text(max_size=6)), min_size=1, max_size=4))
def test_whatever_was_done_to_a_file_it_is_read_or_refused(edits: list[tuple[int, int, str]]) -> None:
    text = HEAD + BLOCK
    for start, length, new in edits:
        text = text[:start] + new + text[start + length :]
    with suppress(SpecError):
        read_text_of(text)


def test_a_file_without_entries_is_fine() -> None:
    assert read_text_of(HEAD).entries == ()
    assert read_text_of("").entries == ()


def test_a_file_that_is_not_there_is_a_finding(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="CG2106"):
        read(tmp_path / "cugen.lock")


@pytest.mark.parametrize("code", ["CG2105", "CG2106", "CG2107"])
def test_the_findings_have_pages(code: str) -> None:
    assert (EXPLAIN / f"{code}.md").read_text().startswith(f"# {code}: {CODES[code]}\n\n")


def test_the_page_about_broken_files_shows_one_that_is_right() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", (EXPLAIN / "CG2106.md").read_text(), re.DOTALL)
    assert [entry.kernel for entry in read_text_of(example).entries] == ["matmul_tiled"]


def test_reading_imports_nothing_heavy() -> None:
    code = "import sys, cugen.schedule.lock; print({'sympy', 'numpy', 'jinja2'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_the_conditions_of_a_search_on_a_cluster_are_kept() -> None:
    entry = replace(entry_of(spec_of()), measured=Measured(4, "580.65", 1980, 3201))
    written = text(lock_of(entry))
    assert '  measured: {gpus: 4, driver: "580.65", sm_mhz: 1980, memory_mhz: 3201}\n' in written
    assert read_text_of(written).entries == (entry,)
    unknown = replace(entry, measured=Measured(1))
    assert "  measured: {gpus: 1}\n" in text(lock_of(unknown))
    assert read_text_of(text(lock_of(unknown))).entries == (unknown,)
    assert "measured" not in text(lock_of(replace(entry, measured=None)))


@pytest.mark.parametrize(
    "value", ["{}", "{gpus: many}", "{gpus: 1, driver: 5}", "{gpus: 1, clocks: 5}", "[1]", "{gpus: -1}"]
)
def test_other_conditions_are_errors_with_their_line(value: str) -> None:
    written = text(lock_of(replace(entry_of(spec_of()), measured=Measured(1)))).replace("{gpus: 1}", value)
    with pytest.raises(SpecError) as refused:
        read_text_of(written)
    line = next(number for number, text in enumerate(written.splitlines(), 1) if "measured:" in text)
    assert {diagnostic.span.line for diagnostic in refused.value.diagnostics} == {line}
