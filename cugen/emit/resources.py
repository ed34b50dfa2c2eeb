"""Location of the data files: in the package when installed, in the repository root of a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent
SCHEMA = _PACKAGE / "spec" / "schema" / "cugen-spec-1.json"


def data_folder(name: str) -> Path:
    """The folder `templates` or `specs`."""
    installed = _PACKAGE / "_data" / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


def explanations() -> dict[str, Path]:
    """The page of each diagnostic code."""
    return {path.stem: path for path in sorted((_PACKAGE / "explain").glob("CG*.md"))}
