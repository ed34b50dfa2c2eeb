"""Allocation of C identifiers: the user's names where C allows them, else with an underscore or a number."""

from __future__ import annotations

import re
from functools import lru_cache

from cugen.spec import c_names

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ORIGIN = re.compile(r"(?<=.)0_?$|(?:^|_)first(?:_|$)|^(?:prefetch|prologue)_k$|^warp_[mn]$")


def is_origin(name: str) -> bool:
    """Whether the name is that of the origin of a tile or a vector, such as `k0`, `next_first` or `warp_m`, which is
    the first term of a sum."""
    return _ORIGIN.search(name) is not None


@lru_cache(maxsize=4096)  # one file is planned several times, with the same names
def _identifier(name_hint: str) -> tuple[str, bool]:
    """`name_hint` as a C identifier, and whether C, its headers or cugen reserve that."""
    base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in name_hint) or "v"
    if not _IDENTIFIER.fullmatch(base) or base.startswith("__") or re.match(r"_[A-Z]", base):
        base = "v" + base
    return base, c_names.is_taken(base)


class Names:
    """Allocates names that are unique in their scope and its parents, and no C keywords."""

    def __init__(self, parent: Names | None = None) -> None:
        self._parent = parent
        self._taken: dict[str, None] = {}
        self._inside: dict[str, None] = {}  # names of scopes in this one that have ended

    def end(self, inner: Names) -> None:
        """Ends a scope in this one; scopes after it may have its names again."""
        self._inside |= inner._taken | inner._inside

    def declare_in(self, outer: Names) -> None:
        """The next name is declared in a scope round this one: takes none that a scope in that has had."""
        scope: Names | None = self
        while scope is not None:
            self._taken |= scope._inside
            scope = None if scope is outer else scope._parent

    def _is_taken(self, name: str) -> bool:
        return name in self._taken or (self._parent is not None and self._parent._is_taken(name))

    def allocate(self, name_hint: str) -> str:
        """`name_hint` itself if it is free, else followed by an underscore or the first free number."""
        base, is_reserved = _identifier(name_hint)
        is_hidden = self._parent is not None and c_names.may_be_hidden(base)
        candidates = [base] if is_hidden or not is_reserved else []
        candidates.append(base + "_")
        name = next((c for c in candidates if not self._is_taken(c)), "")
        number = 2
        while not name or self._is_taken(name):
            name = f"{base}_{number}"
            number += 1
        self._taken[name] = None
        return name
