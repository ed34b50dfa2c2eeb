"""Findings as SARIF 2.1.0, for code scanning services and editors.

Standard: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html. Locations are lines of
the spec; the line of the generated source is a related location, with its text.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cugen.cli.checked import Outcome
from cugen.cli.text.check_github import details, relative_path
from cugen.spec.diagnostics import Diagnostic
from cugen.spec.expressions import Span
from cugen.version import __version__

Content = dict[str, Any]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "%SRCROOT%"  # replaced by consumers with the root folder of the repository
_PAGES = Path(__file__).resolve().parents[2] / "explain"
_FINGERPRINT = "cugenFinding/v1"


def sarif_text(outcome: Outcome) -> str:
    """SARIF log with one run."""
    named = [(finding, f"{finding.file}\0{finding.key}") for finding in outcome.refused]
    for checked in outcome.kernels:
        named += [(finding.diagnostic, f"{finding.kernel}\0{finding.subject}") for finding in checked.findings]
    used = sorted({finding.code for finding, _ in named})
    seen: dict[str, int] = {}
    results = []
    for finding, subject in named:
        identity = f"{finding.code}\0{subject}"
        seen[identity] = seen.get(identity, 0) + 1
        fingerprint = hashlib.sha256(f"{identity}\0{seen[identity]}".encode()).hexdigest()
        results.append(_result(finding, used.index(finding.code), fingerprint))
    run = {
        "tool": {"driver": {"name": "cugen", "semanticVersion": __version__, "rules": [_rule(code) for code in used]}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _rule(code: str) -> Content:
    page = (_PAGES / f"{code}.md").read_text(encoding="utf-8")
    heading, _, body = page.partition("\n")
    first = " ".join(body.strip().split("\n\n")[0].split())
    return {
        "id": code,
        "shortDescription": {"text": heading.partition(": ")[2]},
        "fullDescription": {"text": first},
        "help": {"text": page, "markdown": page},
    }


def _result(finding: Diagnostic, rule: int, fingerprint: str) -> Content:
    result: Content = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": finding.severity,
        "message": {"text": details(finding)},
        "locations": [{"physicalLocation": _location(finding.file, finding.span, finding.source_line)}],
        "partialFingerprints": {_FINGERPRINT: fingerprint},
    }
    if finding.related:
        result["relatedLocations"] = [
            {
                "id": number,
                "physicalLocation": _location(related.file, related.span, related.source_line),
                "message": {"text": related.message},
            }
            for number, related in enumerate(finding.related, 1)
        ]
    return result


def _location(file: str, span: Span, line: str) -> Content:
    location: Content = {"artifactLocation": {"uri": quote(relative_path(file)), "uriBaseId": _ROOT}}
    if span.line:
        location["region"] = {
            "startLine": span.line,
            "startColumn": span.column,
            "endLine": span.end_line,
            "endColumn": span.end_column,
            "snippet": {"text": line},
        }
    return location
