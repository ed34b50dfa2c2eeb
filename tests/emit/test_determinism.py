"""The same spec gives the same bytes: whatever the hash seed, the folder, the version of Python or of sympy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPECS = (
    "blur5x5",
    "conv_strided_dilated",
    "gather",
    "layer_norm",
    "matmul_batched",
    "matmul_register_tiles",
    "matmul_int8",
    "softmax",
    "transpose_swizzled",
    "rms_norm_dynamic",
)
SCRIPT = """
import hashlib, pathlib, sys
sys.path.insert(0, sys.argv[1])
from cugen.kernel import generate
from cugen.spec.load import load_all
for name in sys.argv[2:]:
    for spec in load_all(pathlib.Path(sys.argv[1]) / "specs" / f"{name}.yaml"):
        kernel = generate(spec)
        texts = (kernel.source, *kernel.headers.values(), kernel.manifest.to_json())
        print(kernel.name, *(hashlib.sha256(text.encode()).hexdigest() for text in texts))
"""


def digests(python: str = sys.executable, folder: Path = ROOT, packages: Path | None = None, **variables: str) -> str:
    """What a fresh interpreter generates; `packages` replaces the libraries that it would find."""
    environment = {**os.environ, **variables}
    environment.pop("PYTHONPATH", None)
    isolated = ("-S",) if packages else ()
    if packages:
        environment["PYTHONPATH"] = str(packages)
    command = [python, *isolated, "-c", SCRIPT, str(ROOT), *SPECS]
    done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def expected() -> str:
    return digests(PYTHONHASHSEED="0")


@pytest.mark.slow
def test_every_spec_gave_all_files(expected):
    assert [len(line.split()) for line in expected.splitlines()] == [6] * len(SPECS)


@pytest.mark.slow
def test_neither_the_order_of_hashes_nor_the_folder_nor_the_locale_shows(expected, tmp_path):
    others = {"PYTHONHASHSEED": "4294967295", "LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu", "HOME": str(tmp_path)}
    assert digests(folder=tmp_path, **others) == expected


def _interpreters() -> list[str]:
    """Every Python from 3.11 on that PATH or pyenv offers, one of each version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    interpreters = {}
    for minor in range(11, 20):
        name = f"python3.{minor}"
        for path in (shutil.which(name), *sorted(map(str, pyenv.glob(f"3.{minor}.*/bin/{name}")))):
            if path and not subprocess.run([path, "-c", ""], capture_output=True, timeout=60).returncode:
                interpreters.setdefault(name, path)
    return list(interpreters.values())


@pytest.mark.slow
@pytest.mark.parametrize(("sympy", "interpreters"), [("sympy==1.13.3", slice(1)), ("sympy", slice(None))])
def test_versions_of_python_and_of_sympy_do_not_show(expected, sympy, interpreters, tmp_path):
    """The oldest of both, and each Python with the newest sympy."""
    for python in (_interpreters() or [sys.executable])[interpreters]:
        packages = tmp_path / Path(python).name
        install = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--target",
            str(packages),
            sympy,
            "jinja2",
            "pyyaml",
            "numpy",
        ]
        if subprocess.run(install, capture_output=True, timeout=600).returncode:
            pytest.skip(f"NO NETWORK OR NO PIP FOR {python}, OTHER VERSIONS ARE UNTESTED")
        assert digests(python, packages=packages) == expected, python
