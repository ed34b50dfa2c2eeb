"""`cugen generate` on variants that compute the same: the header that they share, written, listed and checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.fixture
def variants(spec: Path) -> Path:
    """A spec with variants `scale__64` and `scale__32`."""
    text = spec.read_text().replace("{family: direct}", "{family: direct, block: {i: $size}}")
    spec.write_text(text + "variants: {size: [64, 32]}\n")
    return spec


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_variants_that_compute_the_same_share_a_header(cli: Cli, variants: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    answer = cli("generate", variants, "-o", out)
    assert answer.status == 0
    kernels = [f"scale__{size}{suffix}" for size in (32, 64) for suffix in (".cu", ".h", ".hpp", ".json")]
    assert names(out) == ["cugen_launch.hpp", "scale.h", "scale.hpp", *kernels]
    assert answer.out.splitlines()[-2:] == [f"wrote {out / name}" for name in ("scale.h", "scale.hpp")]
    text = (out / "scale.h").read_text()
    assert text.index("return ::scale__64_launch") < text.index("return ::scale__32_launch")


@pytest.mark.parametrize(
    ("old", "new"),
    [("dtype: float32", "dtype: float$size"), ("2 * x[i]", "$size * x[i]")],
    ids=["types", "results"],
)
def test_variants_that_differ_in_more_than_tiles_and_sizes_share_none(
    cli: Cli, variants: Path, tmp_path: Path, old: str, new: str
) -> None:
    variants.write_text(variants.read_text().replace(old, new))
    assert cli("generate", variants, "-o", tmp_path / "out").status == 0
    assert len(names(tmp_path / "out")) == 9


def test_variants_for_different_sizes_share_a_header_that_chooses_by_size(
    cli: Cli, variants: Path, tmp_path: Path
) -> None:
    variants.write_text(variants.read_text().replace("N: 40", "N: $size"))
    assert cli("generate", variants, "-o", tmp_path / "out").status == 0
    text = (tmp_path / "out" / "scale.h").read_text()
    assert "if (N == 64) {" in text
    assert "if (N == 32) {" in text


def test_a_second_time_nothing_is_written(cli: Cli, variants: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cli("generate", variants, "-o", out)
    again = cli("generate", variants, "-o", out)
    assert (again.status, again.out, again.err) == (0, "", "2 kernels up to date\n")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("suffix", [".h", ".hpp"])
def test_a_shared_header_that_is_gone_or_edited_is_written_again(
    cli: Cli, variants: Path, tmp_path: Path, suffix: str
) -> None:
    out = tmp_path / "out"
    cli("generate", variants, "-o", out)
    header = out / f"scale{suffix}"
    good = header.read_text()
    for damage in (header.unlink, lambda: header.write_text(good.replace("64", "6"))):
        damage()
        assert cli("generate", variants, "-o", out).out == f"wrote {header}\n"
        assert header.read_text() == good


def test_a_variant_more_is_a_new_header_and_leaves_the_others(cli: Cli, variants: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cli("generate", variants, "-o", out)
    # The values are no part of the other variants, and comments are none of any.
    variants.write_text("# larger, too\n" + variants.read_text().replace("[64, 32]", "[64, 128, 32]"))
    answer = cli("generate", variants, "-o", out)
    expected = [out / f"scale__128{suffix}" for suffix in (".cu", ".h", ".hpp", ".json")]
    expected += [out / "scale.h", out / "scale.hpp"]
    assert answer.out.splitlines() == [f"wrote {path}" for path in expected]


def test_the_list_and_the_depfile_have_the_shared_header(cli: Cli, variants: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    listed = cli("generate", variants, "-o", out, "--list").out.splitlines()
    assert cli("generate", variants, "-o", out, "--depfile", tmp_path / "d").status == 0
    assert sorted(listed) == [str(out / name) for name in names(out) if name != "cugen_launch.hpp"]
    targets, dependencies = (tmp_path / "d").read_text().replace("\\\n", "").split(":")
    assert targets.split() == [path for path in listed if not path.endswith(".hpp")]
    assert any(path.endswith("variants.h.j2") for path in dependencies.split())


def test_check_distinguishes_missing_stale_and_edited(cli: Cli, variants: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    header = out / "scale.h"
    assert f"{header}: missing" in cli("generate", variants, "-o", out, "--check").err
    assert names(out) == []
    cli("generate", variants, "-o", out)
    assert cli("generate", variants, "-o", out, "--check").status == 0
    good = header.read_text()
    header.write_text(good + "// mine\n")
    edited = cli("generate", variants, "-o", out, "--check")
    assert (edited.status, f"{header}: edited by hand" in edited.err) == (1, True)
    assert "-// mine" in edited.out
    header.write_text(good)
    variants.write_text(variants.read_text().replace("[64, 32]", "[64]"))
    assert f"{header}: no spec makes it" in cli("generate", variants, "-o", out, "--check").err
    variants.write_text(variants.read_text().replace("[64]", "[64, 96]"))
    assert f"{header}: stale" in cli("generate", variants, "-o", out, "--check").err


def test_several_processes_write_the_same_shared_header(cli: Cli, variants: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    assert cli("generate", variants, "-o", first).status == 0
    assert cli("generate", variants, "-o", second, "--jobs", "2").status == 0
    for name in ("scale.h", "scale.hpp"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_a_kernel_whose_header_would_have_the_same_name_is_refused(cli: Cli, variants: Path, tmp_path: Path) -> None:
    second_spec = tmp_path / "other.yaml"
    second_spec.write_text(variants.read_text().replace("variants: {size: [64, 32]}", "").replace("$size", "32"))
    answer = cli("generate", variants, second_spec, "-o", tmp_path / "out")
    assert (answer.status, names(tmp_path / "out")) == (2, [])
    assert "scale.h" in answer.err
    assert str(variants) in answer.err
    assert str(second_spec) in answer.err


def test_two_files_whose_variants_would_share_a_name_are_refused(cli: Cli, variants: Path, tmp_path: Path) -> None:
    second_spec = tmp_path / "other.yaml"
    second_spec.write_text(variants.read_text().replace("[64, 32]", "[128, 256]"))
    answer = cli("generate", variants, second_spec, "-o", tmp_path / "out")
    assert (answer.status, names(tmp_path / "out")) == (2, [])
    assert "scale.h" in answer.err


@pytest.mark.slow
def test_run_still_runs_every_variant(cli: Cli, variants: Path) -> None:
    answer = cli("run", variants, "--device", "cpu")
    assert answer.status == 0
    assert "scale__64: PASSED" in answer.out
    assert "scale__32: PASSED" in answer.out
