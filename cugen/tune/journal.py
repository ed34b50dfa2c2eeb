"""What was timed, line by line as it happens, so that a search goes on where it was ended."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from cugen.schedule.lock import spec_key
from cugen.spec.model import Spec
from cugen.toolchain.cache import folder
from cugen.tune.timing.gpus import Gpu

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Record:
    """One candidate, known by its code: microseconds, or why there are none. `stopped` after a few samples. `schedule`
    is for people; records of earlier versions have none."""

    code: str
    cold: float = 0.0
    warm: float = 0.0
    same_bits: bool = True
    stopped: bool = False
    failed: str = ""
    schedule: str = ""


class Journal:
    """The records of one spec on one device."""

    def __init__(self, path: Path, *, resume: bool = True) -> None:
        self.path = path
        self.records: dict[str, Record] = {}
        if resume and path.exists():
            self._read(path.read_text(errors="replace"))
        elif path.exists():
            path.unlink()

    def add(self, record: Record) -> None:
        """Written at once."""
        self.records[record.code] = record
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")

    def _read(self, text: str) -> None:
        for line in text.splitlines():
            try:
                record = Record(**json.loads(line))
            except (ValueError, TypeError):  # the last line of a search that was killed
                continue
            self.records[record.code] = record
        if text and not text.endswith("\n"):
            with self.path.open("a") as file:
                file.write("\n")


def journal_path(spec: Spec, gpu: Gpu, params: Mapping[str, int]) -> Path:
    """In the cache, one for all that makes times comparable."""
    parts = json.dumps([_FORMAT, spec_key(spec), gpu.name, gpu.capability, sorted(params.items())])
    digest = hashlib.sha256(parts.encode()).hexdigest()[:16]
    device = re.sub(r"\W+", "-", gpu.name)
    return folder() / "tune" / f"{spec.kernel}-{device}-{digest}.jsonl"
