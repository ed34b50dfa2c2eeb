"""Specs for tests, as text through the loader, and NumPy data for them."""

import functools

import numpy as np
import pytest

from cugen.reference.evaluate import evaluate
from cugen.spec.load import load_text


def _document(compute: str, arrays: dict[str, str], extra: str) -> str:
    """`arrays` maps names to "float32 M K" (type, then extents), followed by " : " and more keys of the mapping."""
    lines = ["cugen: 1", "kernel: tried"]
    lines += extra.splitlines()
    lines.append("arrays:")
    for name, text in arrays.items():
        declared, _, more = text.partition(" : ")
        dtype, *shape = declared.split(" ")
        lines.append(f"  {name}: {{shape: [{', '.join(shape)}], dtype: {dtype}{', ' + more if more else ''}}}")
    lines.append("compute: |")
    lines += [f"  {line.strip()}" for line in compute.strip().splitlines()]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="session")
def make_spec():
    """A spec from its statements, its arrays and further top-level lines."""

    @functools.cache
    def load_one(document):
        (spec,) = load_text(document)
        return spec

    def make(compute, arrays, extra=""):
        return load_one(_document(compute, arrays, extra))

    return make


@pytest.fixture(scope="session")
def run(make_spec):
    """Evaluates statements; the result of the only output, or of all by name."""

    def evaluate_text(compute, arrays, inputs, extra="", **more):
        results = evaluate(make_spec(compute, arrays, extra), inputs, **more)
        return next(iter(results.values())) if len(results) == 1 else results

    return evaluate_text


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)
