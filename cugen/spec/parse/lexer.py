"""Tokens of the expression language."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cugen.spec.diagnostics import Reporter
from cugen.spec.parse.syntax import Text

KEYWORDS = ("and", "or", "not", "if", "else")

# Longest first, so that `<=` is never read as `<` and `=`.
_SYMBOL = re.compile(r"\*\*|//|<<|>>|<=|>=|==|!=|\+=|[-+*/%<>=()\[\],&|^~]")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BLANK = re.compile(r"[ \t\r\u00a0]+|#[^\n]*")
# An integer of more digits fits no type; the limit also keeps conversion from taking long.
_MAX_DIGITS = 40

# What people write out of habit, and what the language has instead.
_FOREIGN = {
    "&&": "write `and`",
    "||": "write `or`",
    "!": "write `not`",
    "?": "write `a if condition else b`, or `where(condition, a, b)`",
    ":=": "write `=`",
    "++": "write `+= 1`",
    "->": "write `OUT[i, j] = expression`",
    "-=": "write `+= -(expression)`",
    "*=": "write `x[i] = x[i] * expression`",
    "/=": "write `x[i] = x[i] / expression`",
    "===": "write `==`",
    "<>": "write `!=`",
    "@": "write the product with its indices: `sum(A[m, k] * B[k, n], k)`",
    "·": "write `*`",
    "×": "write `*`",
    "−": "write `-` (this is a typographic minus)",
    "–": "write `-` (this is a dash)",
    "÷": "write `/`",
    "≤": "write `<=`",
    "≥": "write `>=`",
    "≠": "write `!=`",
    "²": "write `** 2`",
    ";": "write one statement a line",
    "{": "group with `(` and `)`",
    "}": "group with `(` and `)`",
    "$": "`$name` stands for a variant; is it declared under `variants`?",
    "\\": "an open bracket continues on the next line; no `\\` is needed",
    "'": "an expression has no text in it; write names without quotes",
    '"': "an expression has no text in it; write names without quotes",
    ".": "write `f(x)` for a function of `x`; names have no dots",
    ":": "name an index instead of a slice: `A[i, j]`",
}


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is number, name, symbol, newline or end; `start` and `end` are offsets into the text. A keyword and a
    symbol carry their own spelling in `kind`'s place, so that the parser compares one field."""

    kind: str
    text: str
    start: int
    end: int
    value: int | float = 0


def tokenize(text: Text, report: Reporter) -> list[Token] | None:
    """The tokens of a text, line breaks included; None where a character or number was refused (all are reported)."""
    source = text.value
    tokens: list[Token] = []
    failed = False
    at = 0
    while at < len(source):
        blank = _BLANK.match(source, at)
        if blank:
            at = blank.end()
        elif source[at] == "\n":
            tokens.append(Token("newline", "\n", at, at + 1))
            at += 1
        elif word := _WORD.match(source, at):
            kind = word[0] if word[0] in KEYWORDS else "name"
            tokens.append(Token(kind, word[0], at, word.end()))
            at = word.end()
        elif number := _NUMBER.match(source, at):
            token = _number(text, number[0], at, report)
            failed = failed or token is None
            tokens += [token] if token else []
            at = number.end()
            if token is not None and (tail := _WORD.match(source, at)):
                failed = True
                _bad_number(text, source[token.start : tail.end()], token.start, report)
                at = tail.end()
        elif symbol := _symbol(source, at):
            tokens.append(Token(symbol, symbol, at, at + len(symbol)))
            at += len(symbol)
        else:
            failed = True
            at = _refuse(text, at, report)
    tokens.append(Token("end", "", len(source), len(source)))
    return None if failed else tokens


def _symbol(source: str, at: int) -> str | None:
    # `-=` and `*=` would otherwise be read as an operator before a stray `=`.
    if source[at : at + 2] in _FOREIGN or source.startswith("===", at) or source.startswith("<>", at):
        return None
    match = _SYMBOL.match(source, at)
    return match[0] if match else None


def _refuse(text: Text, at: int, report: Reporter) -> int:
    """Report what stands at `at`; the offset after it."""
    length = next((n for n in (3, 2, 1) if text.value[at : at + n] in _FOREIGN), 0)
    if length:
        spelling = text.value[at : at + length]
        report.error(
            "CG1109",
            f"`{spelling}` isn't part of the expression language",
            text.span(at, at + length),
            label="here",
            help=_FOREIGN[spelling],
        )
        return at + length
    report.error(
        "CG1101",
        f"the character {text.value[at]!r} has no meaning in an expression",
        text.span(at, at + 1),
        label="here",
        help="remove it; names are made of the letters a to z, digits and `_`",
    )
    return at + 1


def _number(text: Text, spelling: str, at: int, report: Reporter) -> Token | None:
    end = at + len(spelling)
    digits = spelling.replace("_", "")
    if spelling.endswith("_") or "__" in spelling:
        _bad_number(text, spelling, at, report)
        return None
    value: int | float
    if digits[:2] in ("0x", "0X"):
        value = int(digits, 16) if len(digits) <= _MAX_DIGITS else float("inf")
    elif digits.isascii() and digits.isdigit():
        value = int(digits) if len(digits) <= _MAX_DIGITS else float("inf")
    else:
        value = float(digits)
    if value == float("inf"):
        report.error(
            "CG1102",
            "the number is too large for any type",
            text.span(at, end),
            label="here",
            help="write `inf` for infinity",
        )
        return None
    return Token("number", spelling, at, end, value)


def _bad_number(text: Text, spelling: str, at: int, report: Reporter) -> None:
    report.error(
        "CG1102",
        f"`{spelling}` isn't a number",
        text.span(at, at + len(spelling)),
        label="here",
        help="numbers look like `12`, `1_000`, `0xff`, `0.5` or `1e-3`; a product needs its `*`",
    )
