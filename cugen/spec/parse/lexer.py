"""Lexer of the expression language."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cugen.spec.diagnostics import Reporter
from cugen.spec.parse import idioms
from cugen.spec.parse.syntax import Text

KEYWORDS = ("and", "or", "not", "if", "else")

# Longest match first: `<=` is one token, not `<` and `=`.
_SYMBOL = re.compile(r"\*\*|//|<<|>>|<=|>=|==|!=|\+=|[-+*/%<>=()\[\],&|^~]")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|(?:[0-9][0-9_]*(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WHITESPACE = re.compile(r"[ \t\r\u00a0]+|#[^\n]*")
_NUMBER_HELP = "numbers look like `12`, `1_000`, `0xff`, `0.5` or `1e-3`; a multiplication needs its `*`"
_MAX_DIGITS = 40  # of an integer literal; longer ones fit no type, and conversion is quadratic


@dataclass(frozen=True, slots=True)
class Token:
    """A token. `kind` is number, name, newline or end, and for a keyword or symbol its spelling; `start` and `end` are
    offsets into the text."""

    kind: str
    text: str
    start: int
    end: int
    value: int | float = 0


def tokenize(text: Text, report: Reporter) -> list[Token] | None:
    """The tokens of a text, including line breaks; None after reporting all invalid characters and numbers."""
    source = text.value
    tokens: list[Token] = []
    failed = False
    open_conditionals = 0  # `?` of C without their `:` so far
    offset = 0
    while offset < len(source):
        whitespace = _WHITESPACE.match(source, offset)
        if whitespace:
            offset = whitespace.end()
        elif source[offset] == "\n":
            tokens.append(Token("newline", "\n", offset, offset + 1))
            offset += 1
        elif not tokens and (head := idioms.head(source, offset)):
            _report_idiom(text, offset, *head, report)
            return None
        elif word := _WORD.match(source, offset):
            if idiom := idioms.word(source, offset):
                failed = True
                _report_idiom(text, offset, *idiom, report)
                offset += len(idiom[0])
                continue
            kind = word[0] if word[0] in KEYWORDS else "name"
            tokens.append(Token(kind, word[0], offset, word.end()))
            offset = word.end()
        elif number := _NUMBER.match(source, offset):
            token = _number(text, number[0], offset, report)
            failed = failed or token is None
            tokens += [token] if token else []
            offset = number.end()
            if token is not None and (tail := _WORD.match(source, offset)):
                failed = True
                is_suffix = idioms.NUMBER_SUFFIX.fullmatch(tail[0])
                help = f"numbers have no suffix, and take the type of what is beside them: `{number[0]}`"
                spelling = source[token.start : tail.end()]
                _report_number(text, spelling, token.start, report, help if is_suffix else _NUMBER_HELP)
                offset = tail.end()
        elif symbol := _symbol(source, offset):
            tokens.append(Token(symbol, symbol, offset, offset + len(symbol)))
            offset += len(symbol)
        elif source[offset] == ":" and open_conditionals:
            open_conditionals -= 1
            offset += 1
        else:
            failed = True
            open_conditionals += source[offset] == "?"
            offset = _reject(text, offset, report)
    tokens.append(Token("end", "", len(source), len(source)))
    return None if failed else tokens


def _symbol(source: str, offset: int) -> str | None:
    # Otherwise `-=` and `*=` would be an operator followed by `=`.
    if (
        source[offset : offset + 2] in idioms.OPERATORS
        or source.startswith("===", offset)
        or source.startswith("<>", offset)
    ):
        return None
    match = _SYMBOL.match(source, offset)
    return match[0] if match else None


def _reject(text: Text, offset: int, report: Reporter) -> int:
    """Reports an invalid character or foreign operator; returns the offset after it."""
    length = next((n for n in (3, 2, 1) if text.value[offset : offset + n] in idioms.OPERATORS), 0)
    if length:
        operator = text.value[offset : offset + length]
        spelling, help = (
            idioms.attribute(text.value, offset) if operator == "." else (operator, idioms.OPERATORS[operator])
        )
        _report_idiom(text, offset, spelling, help, report)
        return offset + len(spelling)
    report.error(
        "CG1101",
        f"the character {text.value[offset]!r} isn't allowed in an expression",
        text.span(offset, offset + 1),
        label="here",
        help="remove it; names are made of the letters a to z, digits and `_`",
    )
    return offset + 1


def _report_idiom(text: Text, offset: int, spelling: str, help: str, report: Reporter) -> None:
    report.error(
        "CG1109",
        f"`{spelling}` isn't part of the expression language",
        text.span(offset, offset + len(spelling)),
        label="here",
        help=help,
    )


def _number(text: Text, spelling: str, offset: int, report: Reporter) -> Token | None:
    end = offset + len(spelling)
    digits = spelling.replace("_", "")
    if spelling.endswith("_") or "__" in spelling:
        _report_number(text, spelling, offset, report)
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
            text.span(offset, end),
            label="here",
            help="write `inf` for infinity",
        )
        return None
    return Token("number", spelling, offset, end, value)


def _report_number(text: Text, spelling: str, offset: int, report: Reporter, help: str = _NUMBER_HELP) -> None:
    report.error(
        "CG1102",
        f"`{spelling}` isn't a number",
        text.span(offset, offset + len(spelling)),
        label="here",
        help=help,
    )
