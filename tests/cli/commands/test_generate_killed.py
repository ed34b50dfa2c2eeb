"""A run that is killed between two files leaves some old and some new: the check says so, the next run mends it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

_VARIANTS = "variants: {n: [10, 20]}\n"
_FILES = 12  # four of each variant, two headers for both, the launch header, and the umbrella header


class _Killed(BaseException):
    """Nothing of the program sees it, as with SIGKILL."""


@contextmanager
def killed_before_rename(number: int, folder: Path) -> Iterator[None]:
    """Ends the run before its rename of this number in the folder."""
    replace, left = os.replace, number

    def counted(source: str, target: str) -> None:
        nonlocal left
        if Path(target).parent == folder:
            if not left:
                raise _Killed
            left -= 1
        replace(source, target)

    with pytest.MonkeyPatch.context() as patch, suppress(_Killed):
        patch.setattr(os, "replace", counted)
        yield


@pytest.fixture
def versions(spec: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A spec of variants, before and after an edit that changes all of their files."""
    text = spec.read_text().replace("{N: 40}", "{N: $n}") + _VARIANTS
    paths = tmp_path / "old" / spec.name, tmp_path / "new" / spec.name
    for path, factor in zip(paths, "23", strict=True):
        path.parent.mkdir()
        path.write_text(text.replace("2 *", f"{factor} *"))
    return paths


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("write", ["if-changed", "always"])
def test_the_check_finds_a_folder_of_old_and_new_files_and_the_next_run_mends_it(
    cli: Cli, versions: tuple[Path, Path], tmp_path: Path, write: str
) -> None:
    old, new = versions
    words = ("--umbrella", "all", "--depfile", tmp_path / "out" / "rule.d", "-o", tmp_path / "out")
    out = tmp_path / "out"
    cli("generate", old, *words)
    whole = {old: contents(out)}
    cli("generate", new, *words)
    whole[new] = contents(out)
    assert len(whole[new]) == _FILES + 1
    states = []
    for number in range(_FILES + 2):
        cli("generate", old, *words)
        assert contents(out) == whole[old]
        with killed_before_rename(number, out):
            cli("generate", new, *words, "--write", write)
        found = contents(out)
        kernels = {name for name in found if not name.endswith(".d")}
        states.append("".join("on"[found[name] == whole[new][name]] for name in sorted(kernels)))
        is_whole = all(found[name] == whole[new][name] for name in kernels)
        assert cli("generate", new, "--umbrella", "all", "-o", out, "--check").status == (0 if is_whole else 1)
        assert not is_whole or found["rule.d"] == whole[new]["rule.d"]
        assert cli("generate", new, *words).status == 0
        assert contents(out) == whole[new]
    assert len(set(states)) > 8  # mixed in many ways


def test_the_depfile_is_there_before_the_files_that_it_is_about(
    cli: Cli, versions: tuple[Path, Path], tmp_path: Path
) -> None:
    """Make believes that files are up to date which are newer than what it knows of."""
    out = tmp_path / "out"
    with killed_before_rename(1, out):
        cli("generate", versions[0], "-o", out, "--depfile", out / "rule.d")
    assert [path.name for path in out.iterdir()] == ["rule.d"]
