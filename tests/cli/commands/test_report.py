"""`cugen report`: a page, or a folder with an index."""

from __future__ import annotations

import socket

import pytest

SECOND = """\
cugen: 1
kernel: halve
params: {N: dynamic}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = 0.5 * x[i]
"""


def test_one_kernel_is_written_as_one_page(cli, spec, tmp_path):
    output = tmp_path / "pages" / "page.html"
    answer = cli("report", spec, "-o", output)
    assert (answer.status, answer.out) == (0, "")
    assert str(output) in answer.err
    assert "<h1>scale</h1>" in output.read_text()
    assert [path.name for path in output.parent.iterdir()] == ["page.html"]


def test_several_kernels_are_written_into_a_folder_with_an_index(cli, spec, tmp_path):
    second = tmp_path / "halve.yaml"
    second.write_text(SECOND)
    folder = tmp_path / "pages"
    assert cli("report", spec, second, "-o", folder, "-q").status == 0
    assert sorted(path.name for path in folder.iterdir()) == ["halve.html", "index.html", "scale.html"]
    assert "N has no value" in (folder / "halve.html").read_text()


def test_set_gives_a_dynamic_param_its_value(cli, tmp_path):
    second, output = tmp_path / "halve.yaml", tmp_path / "halve.html"
    second.write_text(SECOND)
    assert cli("report", second, "-o", output, "--set", "N=4096").status == 0
    assert "N = 4,096" in output.read_text()
    assert "N has no value" not in output.read_text()


def test_several_kernels_are_no_page_and_two_of_a_name_no_folder(cli, spec, tmp_path):
    second = tmp_path / "halve.yaml"
    second.write_text(SECOND)
    answer = cli("report", spec, second, "-o", tmp_path / "page.html")
    assert (answer.status, "2 kernels" in answer.err) == (2, True)
    copy = tmp_path / "copy.yaml"
    copy.write_text(spec.read_text())
    answer = cli("report", spec, copy, "-o", tmp_path / "pages")
    assert (answer.status, "`scale.html` would be written twice" in answer.err) == (2, True)
    assert not (tmp_path / "pages").exists()


def test_a_device_of_another_target_is_refused(cli, spec, tmp_path):
    answer = cli("report", spec, "-o", tmp_path / "page.html", "--device-name", "A100")
    assert (answer.status, "A100 is sm_80" in answer.err) == (2, True)


def test_findings_of_a_rejected_spec_are_printed_and_nothing_written(cli, spec, tmp_path):
    spec.write_text(spec.read_text().replace("2 * x[i]", "2 * z[i]"))
    answer = cli("report", spec, "-o", tmp_path / "page.html")
    assert answer.status == 2
    assert "z" in answer.err
    assert not (tmp_path / "page.html").exists()


def test_a_baseline_and_files_that_fit_are_on_the_page(cli, spec, tmp_path):
    wide, output = tmp_path / "wide.yaml", tmp_path / "page.html"
    wide.write_text(spec.read_text().replace("kernel: scale", "kernel: wide").replace("{family: direct}", "{}"))
    counters, sass = tmp_path / "counters.json", tmp_path / "code.sass"
    counters.write_text('{"device": "H", "date": "D", "kernels": [{"kernel": "another"}]}')
    sass.write_text("")
    answer = cli("report", spec, "-o", output, "--diff", wide, "--counters", counters, "--sass", sass)
    assert answer.status == 0
    assert "has no counters of it" in answer.err
    assert "Compared with wide of wide.yaml" in output.read_text()


def test_a_lock_file_is_a_baseline(cli, locked, tmp_path):
    old, output = locked("old.lock", 1), tmp_path / "page.html"
    assert cli("report", tmp_path / "open.yaml", "-o", output, "--diff", old).status == 0
    page = output.read_text()
    assert "Compared with scale of open.yaml with old.lock" in page
    assert '<tr><th scope="row">schedule.y.vector</th><td>1</td><td>4</td></tr>' in page


def test_files_that_do_not_fit_are_refused(cli, spec, tmp_path):
    damaged = tmp_path / "counters.json"
    damaged.write_text("{}")
    answer = cli("report", spec, "-o", tmp_path / "page.html", "--counters", damaged)
    assert (answer.status, "isn't a file" in answer.err) == (2, True)
    answer = cli("report", spec, "-o", tmp_path / "page.html", "--sass", tmp_path / "missing.sass")
    assert (answer.status, "missing.sass" in answer.err) == (2, True)
    second = tmp_path / "halve.yaml"
    second.write_text(SECOND)
    answer = cli("report", spec, second, "-o", tmp_path / "pages", "--diff", spec)
    assert (answer.status, "has no kernel halve" in answer.err) == (2, True)


def test_pages_are_either_written_or_served(cli, spec, tmp_path):
    answer = cli("report", spec)
    assert (answer.status, f"= help: `-o {spec.stem}.html` writes what a browser opens" in answer.err) == (2, True)
    answer = cli("report", spec, "-o", tmp_path / "page.html", "--serve", "0")
    assert (answer.status, "either `-o PATH` or `--serve PORT`" in answer.err) == (2, True)


def test_a_port_in_use_is_an_error_of_the_call(cli, spec):
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        answer = cli("report", spec, "--serve", used.getsockname()[1])
    assert (answer.status, "in use" in answer.err) == (2, True)


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_that_there_is_not_is_an_error_of_the_call(cli, spec, port):
    answer = cli("report", spec, "--serve", port)
    assert (answer.status, f"expected a port from 0 to 65535, not '{port}'" in answer.err) == (2, True)
