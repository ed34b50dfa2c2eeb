"""Baked values: literals and .npy files."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.spec.load import load_text
from cugen.spec.parse.npy import NotReadable, read_npy

Diagnose = Callable[..., Any]


def table(values: str, shape: str = "[2, 3]", dtype: str = "float32") -> str:
    return (
        f"cugen: 1\nkernel: weigh\narrays:\n  w: {{shape: {shape}, dtype: {dtype}, values: {values}}}\n"
        f"  y: {{shape: {shape}, dtype: {dtype}}}\ncompute: y[i, j] = w[i, j]\n"
    )


def data(text: str, folder: Path | None = None) -> tuple[Any, ...]:
    (spec,) = load_text(text, folder=folder)
    values = spec.array("w").values
    assert values is not None
    return values.data


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ("[[1, 2, 3], [4, 5, 6]]", "float32", (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)),
        ("[1, 2, 3, 4, 5, 6]", "int64", (1, 2, 3, 4, 5, 6)),
        ("[inf, -inf, .inf, 0.5, 1e3, -0.0]", "float16", (math.inf, -math.inf, math.inf, 0.5, 1000.0, -0.0)),
        ("[true, false, 1, 0, true, true]", "bool", (True, False, True, False, True, True)),
    ],
)
def test_literals_are_row_major_and_have_the_arrays_type(values: str, dtype: str, expected: tuple[Any, ...]) -> None:
    actual = data(table(values, dtype=dtype))
    assert actual == expected
    assert [type(x) for x in actual] == [type(x) for x in expected]


@pytest.mark.parametrize(
    ("values", "dtype", "code"),
    [
        ("[1, 2, 3]", "float32", "CG1032"),
        ("[[1, 2], [3, 4], [5, 6]]", "float32", "CG1032"),
        ("[[1, 2, 3], [4, 5]]", "float32", "CG1032"),
        ("[]", "float32", "CG1032"),
        ("3", "float32", "CG1032"),
        ("[1, 2, 3, 4, 5, x]", "float32", "CG1015"),
        ("[1, 2, 3, 4, 5, ~]", "float32", "CG1015"),
        ("{a: 1}", "float32", "CG1015"),
        ("[1, 2, 3, 4, 5, 0.5]", "int32", "CG1031"),
        ("[1, 2, 3, 4, 5, 256]", "uint8", "CG1031"),
        ("[1, 2, 3, 4, 5, -1]", "uint8", "CG1031"),
        ("[1, 2, 3, 4, 5, true]", "uint8", "CG1031"),
        ("[1, 0, 1, 0, 1, 2]", "bool", "CG1031"),
        ("[1, 2, 3, 4, 5, 65505]", "float16", "CG1031"),
        ("[1, 2, 3, 4, 5, inf]", "float8_e4m3", "CG1031"),
        ("[1, 2, 3, 4, 5, inf]", "int8", "CG1031"),
    ],
)
def test_literals_that_are_rejected(diagnose: Diagnose, values: str, dtype: str, code: str) -> None:
    assert [d.code for d in diagnose(table(values, dtype=dtype))] == [code]


def test_a_single_value_fills_an_array_without_dimensions() -> None:
    text = table("3", shape="[]").replace("[i, j]", "")
    assert data(text) == (3.0,)


@pytest.mark.parametrize("kind", ["<f8", ">f8", "<f4", "<f2", "<i4", ">i2", "|i1", "|u1", "<u8", "|b1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_give_what_numpy_saved(tmp_path: Path, kind: str, order: Any) -> None:
    array = np.array([[0, 1, 0], [1, 1, 0]], dtype=kind, order=order)
    np.save(tmp_path / "w.npy", array)
    assert data(table("w.npy", dtype="float64" if "b" not in kind else "bool"), tmp_path) == tuple(
        array.ravel().tolist()
    )


@given(st.lists(st.integers(1, 4), max_size=4), st.sampled_from(["C", "F"]))
def test_the_order_of_a_file_is_undone(shape: list[int], order: Any) -> None:
    array = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    file = read_npy(npy_bytes(np.asarray(array, order=order)))
    assert file.shape == tuple(shape)
    assert file.data == tuple(range(math.prod(shape)))


def npy_bytes(array: Any) -> bytes:
    stream = BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize(
    "array",
    [
        np.array([{}, []], dtype=object),
        np.zeros(3, dtype=complex),
        np.zeros(3, dtype=[("a", "<i4")]),
        np.zeros(3, dtype="U2"),
        np.zeros((0, 10**9), dtype="<f4"),
        np.zeros(2, dtype="datetime64[s]"),
    ],
    ids=["object", "complex", "record", "text", "empty", "date"],
)
def test_only_plain_numbers_are_read(array: Any) -> None:
    with pytest.raises(NotReadable):
        read_npy(npy_bytes(array))


@given(st.integers(0, 200), st.binary(max_size=4))
def test_a_damaged_file_is_read_or_rejected(offset: int, patch: bytes) -> None:
    content = npy_bytes(np.arange(6, dtype=np.float32))
    damaged = content[:offset] + patch + content[offset + len(patch) :]
    try:
        assert len(read_npy(damaged).data) == math.prod(read_npy(damaged).shape)
    except NotReadable:
        assert damaged != content


def test_a_file_is_hashed_and_named_as_a_dependency(tmp_path: Path) -> None:
    content = npy_bytes(np.zeros((2, 3), dtype=np.float32))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.npy").write_bytes(content)
    (spec,) = load_text(table("data/w.npy"), folder=tmp_path)
    values = spec.array("w").values
    assert values is not None
    assert (values.file, values.sha256) == ("data/w.npy", hashlib.sha256(content).hexdigest())
    assert spec.dependencies == (str(tmp_path / "data" / "w.npy"),)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("/etc/passwd", "CG1034"),
        ("/tmp/w.npy", "CG1034"),
        ("../w.npy", "CG1034"),
        ("a/../../w.npy", "CG1034"),
        ("'C:\\w.npy'", "CG1034"),
        ("w.txt", "CG1034"),
        ("link.npy", "CG1034"),
        ("linked/w.npy", "CG1034"),
        ("missing.npy", "CG1035"),
        ("folder.npy", "CG1035"),
        ("pipe.npy", "CG1035"),
        ("pickle.npy", "CG1035"),
        ("large.npy", "CG1036"),
        ("shape.npy", "CG1032"),
        ("loop.npy", "CG1035"),
        ("x" * 5000 + ".npy", "CG1035"),
    ],
)
def test_files_that_a_spec_cannot_name(diagnose: Diagnose, tmp_path: Path, name: str, code: str) -> None:
    folder, outside = tmp_path / "specs", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    np.save(outside / "w.npy", np.zeros((2, 3), dtype=np.float32))
    np.save(folder / "shape.npy", np.zeros((3, 2), dtype=np.float32))
    np.save(folder / "pickle.npy", np.array([[{}, 1, 2], [3, 4, 5]], dtype=object))
    np.save(folder / "large.npy", np.zeros(300_000, dtype=np.float32))
    (folder / "link.npy").symlink_to(outside / "w.npy")
    (folder / "linked").symlink_to(outside)
    (folder / "loop.npy").symlink_to(folder / "loop.npy")
    (folder / "folder.npy").mkdir()
    os.mkfifo(folder / "pipe.npy")
    assert [d.code for d in diagnose(table(name), folder=folder)] == [code]


def test_a_file_with_values_that_do_not_fit_is_rejected(diagnose: Diagnose, tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", np.array([[1, 2, 3], [4, 5, 300]]))
    assert [d.code for d in diagnose(table("w.npy", dtype="int8"), folder=tmp_path)] == ["CG1031"]
    np.save(tmp_path / "w.npy", np.full((2, 3), 0.5))
    assert [d.code for d in diagnose(table("w.npy", dtype="int8"), folder=tmp_path)] == ["CG1031"]


def test_a_text_without_a_folder_names_no_files(diagnose: Diagnose) -> None:
    assert [d.code for d in diagnose(table("w.npy"))] == ["CG1034"]
