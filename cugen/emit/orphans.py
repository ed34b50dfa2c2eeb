"""Orphaned generated files: the spec was deleted, or no longer has the kernel.

A generated file has the name of its spec file, without the folder; that file is searched for in the folders of the
call's specs. cugen_launch.hpp has no spec: a manifest of the folder must need it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from cugen.emit.files import LAUNCH_HEADER, SUFFIXES, Difference, is_stamped, removal
from cugen.emit.layout import unwrapped

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
    remaining = {}
    for path in sorted(path for path in folder.iterdir() if path.suffix in (*SUFFIXES, ".cpp") and path.is_file()):
        origin = "" if path.name in known else _origin(path)
        if origin and (origin in names or not any((parent / origin).exists() for parent in folders)):
            yield removal(path, f"no spec makes it ({origin} {'has no such kernel' if origin in names else 'is gone'})")
        else:
            remaining[path.name] = path
    if LAUNCH_HEADER not in known and LAUNCH_HEADER in remaining and not _is_included(remaining):
        path = remaining[LAUNCH_HEADER]
        if is_stamped(path.read_text(errors="replace")):
            yield removal(path, "no kernel in the folder includes it")


def _is_included(files: Mapping[str, Path]) -> bool:
    """Whether some of these files, by name, are a manifest and a header that includes cugen_launch.hpp."""
    return any(
        bool(_manifest(path).get("typed_header_hash"))
        for path in files.values()
        if path.suffix == ".json" and (f"{path.stem}.hpp" in files or f"{path.stem}_embed.hpp" in files)
    )


def _manifest(path: Path) -> dict[str, Any]:
    """Content of a manifest; empty for other files."""
    try:
        content = json.loads(path.read_bytes())
        return content if "input_hash" in content else {}
    except (ValueError, TypeError):
        return {}


def _origin(path: Path) -> str:
    """Name of the spec file of a generated file; empty for other files."""
    if path.suffix == ".json":
        return str(_manifest(path).get("spec_file", ""))
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES).decode(errors="replace")
    match = _ORIGIN.search(unwrapped(head))
    return match[1] if match else ""
