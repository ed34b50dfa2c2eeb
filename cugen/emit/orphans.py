"""Generated files that outlived what they were made from: the spec is gone, or it no longer has that kernel.

A generated file names its spec's file, without a folder. So a spec is looked for where the specs of this call are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from cugen.emit.files import SUFFIXES, Difference, removal

_HEAD_BYTES = 1 << 14
_ORIGIN = re.compile(r"^// Made by cugen \S+ from (.+?) (?:\(hash [0-9a-f]+\) )?for \S+\. Edit the spec", re.MULTILINE)


def orphans(folder: Path, made: Collection[Path], specs: Collection[Path]) -> Iterator[Difference]:
    """Files in `folder` that were generated and are none of `made`, which is all that `specs` give, unless they are of
    another spec that exists beside those."""
    if not folder.is_dir():
        return
    names = {spec.name for spec in specs}
    places = dict.fromkeys(spec.parent for spec in specs)
    known = {path.name for path in made}
    for path in sorted(folder.iterdir()):
        if path.suffix not in SUFFIXES or path.name in known or not path.is_file():
            continue
        origin = _origin(path)
        if origin and (origin in names or not any((place / origin).exists() for place in places)):
            yield removal(path, f"no spec makes it ({origin} {'has no such kernel' if origin in names else 'is gone'})")


def _origin(path: Path) -> str:
    """The name of the spec's file that a generated file was made from; empty for other files."""
    if path.suffix == ".json":
        try:
            manifest = json.loads(path.read_bytes())
            return str(manifest["spec_file"]) if "input_hash" in manifest else ""
        except (ValueError, KeyError, TypeError):
            return ""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES).decode(errors="replace")
    found = _ORIGIN.search(head)
    return found[1] if found else ""
