"""Valid names of kernels and of declared entities."""

from __future__ import annotations

import re

from cugen.spec import c_names
from cugen.spec.parse.keys import MAX_NAME

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


# Reserved names of the expression language. Functions are recognised only in calls and types only in casts, so their
# names aren't reserved.
CONSTANTS = ("inf", "nan", "pi", "true", "false")
KEYWORDS = ("and", "or", "not", "if", "else")
RESERVED = frozenset((*CONSTANTS, *KEYWORDS))


def kernel_name_problem(name: str) -> tuple[str, str] | None:
    """The problem with a kernel's name and its fix; None for a valid name."""
    if not _IDENTIFIER.fullmatch(name):
        suggestion = _suggestion(name)
        return "it isn't a C identifier", f"use letters, digits and underscores only, such as `{suggestion}`"
    if name.startswith("_") or "__" in name:
        return (
            "names with a leading or a double underscore are reserved in C and C++",
            f"call it `{_suggestion(name)}`",
        )
    if name in c_names.KEYWORDS:
        return "it is a keyword of C or C++", f"call it `{name}_kernel`"
    if c_names.is_in_headers(name):
        return "CUDA or the C library declares this name", f"call it `{name}_kernel`"
    if c_names.is_taken(name):
        return "generated files declare this name", f"call it `{name}_kernel`"
    if len(name) > MAX_NAME:
        return f"it has {len(name)} characters; at most {MAX_NAME} are allowed", "shorten it"
    return None


def _suggestion(name: str, prefix: str = "kernel") -> str:
    cleaned = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_]", "_", name)).strip("_")[:40]
    return cleaned if _IDENTIFIER.fullmatch(cleaned) else f"{prefix}_{cleaned}".rstrip("_")


def name_problem(name: str) -> tuple[str, str] | None:
    """The problem with the name of a param, scalar, array, index or variant, and its fix; None for a valid name."""
    if not _IDENTIFIER.fullmatch(name):
        return "a name is made of letters, digits and underscores", f"call it `{_suggestion(name, 'x')}`"
    if name in RESERVED:
        return "the expression language reserves this name", f"call it `{name}_`"
    if len(name) > MAX_NAME:
        return f"it has {len(name)} characters; at most {MAX_NAME} are allowed", "shorten it"
    return None
