"""Arrays from files, and into files."""

import re
import struct
import sys
import zlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from PIL import Image

from cugen.abi.errors import RunError
from cugen.runtime.files import check_output, encode, read
from cugen.spec.types import DTYPES
from cugen.toolchain.errors import ToolMissing

F32 = DTYPES["float32"]
U8 = DTYPES["uint8"]


def refused(code: str, *words: str):
    return pytest.raises(RunError, match="(?s)" + re.escape(f"error[{code}]") + ".*" + ".*".join(map(re.escape, words)))


def save(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


def test_an_array_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(read("A", save(tmp_path / "a.npy", array), (2, 3), F32), array)


def test_an_archive_gives_the_entry_of_the_array_s_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", A=np.ones(3, np.float32), B=np.zeros(3, np.float32))
    assert read("B", tmp_path / "all.npz", (3,), F32).sum() == 0
    with refused("CG5001", "`C`", "no entry of that name; it has A, B"):
        read("C", tmp_path / "all.npz", (3,), F32)


def test_a_wrong_shape_is_named_with_both_shapes(tmp_path: Path) -> None:
    with refused("CG5002", "`A`", "[3, 2]", "[2, 3]"):
        read("A", save(tmp_path / "a.npy", np.ones((3, 2), np.float32)), (2, 3), F32)


def test_a_type_that_loses_values_is_named_with_both_types(tmp_path: Path) -> None:
    with refused("CG5003", "`A`", "float64", "float32", "astype"):
        read("A", save(tmp_path / "a.npy", np.ones(3)), (3,), F32)


def test_a_type_that_loses_nothing_is_converted(tmp_path: Path) -> None:
    result = read("A", save(tmp_path / "a.npy", np.arange(3, dtype=np.int8)), (3,), DTYPES["int32"])
    assert result.dtype == np.int32
    assert list(result) == [0, 1, 2]


def test_bfloat16_is_read_as_it_is_saved_and_from_float32(tmp_path: Path) -> None:
    array = np.array([1.0, 1.01, -3.5], ml_dtypes.bfloat16)
    bfloat16 = DTYPES["bfloat16"]
    assert np.array_equal(read("A", save(tmp_path / "raw.npy", array), (3,), bfloat16), array)
    wide = save(tmp_path / "wide.npy", np.array([1.0, 1.01, -3.5], np.float32))
    assert np.array_equal(read("A", wide, (3,), bfloat16), array)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with refused("CG5001", "pickles"):
        read("A", tmp_path / "a.npy", (1,), F32)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"not an array", id="text"),
        pytest.param(b"\x93NUMPY\x01\x00", id="npy cut"),
        pytest.param(b"PK\x03\x04broken", id="npz broken"),
    ],
)
def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with refused("CG5001", "`A`", "a.npy", "save it again") as refusal:
        read("A", tmp_path / "a.npy", (1,), F32)
    assert "allow_pickle" not in str(refusal.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with refused("CG5001", "there is no file", "nowhere.npy"):
        read("A", tmp_path / "nowhere.npy", (1,), F32)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    """Two rows, three columns; red grows along a row."""
    pixels = np.zeros((2, 3, 3), np.uint8)
    pixels[..., 0] = [0, 51, 255]
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


def test_an_image_s_channels_come_first_or_last_as_the_shape_says(photo: Path) -> None:
    last = read("A", photo, (2, 3, 3), U8)
    first = read("A", photo, (3, 2, 3), U8)
    assert list(last[0, :, 0]) == [0, 51, 255]
    assert np.array_equal(first[:, 1, 2], last[1, 2])


def test_an_image_becomes_grey_for_a_matrix_and_floats_span_0_to_1(photo: Path, tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 51, 255]], np.uint8)).save(tmp_path / "grey.png")
    grey = read("A", tmp_path / "grey.png", (1, 3), F32)
    assert grey.dtype == np.float32
    assert list(grey[0]) == pytest.approx([0.0, 0.2, 1.0])
    assert read("A", photo, (2, 3), U8).shape == (2, 3)


def test_an_image_of_another_size_is_refused_and_never_resized(photo: Path) -> None:
    with refused("CG5002", "photo.png", "[2, 3]", "[4, 4]", "--set"):
        read("A", photo, (4, 4), U8)


def test_an_image_does_not_fill_integers_of_other_widths(photo: Path) -> None:
    with refused("CG5003", "int32"):
        read("A", photo, (2, 3), DTYPES["int32"])


def test_an_image_does_not_fill_a_vector(photo: Path) -> None:
    with refused("CG5002", "[H, W]", "[6]"):
        read("A", photo, (6,), U8)


@pytest.mark.parametrize("sides", [(20000, 20000), None])
def test_an_image_that_the_decoder_refuses_is_no_readable_image(tmp_path: Path, sides: tuple[int, int] | None) -> None:
    header = b"" if sides is None else struct.pack(">IIBBBBB", *sides, 8, 0, 0, 0, 0)
    chunk = b"IHDR" + header
    content = struct.pack(">I", len(header)) + chunk + struct.pack(">I", zlib.crc32(chunk))
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    with refused("CG5001", "a.png", "no readable image"):
        read("A", tmp_path / "a.png", (2, 3), U8)


def test_a_file_that_only_looks_like_an_image_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"no image")
    with refused("CG5001", "a.png"):
        read("A", tmp_path / "a.png", (2, 3), U8)


def save_output(path: Path, array: np.ndarray, dtype: str) -> Path:
    check_output("C", path, array.shape, DTYPES[dtype])
    path.write_bytes(encode(path, array))
    return path


@pytest.mark.parametrize(
    "shape", [(5, 7), (5, 7, 1), (5, 7, 3), (5, 7, 4), (1, 5, 7), (3, 5, 7), (4, 5, 7), (3, 5, 3)], ids=str
)
def test_an_image_of_bytes_comes_back_as_it_was_written(tmp_path: Path, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
    path = save_output(tmp_path / "c.png", array, "uint8")
    assert np.array_equal(read("C", path, shape, U8), array)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_floats_are_written_from_0_to_1_and_clipped(tmp_path: Path, dtype: str) -> None:
    numbers = np.array([[0.0, 0.2, 1.0, -3.0, 7.0, np.nan, np.inf]])
    array = numbers.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    with Image.open(save_output(tmp_path / "c.png", array, dtype)) as image:
        assert np.asarray(image).tolist() == [[0, 51, 255, 0, 255, 0, 255]]


@pytest.mark.parametrize("suffix", [".jpg", ".jpeg", ".JPG"])
def test_a_jpeg_is_nearly_what_was_written(tmp_path: Path, suffix: str) -> None:
    array = np.broadcast_to(np.arange(0, 256, 4, dtype=np.uint8)[:, None], (64, 64))
    path = save_output(tmp_path / f"c{suffix}", array, "uint8")
    assert path.read_bytes().startswith(b"\xff\xd8")
    assert np.abs(read("C", path, (64, 64), U8).astype(int) - array).max() < 8


def test_every_array_can_be_written_as_npy(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.int64).reshape(2, 3, 2, 2)
    assert np.array_equal(np.load(save_output(tmp_path / "c.npy", array, "int64")), array)


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "code", "words"),
    [
        ("c.png", (6,), "uint8", "CG5002", ("[H, W]", "[6]", "--output C=", "c.npy")),
        ("c.png", (6, 7, 2), "uint8", "CG5002", ("1, 3 or 4 channels", "[6, 7, 2]", "c.npy")),
        ("c.png", (2, 3, 4, 5), "float32", "CG5002", ("[2, 3, 4, 5]", "c.npy")),
        ("c.png", (0, 7), "uint8", "CG5002", ("[0, 7] has no pixels", "c.npy")),
        ("c.jpg", (6, 7, 4), "uint8", "CG5002", ("a JPEG has no fourth channel", "c.png")),
        ("c.jpeg", (2, 65501), "uint8", "CG5002", ("at most 65500 pixels", "[2, 65501]", "c.png")),
        ("c.png", (6, 7), "int32", "CG5003", ("uint8 or floats, not of int32", "c.npy")),
        ("c.png", (6, 7), "int8", "CG5003", ("int8", "c.npy")),
    ],
    ids=str,
)
def test_what_is_no_image_is_refused_with_the_file_that_takes_it(
    tmp_path: Path, name: str, shape: tuple[int, ...], dtype: str, code: str, words: tuple[str, ...]
) -> None:
    with refused(code, "output of `C`", *words):
        check_output("C", tmp_path / name, shape, DTYPES[dtype])


def test_without_pillow_an_image_is_refused_with_its_installation(photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ToolMissing, match=r"(?s)Pillow was not found.*pip install 'cugen\[images\]'"):
        read("A", photo, (2, 3, 3), U8)
    with pytest.raises(ToolMissing, match="Pillow"):
        check_output("C", photo, (2, 3, 3), U8)
    check_output("C", photo.with_suffix(".npy"), (2, 3, 3), U8)
