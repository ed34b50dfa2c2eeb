"""Diagnostics of specs for which no host program can be written; a code is never reused."""

from __future__ import annotations

NO_SIZE = "CG2401"
NOT_SPLIT = "CG2402"

CODES: dict[str, str] = {
    NO_SIZE: "A host program for a param without a value",
    NOT_SPLIT: "Work that can't be split over streams",
}
