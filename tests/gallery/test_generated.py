"""`generated/` is what the gallery gives; `pytest --update-golden` rewrites it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cugen.emit.files import LAUNCH_HEADER, stamped
from cugen.emit.host.launch_header import launch_header
from cugen.emit.host.variants import make_entry, variants_headers
from cugen.emit.inputs import shared_input_hash
from cugen.kernel import Kernel, generate
from cugen.kernel_choice import block_cost
from cugen.spec.model import Spec
from cugen.spec.siblings import siblings
from cugen.toolchain import locations

TEXTS: dict[str, Callable[[Kernel], str]] = {
    ".cu": lambda kernel: kernel.source,
    ".h": lambda kernel: kernel.header,
    ".hpp": lambda kernel: kernel.typed_header,
    ".json": lambda kernel: kernel.manifest.to_json(),
}


@pytest.mark.parametrize("suffix", TEXTS)
def test_a_committed_file_is_what_the_spec_gives(
    kernel: Kernel, suffix: str, root: Path, golden: Callable[[Path, str], None]
) -> None:
    golden(root / "generated" / f"{kernel.name}{suffix}", TEXTS[suffix](kernel))


def test_a_committed_header_for_variants_is_what_they_give(
    gallery: dict[str, Spec], root: Path, golden: Callable[[Path, str], None]
) -> None:
    for group in siblings(tuple(gallery.values())):
        kernels = map(generate, group.specs)
        entries = [make_entry(k.context, k.plan, k.manifest, block_cost(k)) for k in kernels]
        made = variants_headers(group, entries)
        for suffix, text in ((".h", made.header), (".hpp", made.typed_header)):
            golden(root / "generated" / f"{group.name}{suffix}", stamped(text, shared_input_hash(group.specs)))


def test_the_committed_header_of_all_is_what_cugen_gives(root: Path, golden: Callable[[Path, str], None]) -> None:
    golden(root / "generated" / LAUNCH_HEADER, launch_header())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compiler", "words"),
    [
        ("gcc", ("-std=c11",)),
        ("g++", ("-x", "c++", "-std=c++17")),
        ("g++", ("-x", "c++", "-std=c++17", "-DCUGEN_C_ONLY")),
    ],
)
def test_a_compiler_takes_every_committed_header(
    root: Path, tmp_path: Path, compiler: str, words: tuple[str, ...]
) -> None:
    """In C each by itself, in C++, where one takes half a second, all in one program."""
    folders = locations.include_folders()
    if not folders or shutil.which(compiler) is None:
        pytest.skip(f"NO CUDA HEADERS OR NO {compiler}, THE COMMITTED HEADERS ARE UNTESTED")
    names = sorted(path.name for path in (root / "generated").glob("*.h"))
    includes = [f'#include "{name}"\n' for name in names]
    for number, text in enumerate(includes if compiler == "gcc" else ["".join(includes)]):
        (tmp_path / f"{number}.c").write_text(f"{text}typedef int used;\n")
    paths = [*(f"-isystem{folder}" for folder in folders), f"-I{root / 'generated'}"]
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    command = [compiler, *words, *warnings, *paths, *sorted(map(str, tmp_path.glob("*.c")))]
    done = subprocess.run(command, text=True, capture_output=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")


def test_headers_are_as_short_as_written_by_hand(root: Path) -> None:
    headers = [path for suffix in ("h", "hpp") for path in (root / "generated").glob(f"*.{suffix}")]
    assert sum(len(path.read_text().splitlines()) for path in headers) < 29 * len(headers)


def test_no_other_files_are_committed(gallery: dict[str, Spec], root: Path) -> None:
    expected = {f"{name}{suffix}" for name in gallery for suffix in TEXTS}
    expected |= {f"{group.name}{suffix}" for group in siblings(tuple(gallery.values())) for suffix in (".h", ".hpp")}
    expected |= {LAUNCH_HEADER}
    assert {path.name for path in (root / "generated").iterdir()} == expected


def test_the_gallery_aims_at_hopper_but_for_what_others_have(spec: Spec) -> None:
    others = {"wgmma": "sm_90a", "kepler": "sm_35"}
    named = [target for word, target in others.items() if f"_{word}" in spec.kernel]
    assert spec.target == (named[0] if named else "sm_90")
