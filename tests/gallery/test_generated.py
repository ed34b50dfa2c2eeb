"""`generated/` is what the gallery gives; `pytest --update-golden` rewrites it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cugen.kernel import Kernel
from cugen.spec.model import Spec

SUFFIXES = (".cu", ".h", ".json")


def contents(kernel: Kernel) -> tuple[str, str, str]:
    return kernel.source, kernel.header, kernel.manifest.to_json()


def test_the_committed_files_are_what_the_spec_gives(kernel: Kernel, root: Path, update_golden: bool) -> None:
    stale = []
    for suffix, text in zip(SUFFIXES, contents(kernel), strict=True):
        path = root / "generated" / f"{kernel.name}{suffix}"
        if update_golden:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(path.name)
    if stale:
        pytest.fail(f"stale in generated/: {', '.join(stale)}; if the change is meant, run pytest --update-golden")


def test_no_other_files_are_committed(gallery: dict[str, Spec], root: Path) -> None:
    expected = {f"{name}{suffix}" for name in gallery for suffix in SUFFIXES}
    assert {path.name for path in (root / "generated").iterdir()} - {"README.md"} == expected


def test_the_gallery_aims_at_sm_90(spec: Spec) -> None:
    assert spec.target == "sm_90"
