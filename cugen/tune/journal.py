"""Journal of timed candidates, one JSON line each, from which an interrupted search resumes.

Its first line says under which conditions the times were taken. The file is only appended to. Several searches, on
several machines with one file system, may share it: each reads what the others have added, and a candidate is claimed
in a second file before it is timed. A claim ends with its record, with the process that made it, or, where that can't
be seen, after `_CLAIM_S`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from time import monotonic

from cugen import temporary
from cugen.emit.files import locked
from cugen.schedule.lock import spec_key
from cugen.spec.model import Spec
from cugen.toolchain.cache import discard, folder, warn_damaged, warn_unwritable
from cugen.tune.timing.gpus import Gpu

_FORMAT = 1
_CONDITIONS = "times of"  # key of the first line
_CLAIM_S = 300.0  # seconds without a record until a claim of another machine counts as abandoned (heuristic)


@dataclass(frozen=True, slots=True)
class Record:
    """Result of one candidate, identified by the digest of its code: times in microseconds, or the reason of a failure.

    stopped: given up after a few samples. schedule, gpu: for human readers; absent in records of earlier versions."""

    code: str
    cold: float = 0.0
    warm: float = 0.0
    same_bits: bool = True
    stopped: bool = False
    failed: str = ""
    schedule: str = ""
    gpu: str = ""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions under which times are comparable: the spec by its key, and the device."""

    kernel: str
    spec: str
    target: str
    device: str
    capability: str
    params: tuple[tuple[str, int], ...] = ()

    @property
    def line(self) -> str:
        """The first line of a journal."""
        return json.dumps({_CONDITIONS: asdict(self)}, ensure_ascii=False)

    @property
    def path(self) -> Path:
        """Path of the journal in the cache."""
        parts = json.dumps([_FORMAT, self.spec, self.device, self.capability, self.params])
        digest = hashlib.sha256(parts.encode()).hexdigest()[:16]
        device = re.sub(r"\W+", "-", self.device)
        return _folder() / f"{self.kernel}-{device}-{digest}.jsonl"


class Journal:
    """Records of one spec on one device. `conditions` are written into a journal that doesn't have them."""

    def __init__(self, path: Path, *, resume: bool = True, conditions: Conditions | None = None) -> None:
        self.path = path
        self._conditions = conditions
        self.records: dict[str, Record] = {}
        self._read_bytes = 0
        self._claims = path.with_suffix(".claims")
        self._owner = f"{temporary.owner()}{secrets.token_hex(8)}"
        self._first_seen: dict[str, float] = {}  # claims of others, with the time
        try:
            with locked(path.parent):
                if resume:
                    self._read()
                else:
                    path.unlink(missing_ok=True)
                    self._claims.unlink(missing_ok=True)
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
            with locked(self.path.parent):
                if self._conditions is not None and conditions_of(self.path) is None:
                    _append(self.path, self._conditions.line)
                _append(self.path, json.dumps(asdict(record), ensure_ascii=False))
        except OSError as error:
            warn_unwritable(error)

    def claim(self, code: str) -> bool:
        """Claims a candidate, so that no other search times it meanwhile. False if another search has claimed it, or
        has timed it since, which is then among `records`."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with locked(self.path.parent):
                self._read_new()
                if code in self.records or self._is_claimed(code):
                    return False
                _append(self._claims, json.dumps({"code": code, "owner": self._owner}))
        except OSError as error:
            warn_unwritable(error)
        return True

    def release(self) -> None:
        """Ends all claims of this search."""
        if self._claims.exists():
            with suppress(OSError), locked(self.path.parent):
                _append(self._claims, json.dumps({"ended": self._owner}))

    def _is_claimed(self, code: str) -> bool:
        """Whether the last claim of a candidate is another search's, and alive."""
        owner = _claims_of(self._claims).get(code, self._owner)
        if owner == self._owner:
            return False
        if (living := temporary.is_living(owner)) is not None:
            return living
        first_seen = self._first_seen.setdefault(f"{owner} {code}", monotonic())
        return monotonic() - first_seen < _CLAIM_S

    def _read_new(self) -> None:
        """Reads the records that others have added."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read_bytes)
            added = file.read()
        whole = added[: added.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        for line in whole.decode(errors="replace").split("\n"):
            if record := _record(line):
                self.records.setdefault(record.code, record)

    def _read(self) -> None:
        content = self.path.read_bytes()
        self._read_bytes = len(content)
        *lines, unfinished = content.decode(errors="replace").split("\n")
        for line in lines:
            if record := _record(line):
                self.records[record.code] = record
            elif not line.startswith("{"):  # neither a record nor the start of one, of a killed search
                warn_damaged()
        if unfinished:
            with self.path.open("ab") as file:
                file.write(b"\n")


def _append(path: Path, line: str) -> None:
    """Adds a line in one write. A line that a killed process left unfinished is ended first."""
    with path.open("a+b") as file:
        if file.tell() and os.pread(file.fileno(), 1, file.tell() - 1) != b"\n":
            line = f"\n{line}"
        file.write(line.encode() + b"\n")


def _claims_of(path: Path) -> Mapping[str, str]:
    """Who made the last claim of each candidate, if that search hasn't ended."""
    owners: dict[str, str] = {}
    ended: set[str] = set()
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return owners
    for line in lines:
        try:
            claim = json.loads(line)
            if "ended" in claim:
                ended.add(claim["ended"])
            else:
                owners[claim["code"]] = claim["owner"]
        except (ValueError, TypeError, KeyError):  # the unfinished line of a killed search
            continue
    return {code: owner for code, owner in owners.items() if owner not in ended}


def _record(line: str) -> Record | None:
    """The record of a line; None for other text."""
    try:
        record = Record(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return None
    types: dict[str, type | tuple[type, ...]] = {"str": str, "float": (float, int), "bool": bool}
    is_valid = all(isinstance(getattr(record, field.name), types[str(field.type)]) for field in fields(record))
    return record if is_valid else None


def conditions(spec: Spec, gpu: Gpu, params: Mapping[str, int]) -> Conditions:
    """The conditions of a search."""
    return Conditions(spec.kernel, spec_key(spec), spec.target, gpu.name, gpu.capability, tuple(sorted(params.items())))


def conditions_of(path: Path) -> Conditions | None:
    """The conditions that a journal states; None for one of an earlier version, or that can't be read."""
    try:
        with path.open(errors="replace") as file:
            for line in file:
                if _CONDITIONS in line and (stated := _stated(line)) is not None:
                    return stated
    except OSError:
        pass
    return None


def journals(kernel: str) -> Iterator[tuple[Conditions, Mapping[str, Record]]]:
    """The journals of kernels of this name in the cache that state their conditions, with their records."""
    for path in sorted(_folder().glob(f"{kernel}-*.jsonl")):
        stated = conditions_of(path)
        if stated is not None and stated.kernel == kernel:
            yield stated, Journal(path).records


def _stated(line: str) -> Conditions | None:
    try:
        content = json.loads(line)[_CONDITIONS]
        return Conditions(**{**content, "params": tuple((name, value) for name, value in content["params"])})
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _folder() -> Path:
    return folder() / "tune"
