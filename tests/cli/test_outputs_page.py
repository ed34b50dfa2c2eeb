"""The page of what `generate` writes: its specs are generated, its programs compiled with warnings as errors."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cugen.abi.errors import RunError
from cugen.kernel import generate
from cugen.runtime.call.arguments import check_call
from cugen.spec.load import load_text
from cugen.toolchain import locations

PAGE = (Path(__file__).parents[2] / "docs" / "outputs.md").read_text()
BLOCKS = re.findall(r"^```(\w+) ?(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PROGRAMS = [(language, topic, text) for language, topic, text in BLOCKS if language in ("c", "cpp")]


def spec(topic: str) -> str:
    (text,) = [text for language, name, text in BLOCKS if (language, name) == ("yaml", topic)]
    return text


@pytest.mark.sampled(6)
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_program_of_the_page_compiles(cli: Callable[..., Any], number: int, tmp_path: Path) -> None:
    language, topic, text = PROGRAMS[number]
    (tmp_path / "spec.yaml").write_text(spec(topic if topic == "variants" else ""))
    kind = "embed" if topic == "embed" else "cu"
    assert cli("generate", tmp_path / "spec.yaml", "-o", tmp_path, "--emit", kind, "--no-analysis").status == 0
    compiler, standard = {"c": ("gcc", "c11"), "cpp": ("g++", "c++17")}[language]
    if shutil.which(compiler) is None:
        pytest.skip(f"NO {compiler}, THE PROGRAMS OF THE PAGE ARE UNTESTED")
    source = tmp_path / f"program.{language}"
    source.write_text(text)
    includes = [f"-isystem{folder}" for folder in locations.include_folders()]
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    command = [compiler, f"-std={standard}", "-fsyntax-only", *warnings, *includes, source.name]
    done = subprocess.run(command, cwd=tmp_path, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_the_page_has_programs_for_all_ways_to_call() -> None:
    assert {(language, topic) for language, topic, _ in PROGRAMS} == {
        ("cpp", ""), ("c", ""), ("cpp", "variants"), ("cpp", "embed"), ("c", "embed")
    }  # fmt: skip


def test_the_words_of_the_error_are_those_that_come() -> None:
    (loaded,) = load_text(spec(""))

    class OnGpu:
        def __init__(self, *shape: int) -> None:
            address = 1 << (32 + len(shape))
            self.__cuda_array_interface__ = {"shape": shape, "typestr": "<f4", "data": (address, False), "version": 3}

    given = {"x": OnGpu(5, 6), "factor": OnGpu(5), "y": OnGpu(5, 6), "alpha": 0.5}
    with pytest.raises(RunError) as caught:
        check_call(generate(loaded, analysis=False).manifest, given, device=0)
    (shown,) = [text for language, _, text in BLOCKS if language == "text"]
    assert shown == f"{caught.value.code} {caught.value.message}\n"


def test_every_file_of_the_table_is_written(cli: Callable[..., Any], tmp_path: Path) -> None:
    for name, topic in (("one", ""), ("several", "variants")):
        (tmp_path / f"{name}.yaml").write_text(spec(topic))
    words = ("generate", tmp_path / "one.yaml", tmp_path / "several.yaml", "-o", tmp_path)
    listed = cli(
        *words, "--list", "--emit", "cu,cubin,ptx,fatbin,embed,launch,main,main-overlap", "--umbrella", "NAME"
    ).out
    written = {Path(line).name for line in listed.splitlines()}
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    named = {file for row in rows for file in re.findall(r"`(.+?)`", row)}
    made = {name.replace("scale_rows", "<kernel>").replace("product", "<name>") for name in written}
    shown = {f"<kernel>{file}" if file.startswith(".") else file for file in named}
    assert shown <= made
    assert {name for name in made if not name.startswith("<name>__")} == shown
