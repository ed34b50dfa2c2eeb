"""Lines of CUDA C as HTML, with spans for comments, keywords and numbers."""

from __future__ import annotations

import re

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
    """The lines of a source; a block comment may span several."""
    lines = []
    inside = False
    for line in source.splitlines():
        if inside:
            head, end, tail = line.partition("*/")
            inside = not end
            lines.append(_span("comment", head + end) + _line(tail))
        else:
            lines.append(_line(line))
            inside = "/*" in line.partition("//")[0] and "*/" not in line.partition("/*")[2]
    return tuple(lines)


def _line(line: str) -> Markup:
    made, position = Markup(""), 0
    for token in _TOKEN.finditer(line):
        made += escape(line[position : token.start()]) + _span(token.lastgroup or "", token[0])
        position = token.end()
    return made + escape(line[position:])


def _span(kind: str, text: str) -> Markup:
    return Markup('<span class="{}">{}</span>').format(kind[0], text) if text else Markup("")
