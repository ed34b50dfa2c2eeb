"""Spellings of C, CUDA, Python and NumPy, and what is written here in their place."""

from __future__ import annotations

import re

from cugen.spec.parse.keys import TYPE_SYNONYMS

OPERATORS = {
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
    "@": "write the matrix multiplication with indices: `sum(A[m, k] * B[k, n], k)`",
    "·": "write `*`",
    "×": "write `*`",
    "−": "write `-` (this is a typographic minus)",
    "–": "write `-` (this is a dash)",
    "÷": "write `/`",
    "≤": "write `<=`",
    "≥": "write `>=`",
    "≠": "write `!=`",
    "²": "write `** 2`",
    "³": "write `** 3`",
    "√": "write `sqrt(x)`",
    "∑": "write `sum(x[i, k], k)`",
    "Σ": "write `sum(x[i, k], k)`",
    "π": "write `pi`",
    "∞": "write `inf`",
    ";": "write one statement a line",
    "{": "group with `(` and `)`",
    "}": "group with `(` and `)`",
    "$": "`$name` refers to a variant; is it declared under `variants`?",
    "\\": "an open bracket continues on the next line; no `\\` is needed",
    "'": "expressions have no string literals; write names without quotes",
    '"': "expressions have no string literals; write names without quotes",
    ".": "write `f(x)` for a function of `x`; names have no dots",
    ":": "name an index instead of a slice: `A[i, j]`; of a part that begins at `b`, element i is `A[b + i]`",
    "...": "name an index for each dimension: `A[i, j]`",
}
NUMBER_SUFFIX = re.compile(r"[fFhHlLuU]{1,3}")

_LOOP = "an index runs over the array by itself: `y[i] = 2 * x[i]`; what adds up is `y[i] = sum(x[i, k], k)`"
_BRANCH = "each element has one value: `y[i] = a if condition else b`"
_RANDOM = "there are no random numbers; declare an array that the caller fills with them, and read it: `r[i]`"
_THREAD = "name an index in place of the thread: `y[i] = 2 * x[i]`; `schedule` says how blocks and threads share them"
POINTER = "there are no pointers: an element is read and written by its subscripts, as in `y[i] = 2 * x[i]`"
_ATOMIC = (
    "each element is written once: write `y[i] += value`; a histogram is a sum, `h[b] = sum(where(x[i] == b, 1, 0), i)`"
)
_DECLARATION = "a temporary has no declaration, and names its indices: `t[i] = 2 * x[i]`"
_TYPES = "|".join(("auto", *TYPE_SYNONYMS))
_NAME_FOLLOWS = r"(?=\s+(?!(?:if|and|or)\b)\w)"
_QUALIFIERS = "const|constexpr|static|unsigned|volatile|__shared__"

# At the start of a statement; the rest of it isn't read.
_HEADS = (
    (re.compile(r"(?:for|while)\b(?=\s*[(\w!])"), _LOOP),
    (re.compile(r"(?:if|elif|else)\b"), _BRANCH),
    (re.compile(r"//|/\*"), "a comment begins with `#`"),
    (re.compile(r"(?:tl\.)?atomic\w+(?=\()"), _ATOMIC),
    (re.compile(r"tl\.store(?=\()"), POINTER),
    (re.compile(rf"(?:(?:{_QUALIFIERS})\s+)*(?:{_TYPES})\b{_NAME_FOLLOWS}(?!.*(?:thread|block)Idx)"), _DECLARATION),
)
_MODULES = r"(?:np|numpy|cp|cupy|jnp|torch|tf|tl|math|F|std)"
_WORDS = (
    (re.compile(r"(?:threadIdx|blockIdx|blockDim|gridDim)\.\w+|tl\.(?:program_id|num_programs|arange)\b"), _THREAD),
    (re.compile(r"tl\.load\b"), POINTER),
    (re.compile(rf"{_MODULES}(?:\.\w+)*\.(?:rand\w*|normal|uniform)\b"), _RANDOM),
    (re.compile(rf"{_MODULES}(?:\.|::)(?:\w+\.)*(?P<name>\w+)"), "functions have no module: `{name}`"),
    (re.compile(r"for\s+\w+(?:\s+in\b)?"), "name the index last: `sum(x[i, k], k)` is the sum over k"),
)
_ATTRIBUTES = (
    (re.compile(r"\.T\b"), "swap the indices: `x[j, i]`"),
    (re.compile(r"\.(?:astype|to)\b"), "write `cast(x, float32)`"),
    (re.compile(r"\.(?:shape|size)\b"), "write the param of the extent, such as `N`"),
    (
        re.compile(r"\.(?P<name>sum|mean|prod|max|min|any|all)\b"),
        "a reduction is a function, and names its index: `{name}(x[i, k], k)`",
    ),
)
_CALLS = (
    (re.compile(r"curand\w*|rand\w*"), _RANDOM),
    (re.compile(r"atomic\w+"), _ATOMIC),
    (re.compile(r"__sync\w+"), "leave it out; cugen places the barriers"),
    (re.compile(r"fmaxf?"), "write `maximum(a, b)`"),
    (re.compile(r"fminf?"), "write `minimum(a, b)`"),
    (re.compile(r"fabsf?"), "write `abs(x)`"),
    (re.compile(r"dot|matmul|einsum"), OPERATORS["@"]),
    (
        re.compile(r"sort|sorted|argsort|topk|unique"),
        "there is no sort; call a library's before this kernel, such as CUB's",
    ),
)


def head(source: str, offset: int) -> tuple[str, str] | None:
    """The first word of a statement of another language, and what to write; None for one of this language."""
    return _first(_HEADS, source, offset)


def word(source: str, offset: int) -> tuple[str, str] | None:
    """A name or phrase of another language, and what to write; None for one of this language."""
    return _first(_WORDS, source, offset)


def attribute(source: str, offset: int) -> tuple[str, str]:
    """An attribute from its dot on, and what to write."""
    return _first(_ATTRIBUTES, source, offset) or (".", OPERATORS["."])


def call(name: str) -> str | None:
    """What to write for a call of a function of another language; None for an unknown one."""
    return next((help for pattern, help in _CALLS if pattern.fullmatch(name)), None)


def _first(table: tuple[tuple[re.Pattern[str], str], ...], source: str, offset: int) -> tuple[str, str] | None:
    for pattern, help in table:
        if match := pattern.match(source, offset):
            return match[0], help.format(**match.groupdict())
    return None
