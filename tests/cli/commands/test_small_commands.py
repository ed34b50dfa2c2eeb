"""`cugen new`, `explain`, `config` and `doctor`."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cugen.cli import failures
from cugen.cli.commands import doctor
from cugen.emit.resources import SCHEMA, data_folder
from cugen.runtime.cuda import libcuda
from cugen.spec.load import load_all
from cugen.toolchain import host, nvrtc, pycuda
from cugen.toolchain.errors import CompileError, ToolMissing
from cugen.version import __version__

Cli = Callable[..., Any]
ROOT = Path(__file__).parents[3]
_EXAMPLES = sorted(path.stem for path in data_folder("specs").glob("*.yaml"))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_starter_loads_under_its_new_name_and_is_commented(cli: Cli, here: Path) -> None:
    assert cli("new", "my_product").status == 0
    text = (here / "my_product.yaml").read_text()
    assert [spec.kernel for spec in load_all("my_product.yaml")] == ["my_product"]
    assert text.count("#") > 10
    assert "NAME" not in text


def test_a_starter_has_no_schedule_and_names_the_schema(cli: Cli, here: Path) -> None:
    cli("new", "my_product")
    (spec,) = load_all("my_product.yaml")
    assert spec.schedules == ()
    first, *others = (here / "my_product.yaml").read_text().splitlines()
    assert first == f"# yaml-language-server: $schema={SCHEMA.as_uri()}"
    chosen = "\n".join(line.removeprefix("# ") if line.startswith(("# sched", "# check")) else line for line in others)
    (here / "chosen.yaml").write_text(chosen)
    (spec,) = load_all("chosen.yaml")
    assert len(spec.schedules) == 1
    assert cli("check", "chosen.yaml").status == 0


def test_a_copy_of_an_example_names_the_schema_too(cli: Cli, here: Path) -> None:
    cli("new", "mine", "--from", "saxpy")
    assert (here / "mine.yaml").read_text().startswith(f"# yaml-language-server: $schema={SCHEMA.as_uri()}\n")


def test_the_list_describes_each_example_in_a_line(cli: Cli, here: Path) -> None:
    lines = cli("new", "--list").out.splitlines()
    assert [line.split()[0] for line in lines] == _EXAMPLES
    assert all(len(line.split()) > 3 for line in lines)
    assert "saxpy                    y = a·x + y" in lines
    assert list(here.iterdir()) == []


def test_new_needs_a_name(cli: Cli) -> None:
    answer = cli("new")
    assert answer.status == 2
    assert "`cugen new --list` describes the examples" in answer.err


def test_a_starter_generates_at_once(cli: Cli, here: Path) -> None:
    cli("new", "my_product")
    assert cli("generate", "my_product.yaml").status == 0


def test_a_starter_has_no_bank_conflicts(cli: Cli, here: Path) -> None:
    cli("new", "my_product")
    answer = cli("check", "my_product.yaml")
    assert answer.status == 0
    assert "warning" not in answer.out + answer.err


@pytest.mark.sampled(6)
@pytest.mark.parametrize("example", _EXAMPLES)
def test_every_example_can_be_copied_under_another_name(cli: Cli, here: Path, example: str) -> None:
    assert cli("new", "copy_of_it", "--from", example).status == 0
    original = load_all(data_folder("specs") / f"{example}.yaml")
    copied = load_all("copy_of_it.yaml")
    assert len(copied) == len(original)
    assert all(spec.kernel.startswith("copy_of_it") for spec in copied)
    assert [spec.statements for spec in copied] == [spec.statements for spec in original]


def test_each_of_several_documents_keeps_its_name_as_a_suffix(
    cli: Cli, here: Path, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gallery = here / "gallery"
    gallery.mkdir()
    text = spec.read_text()
    (gallery / "two.yaml").write_text(text + "---\n" + text.replace("scale", "other"))
    monkeypatch.setattr("cugen.cli.commands.new.data_folder", lambda name: gallery)
    assert cli("new", "mine", "--from", "two").status == 0
    assert [s.kernel for s in load_all("mine.yaml")] == ["mine_scale", "mine_other"]


def test_nothing_is_overwritten(cli: Cli, here: Path) -> None:
    (here / "mine.yaml").write_text("precious")
    assert cli("new", "mine").status == 2
    assert (here / "mine.yaml").read_text() == "precious"


@pytest.mark.parametrize("name", ["1st", "../up", "for", "a b", "", "__x"])
def test_a_name_that_no_kernel_can_have_writes_nothing(cli: Cli, here: Path, name: str) -> None:
    assert cli("new", name).status == 2
    assert list(here.iterdir()) == []


def test_the_name_of_a_file_is_answered_with_that_of_the_kernel(cli: Cli, here: Path) -> None:
    answer = cli("new", "mine.yaml")
    assert (answer.status, "write `cugen new mine`" in answer.err) == (2, True)


def test_an_unknown_example_is_answered_with_the_known_ones(cli: Cli, here: Path) -> None:
    answer = cli("new", "mine", "--from", "matmul_tild")
    assert answer.status == 2
    assert "did you mean `matmul_tiled`?" in answer.err
    assert all(name in answer.err for name in _EXAMPLES)
    assert cli("new", "mine", "--from", "../specs/saxpy").status == 2


@pytest.mark.parametrize("code", ["CG1048", "cg1048", "1048", "error[CG1048]", "error[CG1048]:", "warning[CG1048]"])
def test_a_code_is_understood_as_people_paste_it(cli: Cli, code: str) -> None:
    answer = cli("explain", code)
    assert answer.status == 0
    assert answer.out.startswith("# CG1048: ")
    assert "kernel: scale_again" in answer.out


def test_without_a_code_every_page_is_listed_by_its_title(cli: Cli) -> None:
    lines = cli("explain").out.splitlines()
    pages = sorted(path.stem for path in (Path(doctor.__file__).parents[2] / "explain").glob("*.md"))
    assert [line.split(":")[0] for line in lines] == pages
    assert all(": " in line for line in lines)


@pytest.mark.parametrize("code", ["CG1O48", "../explain/CG1048", "CG9999", ""])
def test_an_unknown_code_is_a_wrong_call(cli: Cli, code: str) -> None:
    answer = cli("explain", code)
    assert (answer.status, answer.out) == (2, "")


def test_a_word_that_is_like_no_code_is_answered_with_where_they_are_listed(cli: Cli) -> None:
    assert "= help: `cugen explain` lists all codes with their titles" in cli("explain", "histogram").err


def test_a_file_in_place_of_a_code_is_told_from_a_misspelt_one(cli: Cli, spec: Path) -> None:
    answer = cli("explain", spec)
    assert answer.status == 2
    assert f"`{spec}` is a file, and a code comes first" in answer.err
    assert f"`cugen explain CODE {spec}`" in answer.err


def test_a_misspelt_code_suggests_the_nearest(cli: Cli) -> None:
    assert "did you mean `CG1048`?" in cli("explain", "CG1O48").err


def test_links_of_a_page_are_titles_with_the_page_where_they_lead(cli: Cli) -> None:
    assert (
        '"Random numbers" in docs/cannot-say.md,\n"Sort, median, top k" in docs/cannot-say.md,'
        in cli("explain", "CG1202").out
    )
    folder = Path(doctor.__file__).parents[2] / "explain"
    assert [path.stem for path in folder.glob("*.md") if "](" in cli("explain", path.stem).out] == []


def test_with_a_file_its_own_case_is_shown_and_its_cure(cli: Cli, here: Path, spec: Path) -> None:
    spec.write_text(spec.read_text().replace("2 * x[i]", "2 * x[i + 1]"))
    answer = cli("explain", "CG1304", "scale.yaml")
    assert answer.status == 0
    assert answer.out.startswith("# CG1304: An out-of-bounds read\n\nEvery read must be proved in bounds.")
    assert answer.out.endswith(
        """
## In scale.yaml

error[CG1304]: `x[i + 1]` reads outside the array
 --> scale.yaml:8:21
  |
8 | compute: y[i] = 2 * x[i + 1]
  |                     ^^^^^^^^ i = 39 reads x[40], outside 0..39

## The cure

- line 8: give `x` a `boundary`, such as `boundary: zero`, or guard the read: `where(inside(x[i + 1]), x[i + 1], 0)`
"""
    )


def test_the_cure_of_bank_conflicts_is_the_layout_that_removes_them(cli: Cli, here: Path) -> None:
    text = (data_folder("specs") / "transpose_padded.yaml").read_text()
    (here / "turn.yaml").write_text(text.replace("pad: 1", "pad: 0"))
    answer = cli("explain", "CG2201", "turn.yaml")
    assert "has 32-way bank conflicts" in answer.out
    assert "\n- `pad: 1` for A of transpose_padded: 62,100 → 4,100 wavefronts;" in answer.out
    assert "A spec that shows it" not in answer.out


def test_a_warning_of_generate_is_found_in_a_file(cli: Cli, here: Path) -> None:
    (here / "slow.yaml").write_text(
        "cugen: 1\nkernel: product\nparams: {N: 512}\narrays:\n"
        + "".join(f"  {name}: {{shape: [N, N], dtype: float32}}\n" for name in "ABC")
        + "compute: C[m, n] = sum(A[m, k] * B[k, n], k)\nschedule: {family: direct}\n"
    )
    answer = cli("explain", "CG2108", "slow.yaml")
    assert "## In slow.yaml\n\nwarning[CG2108]: " in answer.out


def test_a_file_without_the_diagnostic_gets_the_page_and_what_it_has(cli: Cli, here: Path, spec: Path) -> None:
    page = cli("explain", "CG1304").out
    answer = cli("explain", "CG1304", "scale.yaml")
    assert (answer.status, answer.out, answer.err) == (0, page, "scale.yaml has no CG1304\n")
    spec.write_text(spec.read_text().replace("2 * x[i]", "2 * z[i]"))
    assert cli("explain", "CG1304", "scale.yaml").err == "scale.yaml has no CG1304, but CG1201\n"


def test_a_file_that_can_not_be_read_has_no_page(cli: Cli, here: Path) -> None:
    answer = cli("explain", "CG1304", "no.yaml")
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("error[CG1001]: `no.yaml` can't be read")


def test_config_prints_existing_paths_in_the_order_of_the_options(cli: Cli) -> None:
    lines = cli("config", "--schema", "--templates", "--includes", "--version").out.splitlines()
    schema, templates, includes, version = lines
    cmake, make, runtime, flags = cli("config", "--cmakedir", "--makefile", "--runtime", "--cxxflags").out.splitlines()
    assert (Path(cmake) / "cugenConfig.cmake").is_file()
    assert Path(make).is_file()
    assert Path(runtime).is_file()
    assert f"-I{includes}" in flags.split()
    assert json.loads(Path(schema).read_text())["$schema"]
    assert (Path(templates) / "kernel.h.j2").is_file()
    assert (Path(includes) / "cugen_cpu.h").is_file()
    assert version == __version__


def test_config_without_a_question_is_a_wrong_call(cli: Cli) -> None:
    answer = cli("config")
    assert answer.status == 2
    assert "--schema" in answer.err


def test_doctor_is_content_where_a_compiler_works(cli: Cli) -> None:
    answer = cli("doctor")
    assert answer.status == 0
    assert "`cugen run --device cpu` works" in answer.out


@pytest.mark.parametrize(
    ("capability", "text"),
    [("sm_90", "a GPU (sm_90; target sm_90a has its own instructions)"), ("sm_80", "a GPU (sm_80)\n")],
)
def test_doctor_names_the_target_with_the_instructions_of_the_gpu(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, capability: str, text: str
) -> None:
    gpu = SimpleNamespace(limits=lambda _: SimpleNamespace(device="a GPU"), capability=lambda _: capability)
    monkeypatch.setattr(libcuda, "driver", lambda: gpu)
    assert text in cli("doctor").out


@pytest.mark.parametrize(
    ("state", "lines"),
    [
        (pycuda.State("2026.1"), ["ok       PyCUDA         2026.1"]),
        (pycuda.State(), ["missing  PyCUDA         it is not installed", "fix: cugen setup gpu"]),
        (
            pycuda.State("2026.1", "ImportError: undefined symbol: cuX"),
            ["2026.1 can't be imported: ImportError: undefined symbol: cuX", "fix: cugen setup gpu"],
        ),
        (
            pycuda.State("2026.1", "ImportError: libcuda.so.1: cannot open"),
            ["can't be imported: ImportError: libcuda.so.1", "fix: install NVIDIA's driver"],
        ),
    ],
    ids=["works", "not installed", "broken", "no driver"],
)
def test_doctor_says_how_pycuda_is_got(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, state: pycuda.State, lines: list[str]
) -> None:
    monkeypatch.setattr(pycuda, "state", lambda: state)
    out = cli("doctor").out
    part = out[out.index("PyCUDA") - len("missing  ") :]
    assert all(line in part for line in lines)


@pytest.mark.parametrize(
    "error", [ToolMissing("a C++ compiler", "apt install g++"), CompileError(["g++"], "no libstdc++", "probe.cpp")]
)
def test_doctor_exits_3_without_a_working_compiler_and_gives_the_cure(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*args: object) -> object:
        raise error

    monkeypatch.setattr(host, "build", fail)
    answer = cli("doctor")
    assert answer.status == 3
    assert "fix: " in answer.out
    assert "apt install" in answer.out
    assert "doesn't work" in answer.out


def test_doctor_exits_3_without_a_package_of_python_and_gives_the_cure(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert re.search(r"^ok       packages +jinja2, ", cli("doctor").out, re.MULTILINE)
    monkeypatch.setitem(failures.PACKAGES, "no_such_module", "no-such-package")
    answer = cli("doctor")
    assert answer.status == 3
    assert "missing  packages       no-such-package of Python" in answer.out
    assert "-m pip install no-such-package" in answer.out.replace("\n", "")


def test_a_missing_package_is_no_internal_error() -> None:
    failure = failures.failure_of(ModuleNotFoundError("No module named 'yaml'", name="yaml"))
    assert failure is not None
    assert failure.status == 3
    assert failure.text.startswith("error: the Python package pyyaml is not installed\n")
    assert failure.text.endswith(" -m pip install pyyaml")
    assert failures.failure_of(ModuleNotFoundError(name="cugen.nothing")) is None


def test_the_packages_are_those_that_are_installed_with_cugen() -> None:
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert sorted(failures.PACKAGES.values()) == sorted(text.partition(">=")[0] for text in dependencies)


@pytest.mark.slow
def test_doctor_names_a_cache_that_cannot_be_written_and_does_without(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path / "file"))
    answer = cli("doctor")
    assert answer.status == 0
    assert "missing  cache" in answer.out
    assert "CUGEN_CACHE_DIR" in answer.out


def test_a_missing_cuda_compiler_has_a_cure_and_is_no_failure(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "find", lambda: None)
    answer = cli("doctor")
    assert answer.status == 0
    assert "missing  NVRTC" in answer.out
    assert "pip install 'cuda-toolkit" in answer.out
