"""Orphaned generated files: the spec was deleted, or no longer has the kernel.

A generated file has the name of its spec file, without the folder; that file is searched for in the folders of the
call's specs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from cugen.emit.files import SUFFIXES, Difference, removal

_HEAD_BYTES = 1 << 14  # the origin is in the head comment
_ORIGIN = re.compile(r"^// Made by cugen \S+ from (.+?) (?:\(hash [0-9a-f]+\) )?for \S+\. Edit the spec", re.MULTILINE)


def orphans(folder: Path, generated: Collection[Path], specs: Collection[Path]) -> Iterator[Difference]:
    """Generated files in `folder` without a spec.

    `generated` are all files of `specs`; files of other specs in the folders of `specs` are no orphans."""
    if not folder.is_dir():
        return
    names = {spec.name for spec in specs}
    folders = dict.fromkeys(spec.parent for spec in specs)
    known = {path.name for path in generated}
    for path in sorted(folder.iterdir()):
        if path.suffix not in SUFFIXES or path.name in known or not path.is_file():
            continue
        origin = _origin(path)
        if origin and (origin in names or not any((parent / origin).exists() for parent in folders)):
            yield removal(path, f"no spec makes it ({origin} {'has no such kernel' if origin in names else 'is gone'})")


def _origin(path: Path) -> str:
    """Name of the spec file of a generated file; empty for other files."""
    if path.suffix == ".json":
        try:
            manifest = json.loads(path.read_bytes())
            return str(manifest["spec_file"]) if "input_hash" in manifest else ""
        except (ValueError, KeyError, TypeError):
            return ""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES).decode(errors="replace")
    match = _ORIGIN.search(head)
    return match[1] if match else ""
