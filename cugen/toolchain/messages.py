"""Parser of compiler output: nvcc, NVRTC, ptxas, g++ and clang++."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SEVERITY = r"(?P<severity>(?:catastrophic |fatal )?error|warning)"
_FORMS = (
    re.compile(rf"^(?P<file>[^\s()]+)\((?P<line>\d+)\): {_SEVERITY}(?: #[\w-]+)?: (?P<text>.*)$"),  # EDG
    re.compile(rf"^(?P<file>[^\s:]+):(?P<line>\d+):(?:\d+:)? {_SEVERITY}: (?P<text>.*)$"),  # g++, clang++
    re.compile(r"^ptxas (?P<file>[^,]+), line (?P<line>\d+); (?P<severity>error|warning) *: (?P<text>.*)$"),
    re.compile(r"^(?:ptxas|nvcc|nvrtc|nvlink):? *(?P<severity>fatal|error|warning) *: (?P<text>.*)$"),
)
_DEPRECATED_TARGET = re.compile(r"[Aa]rchitectures prior to '<compute/sm")
_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '")
_SERIALISED = re.compile(
    r"\((?P<code>C75\d\d)\) [^:]*: wgmma\.mma_async instructions are serialized (?P<why>due to .*?)"
    r" in (?:the )?function '(?P<kernel>[^']+)'"
)
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")


@dataclass(frozen=True, slots=True)
class Message:
    """One error or warning. `line` is 0 where the compiler gave none; `severity` is `error` or `warning`."""

    severity: str
    text: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Spills:
    """Bytes of register spills per thread."""

    stores: int
    loads: int


def parse(output: str) -> tuple[Message, ...]:
    """Errors and warnings in a compiler's output, in order."""
    parsed = []
    for line in output.splitlines():
        for form in _FORMS:
            if match := form.match(line):
                parts = match.groupdict()
                severity = "warning" if parts["severity"] == "warning" else "error"
                number = int(parts.get("line") or 0)
                parsed.append(Message(severity, parts["text"].strip(), parts.get("file") or "", number))
                break
    return tuple(parsed)


def warnings(output: str) -> tuple[Message, ...]:
    """Warnings about the code; that a target is deprecated is none."""
    about_code = (message for message in parse(output) if not _DEPRECATED_TARGET.search(message.text))
    return tuple(message for message in about_code if message.severity == "warning")


def errors(output: str) -> tuple[Message, ...]:
    return tuple(message for message in parse(output) if message.severity == "error")


def serialised_wgmmas(log: str) -> dict[str, str]:
    """Kernels whose wgmmas ptxas serialises, each waiting for the one before, with its code and reason: `C7510, due
    to …`. ptxas notes it as information."""
    found = (match for line in log.splitlines() if (match := _SERIALISED.search(line)))
    return {match["kernel"]: f"{match['code']}, {match['why']}" for match in found}


def spills(log: str) -> dict[str, Spills]:
    """Spills of each kernel, from the output of `ptxas -v`."""
    by_kernel: dict[str, Spills] = {}
    kernel = ""
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            kernel = entry.group(1)
        elif kernel and kernel not in by_kernel and (figures := _SPILLS.search(line)):
            by_kernel[kernel] = Spills(int(figures.group(2)), int(figures.group(3)))
    return by_kernel
