"""Tokens of CUDA C by kind, and its lines as HTML with a span for each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup, escape

_KEYWORDS = (
    "__global__ __device__ __shared__ __constant__ __restrict__ __launch_bounds__ __align__ __syncthreads "
    "auto bool break case char class const constexpr continue double else enum extern float for half if inline int "
    "int8_t int16_t int32_t int64_t long namespace return short signed size_t static static_cast struct template "
    "typename uint8_t uint16_t uint32_t uint64_t unsigned using void volatile while"
)
_TOKEN = re.compile(
    rf"(?P<comment>//.*|/\*.*?(?:\*/|$))|(?P<directive>^\s*#.*)|(?P<text>\"[^\"]*\")"
    rf"|(?P<keyword>\b(?:{'|'.join(_KEYWORDS.split())})\b)"
)


def highlighted(source: str) -> tuple[Markup, ...]:
    """The lines of a source as HTML."""
    return tuple(Markup("").join(_span(kind, text) for kind, text in line) for line in tokens(source))


def tokens(source: str) -> Iterator[tuple[tuple[str, str], ...]]:
    """The lines of a source, each as pairs of a kind and a text: comment, directive, text, keyword, or "" for all else.
    A block comment may span several lines."""
    inside = False
    for line in source.splitlines():
        head, tail = "", line
        if inside:
            head, end, tail = line.partition("*/")
            head, inside = head + end, not end
        if not inside:
            inside = "/*" in tail.partition("//")[0] and "*/" not in tail.partition("/*")[2]
        yield (("comment", head), *_tokens(tail))


def _tokens(line: str) -> Iterator[tuple[str, str]]:
    position = 0
    for token in _TOKEN.finditer(line):
        yield "", line[position : token.start()]
        yield token.lastgroup or "", token[0]
        position = token.end()
    yield "", line[position:]


def _span(kind: str, text: str) -> Markup:
    return Markup('<span class="{}">{}</span>').format(kind[0], text) if kind and text else escape(text)
