"""Journal of timed candidates, one JSON line each, from which an interrupted search resumes."""

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
    """Result of one candidate, identified by the digest of its code: times in microseconds, or the reason of a failure.

    stopped: given up after a few samples. schedule: for human readers; absent in records of earlier versions."""

    code: str
    cold: float = 0.0
    warm: float = 0.0
    same_bits: bool = True
    stopped: bool = False
    failed: str = ""
    schedule: str = ""


class Journal:
    """Records of one spec on one device."""

    def __init__(self, path: Path, *, resume: bool = True) -> None:
        self.path = path
        self.records: dict[str, Record] = {}
        if resume and path.exists():
            self._read(path.read_text(errors="replace"))
        elif path.exists():
            path.unlink()

    def add(self, record: Record) -> None:
        """Adds a record and writes it immediately."""
        self.records[record.code] = record
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")

    def _read(self, text: str) -> None:
        for line in text.splitlines():
            try:
                record = Record(**json.loads(line))
            except (ValueError, TypeError):  # the truncated last line of a killed search
                continue
            self.records[record.code] = record
        if text and not text.endswith("\n"):
            with self.path.open("a") as file:
                file.write("\n")


def journal_path(spec: Spec, gpu: Gpu, params: Mapping[str, int]) -> Path:
    """Path in the cache, one for each set of conditions under which times are comparable."""
    parts = json.dumps([_FORMAT, spec_key(spec), gpu.name, gpu.capability, sorted(params.items())])
    digest = hashlib.sha256(parts.encode()).hexdigest()[:16]
    device = re.sub(r"\W+", "-", gpu.name)
    return folder() / "tune" / f"{spec.kernel}-{device}-{digest}.jsonl"
