"""Resolution of plain scalars by the YAML 1.2 core schema: `no`, `16:16` and `1_000` are text, `010` is ten."""

from __future__ import annotations

import re

PlainValue = None | bool | int | float | str

_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)")
_WORDS: dict[str, PlainValue] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
# Longer than any number in a spec, and below the length from which Python refuses the conversion (4300 digits).
_MAX_NUMBER_CHARACTERS = 400


def resolve(text: str) -> PlainValue:
    """The value of an unquoted scalar: null, bool, int, float, or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) > _MAX_NUMBER_CHARACTERS:
        return text
    if _DECIMAL.fullmatch(text):
        return int(text)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEXADECIMAL.fullmatch(text):
        return int(text[2:], 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INFINITE.fullmatch(text):
        return float(text.lower().replace(".", ""))
    return text
