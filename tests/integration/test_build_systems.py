"""`examples/cpp`, a C++ project, under each build system: what is built at first, and what again after each change."""

from __future__ import annotations

import re
import shutil
from abc import ABC, abstractmethod
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "cpp"
RELEASE = Path(__file__).parents[1] / "data" / "release_0_1" / "examples" / "cpp"
KERNELS = ("gemm", "axpy", "total")
SUFFIXES = (".cu", ".h", ".hpp", ".json")
ALL = {"gemm kernel", "axpy kernel", "total kernel", "gemm program", "vectors program"}


class Project(ABC):
    """A copy of the example and how one build system is called. `rewrites`: files are written though their bytes are
    the same, which rebuilds what depends on them."""

    rewrites = False
    output = "build"
    example = EXAMPLE

    def __init__(self, folder, environment, device="cpu"):
        self.folder = folder / "project"
        self.environment = environment
        self.device = device
        shutil.copytree(self.example, self.folder)

    @abstractmethod
    def configure(self, rows):
        """Once before the first build, and when the number of rows changes."""

    @abstractmethod
    def command(self):
        """The words that build."""

    def build(self):
        """Builds, and sees what that wrote: the names of generated files, and what was compiled."""
        before = self._times()
        done = self.environment.run(self.command(), self.folder)
        assert done.status == 0, done.text
        changed = [path for path, time in self._times().items() if before.get(path) != time]
        written = {path.name for path in changed if path.stem in KERNELS and path.suffix in SUFFIXES}
        compiled = {label for path in changed if path.suffix == ".o" and (label := self._label(path))}
        return written, compiled

    def fails(self):
        done = self.environment.run(self.command(), self.folder)
        assert done.status != 0
        return done.text

    def spec(self, name):
        return self.folder / "kernels" / f"{name}.yaml"

    def generated(self, name):
        (path,) = (self.folder / self.output).rglob(name)
        return path

    def run_programs(self):
        return [
            self.environment.must([self.folder / self.output / program], self.folder) for program in ("gemm", "vectors")
        ]

    def _times(self):
        return {path: path.stat().st_mtime_ns for path in (self.folder / self.output).rglob("*") if path.is_file()}

    @staticmethod
    def _label(path):
        """`gemm kernel`, `gemm program`; nothing for what belongs to no kernel."""
        name = re.search(r"(gemm|axpy|total|vectors)(_cpu)?(\.cpp|\.cu)?(\.cpu|\.gpu)?\.o$", path.name)
        if name is None:
            return None
        kernel = name[2] or name[3] == ".cu" or path.parent.name.endswith("_kernels")
        return f"{name[1]} {'kernel' if kernel else 'program'}"


class CMake(Project):
    generator = "Ninja"

    def configure(self, rows):
        words = ["-G", self.generator, f"-DROWS={rows}", f"-DCUGEN_DEVICE={self.device}"]
        self.environment.must(
            ["cmake", "-B", "build", *words, f"-DCMAKE_PREFIX_PATH={self.environment.packages}"], self.folder
        )

    def command(self):
        return ["cmake", "--build", "build"]


class CMakeMakefiles(CMake):
    generator = "Unix Makefiles"
    rewrites = True


class Make(Project):
    rewrites = True

    def configure(self, rows):
        self.rows = rows

    def command(self):
        return ["make", f"ROWS={self.rows}", f"CUGEN_DEVICE={self.device}"]


class Meson(Project):
    def configure(self, rows):
        words = ["configure"] if (self.folder / "build").exists() else ["setup"]
        self.environment.must(["meson", *words, "build", f"-Drows={rows}", f"-Ddevice={self.device}"], self.folder)

    def command(self):
        return ["meson", "compile", "-C", "build"]


class Ninja(Project):
    def configure(self, rows):
        path = self.folder / "build.ninja"
        path.write_text(re.sub(r"^rows = .*$", f"rows = {rows}", path.read_text(), flags=re.MULTILINE))

    def command(self):
        return ["ninja"]


class MesonOf01(Meson):
    example = RELEASE


class NinjaOf01(Ninja):
    example = RELEASE


# A machine needs no CUDA: where there is a compiler of it, kernels are built with that too.
NVCC = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
DEVICES = [(Make, "cpu"), *((system, "gpu") for system in (CMake, Make, Meson) if NVCC)]


@pytest.fixture(params=[CMake, CMakeMakefiles, Make, Meson, Ninja], ids=lambda system: system.__name__)
def project(request, tmp_path, own_environment):
    """Built once."""
    made = request.param(tmp_path, own_environment)
    made.configure(96)
    written, compiled = made.build()
    assert written == {f"{name}{suffix}" for name in KERNELS for suffix in SUFFIXES}
    assert compiled == ALL
    assert made.run_programs() == [
        "gemm of 96 x 64 x 128: 0 of 12288 elements differ\n",
        "sum of 100003 elements: 500008, expected 500008\n",
    ]
    return made


def files(name):
    return {f"{name}{suffix}" for suffix in SUFFIXES}


def wait_until_built(project):
    """Another build does nothing."""
    assert project.build() == (set(), set())


def touch_a_spec(project):
    project.spec("axpy").touch()
    everything = (files("axpy"), {"axpy kernel", "vectors program"})
    assert project.build() == (everything if project.rewrites else (set(), set()))


def edit_a_spec(project):
    spec = project.spec("axpy")
    spec.write_text(spec.read_text().replace("doc: y = a·x + y", "doc: y grows by a·x"))
    assert project.build() == (files("axpy"), {"axpy kernel", "vectors program"})
    assert "y grows by a·x" in project.generated("axpy.cu").read_text()


def delete_an_output(project):
    for suffix in SUFFIXES:
        project.generated(f"total{suffix}").unlink()
        written, compiled = project.build()
        assert f"total{suffix}" in written
        assert written <= files("total")
        assert compiled <= {"total kernel", "vectors program"}
        wait_until_built(project)


def delete_the_shared_header(project):
    for header in (project.folder / project.output).rglob("cugen_launch.hpp"):
        text = header.read_text()
        header.unlink()
        written, compiled = project.build()
        assert (written, header.read_text()) == (set(), text)
        assert compiled <= ALL
        wait_until_built(project)


def give_a_param_another_value(project):
    project.configure(128)
    assert project.build() == (files("gemm"), {"gemm kernel", "gemm program"})
    assert project.run_programs()[0] == "gemm of 128 x 64 x 128: 0 of 16384 elements differ\n"


def break_a_spec_and_mend_it(project):
    spec = project.spec("axpy")
    good = spec.read_text()
    spec.write_text(good.replace("y: {shape: [N], dtype: float32}", "y: {shape: [N], dtype: float33}"))
    for _ in range(2):
        text = project.fails()
        (location,) = re.findall(r"^(.*axpy\.yaml):8:26: error: there is no dtype `float33` \[CG1028\]$", text, re.M)
        assert spec in {(folder / location).resolve() for folder in (project.folder, project.folder / project.output)}
        assert "8 |   y: {shape: [N], dtype: float33}" in text
    spec.write_text(good)
    written, compiled = project.build()
    assert written <= files("axpy")
    assert compiled <= {"axpy kernel", "vectors program"}


def keep_a_lock_with_the_specs(project):
    lock = project.folder / "kernels" / "cugen.lock"
    lock.write_text("cugen_lock: 1\nkernels: []\n")
    project.configure(128)
    for name in KERNELS:
        project.spec(name).touch()
    written, _ = project.build()
    assert written == ({f"{name}{suffix}" for name in KERNELS for suffix in SUFFIXES} if project.rewrites else set())
    wait_until_built(project)
    lock.write_text("cugen_lock: 1\nkernels: 3\n")
    assert re.search(r"cugen\.lock:2:10: error: ", project.fails())
    lock.unlink()
    project.build()


def change_a_template(project):
    template = project.environment.packages / "cugen" / "_data" / "templates" / "kernel.cu.j2"
    text = template.read_text()
    template.write_text(text.replace('extern "C" __global__', '// Made here.\nextern "C" __global__'))
    written, compiled = project.build()
    assert {"gemm.cu", "axpy.cu", "total.cu"} <= written
    assert compiled == (ALL if project.rewrites else {"gemm kernel", "axpy kernel", "total kernel"})
    assert "// Made here." in project.generated("axpy.cu").read_text()


def test_each_change_rebuilds_what_depends_on_it_and_nothing_else(project):
    wait_until_built(project)
    for change in (
        touch_a_spec,
        edit_a_spec,
        delete_an_output,
        delete_the_shared_header,
        give_a_param_another_value,
        break_a_spec_and_mend_it,
        keep_a_lock_with_the_specs,
        change_a_template,
    ):
        change(project)
        wait_until_built(project)


@pytest.mark.parametrize("system", [MesonOf01, NinjaOf01], ids=lambda system: system.__name__)
def test_build_files_of_0_1_declare_no_typed_headers_and_still_work(system, tmp_path, installed):
    project = system(tmp_path, installed)
    project.configure(96)
    _, compiled = project.build()
    assert compiled == ALL
    project.run_programs()
    wait_until_built(project)
    edit_a_spec(project)
    wait_until_built(project)


def test_a_depfile_of_0_1_is_read_though_it_names_templates_that_are_gone(tmp_path, installed):
    project = Ninja(tmp_path, installed)
    project.configure(96)
    project.build()
    shutil.copy(RELEASE / "axpy.d", project.folder / "build")
    assert project.build() == (set(), set())  # made again, with the same bytes
    assert "cugen_launch.hpp.j2" in (project.folder / "build" / "axpy.d").read_text()
    wait_until_built(project)


@pytest.mark.parametrize(("system", "device"), DEVICES, ids=lambda value: getattr(value, "__name__", value))
def test_programs_are_linked_for_every_device_that_there_is_a_compiler_for(system, device, tmp_path, installed):
    project = system(tmp_path, installed, device)
    project.configure(96)
    _, compiled = project.build()
    assert compiled == ALL
    needed = installed.must(["nm", "--undefined-only", project.folder / project.output / "gemm"], project.folder)
    defined = installed.must(["nm", "--defined-only", project.folder / project.output / "gemm"], project.folder)
    assert ("cudaLaunchKernel" in needed + defined) == (device == "gpu")
    wait_until_built(project)


def test_the_default_goal_of_make_is_the_first_rule_of_the_user(tmp_path, installed):
    shutil.copytree(EXAMPLE / "kernels", tmp_path / "kernels")
    (tmp_path / "Makefile").write_text(
        "include $(shell cugen config --makefile)\n"
        "$(eval $(call cugen_kernels,mine,kernels/axpy.yaml))\n"
        "first:\n\t@echo the first rule\n"
    )
    assert installed.must(["make", "CUGEN_DEVICE=cpu"], tmp_path).splitlines()[-1] == "the first rule"


@pytest.mark.parametrize(
    "changed", [["CUGEN_CXXFLAGS=-O1 -DQUOTED='1'"], ["CUGEN_DEVICE=gpu"]], ids=["flags", "device"]
)
def test_objects_of_other_flags_or_devices_are_not_linked(changed, tmp_path, installed):
    if "CUGEN_DEVICE=gpu" in changed and not NVCC:
        pytest.skip("NO nvcc, THE SWITCH OF DEVICES IS UNTESTED")
    project = Make(tmp_path, installed, "cpu")
    project.configure(96)
    project.build()
    first = project.command()
    for words in ([*first, *changed], first):
        project.command = lambda words=words: words
        _, compiled = project.build()
        assert compiled == ALL
        wait_until_built(project)
