"""Sizes and conditions in C mean what they mean in Python: random ones, run at the corners of their params."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from cugen.abi.sizes import evaluate, holds
from cugen.emit.environment import environment
from cugen.emit.host.c_sizes import Name, SizePrinter

PARAMS = {"M": (0, 2**31 - 1), "N": (4, 4096), "K": (7, 7), "d": (0, 5)}
NAMES = {"M": Name("M", 0, 2**31 - 1), "N": Name("N", 4, 4096), "K": Name("7", 7, 7), "d": Name("d_", 0, 5)}


def size(chance: random.Random, depth: int) -> str:
    if depth == 0:
        return chance.choice([*PARAMS, *PARAMS, str(chance.randrange(300))])
    a, b = size(chance, depth - 1), size(chance, chance.randrange(depth))
    return chance.choice(
        [
            f"({a} + {b})",
            f"({a} - {b})",
            f"{a} - ({b})",
            f"({a}) // {chance.randrange(1, 40)}",
            f"({a}) % {chance.randrange(1, 40)}",
            f"({a}) // (d)",
            f"({a} - {b}) % K",
            f"minimum({a}, {b})",
            f"maximum({a}, {b} - 9)",
            f"({a}) % 100 * {chance.randrange(9)}",
            f"-({a})",
        ]
    )


def condition(chance: random.Random) -> str:
    a, b, c = (size(chance, chance.randrange(2)) for _ in range(3))
    sign, second_sign = (chance.choice(["<", "<=", "==", "!=", ">", ">="]) for _ in range(2))
    first = chance.choice([f"{a} {sign} {b}", f"{a} {sign} {b} {second_sign} {c}", f"not {a} {sign} {b}"])
    return chance.choice(
        [first, f"{first} and {b} {second_sign} {c}", f"{first} or {c} {sign} {a} and {b} {second_sign} {c}"]
    )


def values(chance: random.Random) -> dict[str, int]:
    """Every param at an end of its range, or near one."""
    return {
        name: chance.choice([low, min(low + 1, high), high, (low + high) // 2]) for name, (low, high) in PARAMS.items()
    }


@pytest.mark.parametrize("wide", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_c_computes_what_python_does(batch: Callable[..., list[str]], wide: bool) -> None:
    chance = random.Random(1)
    lines, expected = [], []
    for number in range(400):
        printer = SizePrinter(NAMES, wide=wide)
        params = values(chance)
        if number % 2:
            text = size(chance, 1 + number % 3)
            expected.append(evaluate(text, params))
            low, high = printer.bounds(text)
            assert low <= expected[-1] <= high, text
            result = printer.print(text)
        else:
            text = condition(chance)
            expected.append(int(holds(text, params)))
            result = printer.condition(text)
        kind = "long long" if wide else "int"
        given = f"{kind} M = {params['M']}, N = {params['N']}, d_ = {params['d']}"
        lines.append(f'    {{ {given}; (void)M; (void)N; (void)d_; std::printf("%lld\\n", (long long)({result})); }}')
    helpers = environment().get_template("sizes.h.j2").render()
    program = "\n".join(["#include <cstdio>", helpers, "int main()", "{", *lines, "}"])
    assert list(map(int, batch(program, "-Wall", "-Wextra", "-Werror", "-Wno-tautological-compare"))) == expected


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("(N + 31) // 32", "(N + 31) / 32"),
        ("N % 4 == 0", "N % 4 == 0"),
        ("(N - 5) % 4", "cugen_floor_remainder(N - 5, 4)"),
        ("M + 1", "(long long)M + 1"),
        ("N * N", "N * N"),
        ("N * N * N", "(long long)N * (long long)N * (long long)N"),
        ("K * N", "7 * N"),
        ("0 < d < N", "0 < d_ && d_ < N"),
        ("not N == 4 or d == 1 and N > 5", "!(N == 4) || (d_ == 1 && N > 5)"),
        ("2 ** K < M", "128 < M"),
        ("maximum(N, 8) * 2", "cugen_max(N, 8) * 2"),
    ],
)
def test_what_c_says_itself_is_said_so(text: str, result: str) -> None:
    assert SizePrinter(NAMES).condition(text) == result


def test_a_number_is_itself() -> None:
    printer = SizePrinter(NAMES)
    assert (printer.print(12), printer.sum(12), printer.bounds(12)) == ("12", "12", (12, 12))
