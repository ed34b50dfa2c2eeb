"""Errors of the toolchain pass from a process that compiles to the one that waits for it."""

from __future__ import annotations

import pickle

import pytest

from cugen.toolchain.errors import CompileError, ToolMissing

ERRORS = [
    ToolMissing("nvcc", "pip install 'cugen[gpu]'"),
    CompileError(["nvcc", "-c"], "k.cu(3): error: no such thing\n", "k.cu"),
    CompileError(["nvcc"], "", "k.cu", code="CG4003", reason="it spills"),
]


@pytest.mark.parametrize("error", ERRORS, ids=["missing", "refused", "reason"])
def test_an_error_survives_pickling(error):
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
