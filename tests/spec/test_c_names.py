"""The table of names that headers declare, against the headers of this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import cugen
from cugen.spec import c_names

HEADERS = "#include <math_constants.h>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n"
INCLUDE = Path(cugen.__file__).parent / "runtime" / "cpu" / "include"
GXX = ["g++", "-x", "c++", "-std=c++17", f"-I{INCLUDE}"]


def undeclarable(compiler: list[str], preprocess: list[str], text: str, folder: Path, error: str) -> set[str]:
    """The words of the preprocessed headers that can't be declared at file scope."""
    source = folder / "words.cu"
    source.write_text(text)
    seen = subprocess.run([*preprocess, str(source)], capture_output=True, text=True, check=True).stdout
    words = sorted(w for w in set(re.findall(r"\b[A-Za-z]\w*", seen)) if "__" not in w)
    source.write_text(text + "".join(f"constexpr int {word} = 1;\n" for word in words))
    errors = subprocess.run([*compiler, str(source)], capture_output=True, text=True, check=False).stderr
    first = text.count("\n") + 1
    return {words[int(line) - first] for line in re.findall(error, errors) if int(line) >= first}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no g++")
def test_what_the_headers_of_the_cpu_device_declare_is_taken(tmp_path: Path) -> None:
    rejected = undeclarable(
        [*GXX, "-fsyntax-only", "-fmax-errors=0"],
        [*GXX, "-E"],
        "#include <cugen_cpu.h>\n" + HEADERS,
        tmp_path,
        r"words\.cu:(\d+):\d+: error",
    )
    assert len(rejected) > 500
    assert sorted(word for word in rejected if not c_names.is_taken(word)) == []


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_what_the_headers_of_cuda_declare_is_taken(tmp_path: Path) -> None:
    rejected = undeclarable(
        ["nvcc", "-ptx", "-Xcudafe", "--error_limit=100000", "-o", str(tmp_path / "words.ptx")],
        ["nvcc", "-E"],
        "#include <cuda_runtime.h>\n" + HEADERS,
        tmp_path,
        r"words\.cu\((\d+)\): error",
    )
    assert len(rejected) > 1000
    assert sorted(word for word in rejected if not c_names.is_taken(word)) == []
