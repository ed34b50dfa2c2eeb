"""The page of the gallery has every spec with its line, and the sources that it gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cugen.spec.model import Spec


def table(gallery: dict[str, Spec], root: Path) -> str:
    rows = ["| spec | kernel | what it computes |", "|---|---|---|"]
    for path in sorted((root / "specs").glob("*.yaml")):
        for spec in gallery.values():
            if spec.file == path.name:
                doc = spec.doc.replace("|", "\\|") or "–"
                rows.append(f"| [{path.stem}]({path.name}) | [{spec.kernel}](../generated/{spec.kernel}.cu) | {doc} |")
    return "\n".join(rows) + "\n"


def test_the_page_of_the_gallery_has_every_spec(
    gallery: dict[str, Spec], root: Path, golden_part: Callable[[Path, str, str], None]
) -> None:
    golden_part(root / "specs" / "README.md", "gallery", table(gallery, root))
