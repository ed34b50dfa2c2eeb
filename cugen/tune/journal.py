"""Journal of timed candidates, one JSON line each, from which an interrupted search resumes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from cugen.schedule.lock import spec_key
from cugen.spec.model import Spec
from cugen.toolchain.cache import discard, folder, warn_damaged, warn_unwritable
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
        try:
            if resume:
                self._read()
            else:
                path.unlink(missing_ok=True)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:  # unreadable, or no file
            with suppress(OSError):  # `add` says so
                discard(path)

    def add(self, record: Record) -> None:
        """Adds a record and writes it immediately, if the cache can be written."""
        self.records[record.code] = record
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")
        except OSError as error:
            warn_unwritable(error)

    def _read(self) -> None:
        text = self.path.read_text(errors="replace")
        *lines, unfinished = text.split("\n")
        for line in lines:
            if record := _record(line):
                self.records[record.code] = record
            elif not line.startswith("{"):  # neither a record nor the start of one, of a killed search
                warn_damaged()
        if unfinished:
            with self.path.open("a") as file:
                file.write("\n")


def _record(line: str) -> Record | None:
    """The record of a line; None for other text."""
    try:
        record = Record(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None
    types: dict[str, type | tuple[type, ...]] = {"str": str, "float": (float, int), "bool": bool}
    is_valid = all(isinstance(getattr(record, field.name), types[str(field.type)]) for field in fields(record))
    return record if is_valid else None


def journal_path(spec: Spec, gpu: Gpu, params: Mapping[str, int]) -> Path:
    """Path in the cache, one for each set of conditions under which times are comparable."""
    parts = json.dumps([_FORMAT, spec_key(spec), gpu.name, gpu.capability, sorted(params.items())])
    digest = hashlib.sha256(parts.encode()).hexdigest()[:16]
    device = re.sub(r"\W+", "-", gpu.name)
    return folder() / "tune" / f"{spec.kernel}-{device}-{digest}.jsonl"
