"""Mutated gallery specs through loading and generating: a kernel or a SpecError, soon, and nothing else."""

from __future__ import annotations

import random
import re
from functools import partial
from pathlib import Path

import pytest

from cugen.kernel import generate
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from tests import cpu_time

GALLERY = sorted((Path(__file__).parents[2] / "specs").glob("*.yaml"))
CASES = 40  # of each spec
LIMIT = 4.0  # seconds of a case; half of them may go into the analysis, which gives up by then
HOSTILE = """
    0 1 -1 2 3 7 16 17 1024 65536 2147483647 2147483648 4294967296 9223372036854775807 -9223372036854775808
    99999999999999999999 0.5 1e999 -0.0 .nan .inf inf nan pi true false null ~ no 010 16:16 [] {} [[]] [0] {a:1}
    dynamic {range:[1,3],multiple_of:2} {range:[0,2147483647]} M N K m n k i j A B C x y x[i] y[i] A[m,k] 1//0 1%0
    float32 float64 float16 bfloat16 float8_e4m3 int8 uint8 int64 uint64 bool shared constant register readonly scratch
    global texture zero clamp wrap reflect symmetric {value:nan} row column {strides:[1,1]} {align:128} xor direct map
    tiled transpose
    {space:shared,pad:1} {space:shared,swizzle:xor} {space:shared,dynamic:true} {space:shared,stages:3} sm_10 sm_120
    sum(x[i],i) cumsum(x[i],i) argmax(x[i],i) softmax(x[i],i) where(i<3,x[i],0) x[i+1] x[i*2] x[i//2] x[-1-i] x[ids[i]]
    i+1 -i i*i i//2 i%3 2**31 ** // % << ~ not == , : | > - # & * ! ' " ( ) [ ] { } $tile \\ \t \0 é ∑ 😀
"""
VALUES = HOSTILE.split(" ")
CHARACTERS = "0123456789abcijkmnxyABCMNK_+-*/%<>=()[]{}:,.|#&!'\"$~^? \n"


def mutated(text: str, rng: random.Random) -> str:
    """The text after one to three mutations."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        lines = text.split("\n")
        first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
        match rng.randrange(11):
            case 0:
                del lines[first]
            case 1:
                lines.insert(second, lines[first])
            case 2:
                lines[first], lines[second] = lines[second], lines[first]
            case 3:
                column = rng.randrange(len(lines[first]) + 1)
                lines[first] = (
                    lines[first][:column] + rng.choice(CHARACTERS) + lines[first][column + rng.randint(0, 1) :]
                )
            case 4:
                column = rng.randrange(len(lines[first]) + 1)
                lines[first] = lines[first][:column] + lines[first][column + rng.randint(1, 8) :]
            case 5 | 6:
                lines[first] = replaced(lines[first], rng)
            case _:
                text = exchanged(text, rng)
                continue
        text = "\n".join(lines)
    return text


def replaced(line: str, rng: random.Random) -> str:
    """The line with one word, or all that stands behind a colon, in exchange for a hostile value."""
    value = rng.choice(VALUES).strip().replace(",", ", ").replace(":", ": ")
    if ":" in line and rng.random() < 0.3:
        return line.split(":", 1)[0] + ": " + value
    words = line.replace("[", " [ ").replace("]", " ] ").replace(",", " , ").replace("}", " } ").split(" ")
    words[rng.randrange(len(words))] = value
    return " ".join(words)


def exchanged(text: str, rng: random.Random) -> str:
    """The text with one of its words in exchange for another of them, or a number for a number."""
    words = [match for match in re.finditer(r"(?<!\w)[\w.]+", text) if "#" not in text[: match.start()].split("\n")[-1]]
    word, replacement = rng.choice(words), rng.choice(words)[0]
    if word[0].isdigit() and rng.random() < 0.7:
        replacement = str(rng.choice((0, 1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 33, 64, 100, 1000, 65536)))
    return text[: word.start()] + replacement + text[word.end() :]


def error_of(text: str, folder: Path) -> SpecError | None:
    """Why a spec is refused; None where kernels of it are generated."""
    try:
        for spec in load_text(text, folder=folder):
            assert "__global__" in generate(spec).source
    except SpecError as error:
        return error
    return None


@pytest.mark.slow
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_a_mutated_spec_gives_kernels_or_findings(path):
    rng = random.Random(path.stem)
    original = path.read_text(encoding="utf-8")
    refused: list[SpecError] = []
    for _ in range(CASES):
        text = mutated(original, rng)
        error = cpu_time.at_most(LIMIT, partial(error_of, text, path.parent), text)
        refused += [error] if error else []
    assert 0 < len(refused) < CASES
    assert all(finding.help for error in refused for finding in error.diagnostics)
