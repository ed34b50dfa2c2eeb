"""`cugen generate --emit` and `--umbrella`: machine code, C arrays and one header for all; written, listed, checked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cugen.emit.files import LAUNCH_HEADER, stamped
from cugen.emit.layout import unwrapped
from cugen.families.gemm.wgmma import selection
from cugen.schedule.lock import Entry, Time, spec_key
from cugen.spec.load import load_all
from cugen.spec.model import Schedule
from cugen.toolchain import locations, nvcc, nvrtc
from cugen.toolchain.binary import fatbinary
from cugen.tune.lockfile import update

Cli = Callable[..., Any]
FAT = locations.program("fatbinary") is not None


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.fixture
def second(spec: Path, tmp_path: Path) -> Path:
    path = tmp_path / "second.yaml"
    path.write_text(spec.read_text().replace("scale", "second").replace("twice", "again twice"))
    return path


@pytest.fixture
def without_compiler(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def remove() -> None:
        monkeypatch.setattr(nvrtc, "find", lambda: None)
        monkeypatch.setattr(nvcc, "find", lambda: None)

    return remove


@pytest.mark.parametrize(
    ("kinds", "files"),
    [
        pytest.param("cu", [".cu", ".h", ".json", ".hpp"], marks=pytest.mark.slow),
        pytest.param("cubin", [".json", ".cubin"], marks=pytest.mark.slow),
        ("ptx,cu", [".cu", ".h", ".json", ".hpp", ".ptx"]),
        pytest.param("embed", [".json", "_embed.h", "_embed.c", "_embed.hpp"], marks=pytest.mark.slow),
        ("main", [".cu", ".h", ".json", ".hpp", "_main.cpp"]),
        ("embed,cubin,cubin", [".json", ".cubin", "_embed.h", "_embed.c", "_embed.hpp"]),
    ],
)
def test_requested_outputs_are_written_listed_and_current(
    cli: Cli, spec: Path, tmp_path: Path, kinds: str, files: list[str]
) -> None:
    out = tmp_path / "out"
    words = ("generate", spec, "-o", out, "--emit", kinds)
    expected = [str(out / f"scale{suffix}") for suffix in files]
    assert cli(*words, "--list").out.splitlines() == expected
    assert cli(*words, "--check").status == 1
    shared = [] if kinds == "cubin" else [str(out / LAUNCH_HEADER)]
    written = [f"wrote {path}" for path in [*shared, *expected]]
    assert sorted(cli(*words, "--depfile", tmp_path / "d").out.splitlines()) == sorted(written)
    assert sorted(map(str, out.iterdir())) == sorted([*expected, *shared])
    targets = (tmp_path / "d").read_text().partition(":")[0].split()
    assert targets == [path for path in expected if not path.endswith(".hpp")]
    again = cli(*words)
    assert (again.status, again.out, again.err) == (0, "", "1 kernel up to date\n")
    assert cli(*words, "--check").status == 0
    has_sources = not {"cu", "main"}.isdisjoint(kinds.split(","))
    assert cli("generate", spec, "-o", out, "--check").status == (0 if has_sources else 1)


ROWS = """\
cugen: 1
kernel: rows
params: {M: {default: 100}, N: 8}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M, N], dtype: float32}
compute: y[i, j] = 2 * x[i, j]
"""


def test_a_program_is_current_as_long_as_its_sizes_are(cli: Cli, tmp_path: Path) -> None:
    spec, out = tmp_path / "rows.yaml", tmp_path / "out"
    words = ("generate", spec, "-o", out, "--emit", "main,main-overlap", "--no-analysis")
    spec.write_text(ROWS)
    assert cli(*words).status == 0
    assert cli(*words).err == "1 kernel up to date\n"
    spec.write_text(ROWS.replace("100", "200"))  # sizes for which the kernel is planned, too
    written = cli(*words).out.splitlines()
    assert {f"wrote {out / name}" for name in ("rows.cu", "rows_main.cpp", "rows_main_overlap.cpp")} <= set(written)
    (out / "rows_main.cpp").write_text("edited")
    assert cli(*words, "--check").status == 1
    assert cli(*words).out == f"wrote {out / 'rows_main.cpp'}\n"


def test_a_program_that_cannot_be_written_is_an_error_of_the_spec(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "rows.yaml").write_text(ROWS.replace("{default: 100}", "100"))
    answer = cli("generate", tmp_path / "rows.yaml", "-o", tmp_path / "out", "--emit", "main-overlap")
    assert (answer.status, names(tmp_path / "out")) == (2, [])
    assert "error[CG2402]" in answer.err
    assert "rows.yaml:7:10" in answer.err


@pytest.mark.slow
def test_several_processes_make_the_same_code(cli: Cli, spec: Path, second: Path, tmp_path: Path) -> None:
    serial, parallel = tmp_path / "serial", tmp_path / "parallel"
    cli("generate", spec, second, "-o", serial, "--emit", "cubin,embed")
    cli("generate", spec, second, "-o", parallel, "--emit", "cubin,embed", "--jobs", "2")
    assert len(names(serial)) == 11
    for name in names(serial):
        assert (parallel / name).read_bytes() == (serial / name).read_bytes()


def test_machine_code_is_for_the_target(cli: Cli, spec: Path, tmp_path: Path) -> None:
    cli("generate", spec, "-o", tmp_path, "--emit", "ptx,cubin", "--target", "sm_80")
    assert ".target sm_80" in (tmp_path / "scale.ptx").read_text()
    assert (tmp_path / "scale.cubin").read_bytes().startswith(b"\x7fELF")


@pytest.mark.parametrize("kinds", ["fatbin", "embed"])
def test_several_targets_share_one_file(cli: Cli, spec: Path, tmp_path: Path, kinds: str) -> None:
    if not FAT:
        pytest.skip("NO fatbinary, SEVERAL TARGETS ARE UNTESTED")
    answer = cli("generate", spec, "-o", tmp_path, "--emit", f"cu,{kinds}", "--target", "sm_90,sm_80")
    assert answer.status == 0
    assert "for sm_80. Edit" in (tmp_path / "scale.cu").read_text()
    if kinds == "embed":
        assert " for sm_80, sm_90, compiled by " in (tmp_path / "scale_embed.c").read_text()
    assert cli("generate", spec, "-o", tmp_path, "--emit", f"cu,{kinds}", "--target", "sm_80,sm_90").out == ""
    assert cli("generate", spec, "-o", tmp_path, "--emit", f"cu,{kinds}", "--target", "sm_90").out != ""


PRODUCT = """\
cugen: 1
kernel: product
params: {M: 256, N: 256, K: 256}
arrays:
  A: {shape: [M, K], dtype: bfloat16}
  B: {shape: [K, N], dtype: bfloat16}
  C: {shape: [M, N], dtype: bfloat16}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_architecture_specific_target_has_its_own_source_among_several(
    cli: Cli, tmp_path: Path, spec: Path, jobs: int
) -> None:
    if not FAT:
        pytest.skip("NO fatbinary, SEVERAL TARGETS ARE UNTESTED")
    (tmp_path / "product.yaml").write_text(PRODUCT)
    out = tmp_path / "out"
    words = ("generate", tmp_path / "product.yaml", spec, "-o", out, "--emit", "cu,fatbin,embed", "--jobs", jobs)
    answer = cli(*words, "--target", "sm_90a,sm_80,sm_90")
    assert answer.status == 0, answer.err
    plain, specific = (json.loads((out / f"product{suffix}").read_text()) for suffix in (".json", ".sm_90a.json"))
    assert (plain["target"], specific["target"]) == ("sm_80", "sm_90a")
    assert ("wgmma" in (out / "product.cu").read_text(), "tensor_maps" in specific) == (False, True)
    code = (out / "product_embed.c").read_text()
    for targets, manifest in (("sm_80, sm_90", plain), ("sm_90a", specific)):
        digest = manifest["source_hash"][:16]
        assert f"// Machine code of product.cu (SHA-256 {digest}) for {targets}, compiled by " in code
    listed = cli(*words, "--target", "sm_80,sm_90,sm_90a", "--list").out.splitlines()
    assert sorted(listed) == sorted(str(path) for path in out.iterdir() if path.name != LAUNCH_HEADER)
    assert cli(*words, "--target", "sm_80,sm_90,sm_90a").out == ""
    assert cli(*words, "--target", "sm_80,sm_90,sm_90a", "--check").status == 0
    (tmp_path / "product.yaml").write_text(PRODUCT.replace("M: 256", "M: 512"))
    assert cli(*words, "--target", "sm_80,sm_90,sm_90a", "--check").status == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kinds", ["cubin", "embed", pytest.param("cu,fatbin", marks=pytest.mark.slow)])
def test_machine_code_whose_accumulators_spill_is_an_error_of_the_build(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kinds: str
) -> None:
    """Of a tile that the family refuses, as its accumulators need more registers than there are."""
    text = PRODUCT.replace("[K, N]", "[N, K]").replace("B[k, n]", "B[n, k]")
    (tmp_path / "product.yaml").write_text(f"{text}schedule: {{family: wgmma, block: {{m: 256, n: 224}}}}\n")
    words = ("generate", tmp_path / "product.yaml", "-o", tmp_path / "out", "--target", "sm_90a", "--emit", kinds)
    assert "CG2102" in cli(*words).err
    monkeypatch.setattr(selection, "_fits_registers", lambda *_: True)
    answer = cli(*words)
    assert answer.status == 4  # it would be an error of cugen
    assert "CG4001" in answer.err
    assert re.search("serialises the wgmmas of product|product spills registers beside wgmma", answer.err)
    assert names(tmp_path / "out") == []


def test_ptx_is_of_the_highest_target_without_a_suffix(
    cli: Cli, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed: list[tuple[list[str], list[str]]] = []

    def pack(cubins: Mapping[str, bytes], ptx: Mapping[str, str]) -> bytes:
        packed.append((list(cubins), list(ptx)))
        return b"image"

    monkeypatch.setattr(fatbinary, "pack", pack)
    for targets in ("sm_90a,sm_90,sm_80", "sm_80,sm_90a,sm_100f", "sm_90a"):
        assert cli("generate", spec, "-o", tmp_path / "out", "--emit", "fatbin", "--target", targets).status == 0
    assert packed == [
        (["sm_80", "sm_90", "sm_90a"], ["sm_90"]),
        (["sm_80", "sm_100f", "sm_90a"], ["sm_80"]),
        (["sm_90a"], []),
    ]


def test_the_lock_has_schedules_of_each_target(cli: Cli, tmp_path: Path) -> None:
    """Those of a target with its own source apply to that."""
    if not FAT:
        pytest.skip("NO fatbinary, SEVERAL TARGETS ARE UNTESTED")
    path = tmp_path / "product.yaml"
    path.write_text(PRODUCT)
    entries = []
    for name, schedule in (("sm_80", Schedule("direct")), ("sm_90a", Schedule("tiled"))):
        (loaded,) = load_all(path, target=name)
        times = Time(5, 4), Time(6, 5)
        entries.append(Entry("product", spec_key(loaded), name, "a GPU", (("C", schedule),), *times, "0.1.0"))
    update(tmp_path / "cugen.lock", entries)
    answer = cli("generate", path, "-o", tmp_path / "out", "--emit", "cu,fatbin", "--target", "sm_80,sm_90a")
    assert (answer.status, answer.err) == (0, "")
    plain, specific = (
        json.loads((tmp_path / "out" / f"product{suffix}").read_text())["launches"][0]
        for suffix in (".json", ".sm_90a.json")
    )
    assert (plain["shared_bytes"], specific["shared_bytes"] > 0) == (0, True)


def test_without_the_packer_one_target_is_still_possible(
    cli: Cli, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locations, "program", lambda name: None)
    several = cli("generate", spec, "-o", tmp_path / "out", "--emit", "embed", "--target", "sm_80,sm_90")
    assert (several.status, names(tmp_path / "out")) == (3, [])
    assert "fatbinary" in several.err
    assert "pip install" in several.err
    assert cli("generate", spec, "-o", tmp_path / "out", "--emit", "embed", "--target", "sm_80").status == 0


@pytest.mark.parametrize(
    ("kind", "jobs"), [("cubin", 1), ("ptx", 1), ("embed", 1), pytest.param("embed", 2, marks=pytest.mark.slow)]
)
def test_without_a_compiler_the_cure_is_said_and_nothing_written(
    cli: Cli, spec: Path, second: Path, tmp_path: Path, without_compiler: Callable[[], None], kind: str, jobs: int
) -> None:
    without_compiler()
    answer = cli("generate", spec, second, "-o", tmp_path / "out", "--emit", f"cu,{kind}", "--jobs", jobs)
    assert (answer.status, names(tmp_path / "out")) == (3, [])
    assert "pip install" in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--emit", "cubin", "--target", "sm_80,sm_90"), "`--emit cubin` is for one target"),
        (("--target", "sm_80,sm_90"), "sources are generated for one target"),
        (("--emit", "fatbin", "--target", "sm_80,90"), "`90` is not a target"),
        (("--emit", "elf"), "`elf` can't be emitted"),
        (("--umbrella", "../all"), "not a file name"),
        (("--umbrella", "scale"), "two files are called `scale.h`"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Cli, spec: Path, tmp_path: Path, words: Any, said: str) -> None:
    answer = cli("generate", spec, "-o", tmp_path / "out", *words)
    assert (answer.status, names(tmp_path / "out")) == (2, [])
    assert said in answer.err


def test_a_target_that_the_compiler_does_not_know_is_named(cli: Cli, spec: Path, tmp_path: Path) -> None:
    answer = cli("generate", spec, "-o", tmp_path / "out", "--emit", "fatbin", "--target", "sm_11,sm_90")
    assert (answer.status, names(tmp_path / "out")) == (3, [])
    assert "sm_11" in answer.err


def test_another_compilers_array_stays_as_long_as_its_source_does(cli: Cli, spec: Path, tmp_path: Path) -> None:
    """A team commits the files; not everybody has the same compiler."""
    words = ("generate", spec, "-o", tmp_path, "--emit", "embed")
    cli(*words)
    file = tmp_path / "scale_embed.c"
    text, _, stamp = file.read_text().rpartition("\n// Input ")
    by = re.search(r", compiled by (\w+ [\d.]+),", text)
    first = re.search(r"0x[0-9a-f]{8}464c457f", text)
    assert by is not None
    assert first is not None
    text = text.replace(by[0], ", compiled by nvcc 99.0,").replace(first[0], "0x0123456789abcdef")
    whole = stamped(text, stamp[:16])
    file.write_text(whole)
    answer = cli(*words, "--check")
    assert (answer.status, "machine code by nvcc 99.0, which is not installed, was not compared" in answer.err) == (
        0,
        True,
    )
    assert cli(*words).err == "1 kernel up to date\n"
    assert file.read_text() == whole
    file.write_text(whole.replace("0x0123456789abcdef", "0x0123456789abcdee"))
    answer = cli(*words, "--check")
    assert (answer.status, f"{file}: edited by hand" in answer.err) == (1, True)
    file.write_text(whole)
    spec.write_text(spec.read_text().replace("2 * x[i]", "3 * x[i]"))
    assert cli(*words, "--check").status == 1
    cli(*words)
    assert by[0] in file.read_text()
    assert cli(*words, "--write", "always").out.count("wrote") == 4


@pytest.mark.slow
def test_code_that_was_touched_or_is_gone_is_generated_again(cli: Cli, spec: Path, tmp_path: Path) -> None:
    words = ("generate", spec, "-o", tmp_path, "--emit", "cubin,embed")
    cli(*words)
    good = {path: path.read_bytes() for path in tmp_path.iterdir() if path.stem.startswith("scale") and path != spec}
    for name in ("scale.cubin", "scale_embed.h", "scale_embed.hpp", "scale_embed.c"):
        for damage in (lambda p: p.unlink(), lambda p: p.write_bytes(p.read_bytes()[:-9] + b"something")):
            damage(tmp_path / name)
            assert cli(*words, "--check").status == 1
            assert cli(*words).out == f"wrote {tmp_path / name}\n"
    assert all(path.read_bytes() == content for path, content in good.items())


def test_binary_files_are_not_printed_in_a_check(cli: Cli, spec: Path, tmp_path: Path) -> None:
    answer = cli("generate", spec, "-o", tmp_path, "--emit", "cubin", "--check")
    assert f"Binary files /dev/null and {tmp_path / 'scale.cubin'} differ" in answer.out
    cli("generate", spec, "-o", tmp_path, "--emit", "cubin")
    (tmp_path / "scale.cubin").write_bytes(b"\0")
    answer = cli("generate", spec, "-o", tmp_path, "--emit", "cubin", "--check")
    assert "scale.cubin: not what nvrtc" in answer.err or "scale.cubin: not what nvcc" in answer.err


def test_one_header_includes_all_and_says_what_each_does(cli: Cli, spec: Path, second: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("generate", spec, second, "-o", out, "--umbrella", "all")
    assert cli(*words, "--list").out.splitlines()[-1] == str(out / "all.h")
    assert cli(*words).out.splitlines()[-1] == f"wrote {out / 'all.h'}"
    text = (out / "all.h").read_text()
    assert "// scale: y is twice x\n// second: y is again twice x\n" in text
    assert '#include "scale.h"\n#include "second.h"\n' in text
    assert cli(*words).out == ""
    assert cli(*words, "--check").status == 0
    second.write_text(second.read_text().replace("again twice", "once more twice"))
    assert cli(*words).out.splitlines() == [
        *(f"wrote {out / f'second{suffix}'}" for suffix in (".cu", ".h", ".hpp", ".json")),
        f"wrote {out / 'all.h'}",
    ]
    (out / "all.h").write_text("// mine\n")
    assert f"{out / 'all.h'}: edited by hand" in cli(*words, "--check").err


def test_a_long_description_is_whole_in_an_umbrella(cli: Cli, spec: Path, tmp_path: Path) -> None:
    words = "twice x, " * 20
    spec.write_text(spec.read_text().replace("twice x", f"{words}and nothing else"))
    for _ in range(2):  # the second time, the description is read from disk
        (tmp_path / "all.h").unlink(missing_ok=True)
        cli("generate", spec, "-o", tmp_path, "--umbrella", "all")
        text = (tmp_path / "all.h").read_text()
        assert max(map(len, text.splitlines())) <= 120
        assert f"// scale: y is {words}and nothing else\n" in unwrapped(text)


def test_arrays_have_an_umbrella_of_their_own(cli: Cli, spec: Path, second: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cli("generate", spec, second, "-o", out, "--umbrella", "all", "--emit", "embed")
    assert "all.h" not in names(out)
    assert '#include "scale_embed.h"\n#include "second_embed.h"\n' in (out / "all_embed.h").read_text()


def test_embedded_arrays_next_to_sources_are_no_orphans(cli: Cli, spec: Path, tmp_path: Path) -> None:
    cli("generate", spec, "-o", tmp_path, "--emit", "cu,embed", "--umbrella", "all")
    assert cli("generate", spec, "-o", tmp_path, "--check").status == 0
    spec.write_text(spec.read_text().replace("scale", "other"))
    cli("generate", spec, "-o", tmp_path)
    assert "scale_embed.h: no spec makes it" in cli("generate", spec, "-o", tmp_path, "--check").err
