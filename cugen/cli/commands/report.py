"""Write a page of HTML for each kernel: the source beside its accesses, maps of banks and sectors, occupancy, traffic
and roofline. A page needs nothing but a browser; nothing runs, and nothing is compiled."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cugen.cli.failures import DONE, failure_of, files_of_the_user, wrong_call
from cugen.cli.numbers import port
from cugen.cli.outputs import refuse_no_file, refuse_unwritable
from cugen.cli.specs import (
    add_lock_options,
    add_options,
    baseline_of,
    baselines,
    dynamic_params,
    file_and_kernel,
    known_device_of,
    load_files,
    lock_of,
    settings_of,
    warn,
    with_locks,
)
from cugen.cli.text.terminal import note, progress

if TYPE_CHECKING:
    from cugen.report.page import Page
    from cugen.report.server import Site
    from cugen.spec.model import Spec

_PAGE = (".html", ".htm")
_INDEX = "index"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("specs", metavar="SPEC", nargs="+", help="spec file")
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="page of one kernel (`page.html`), or a folder for an index and a page for each kernel",
    )
    parser.add_argument(
        "--serve",
        metavar="PORT",
        type=port,
        help="serve the pages on this machine, in place of files, and reload them as specs change; 0: any free port",
    )
    parser.add_argument("--kernel", metavar="NAME", help="only this kernel")
    parser.add_argument(
        "--diff",
        metavar="OTHER",
        help="what each kernel is compared with, as the baseline: a spec file, SPEC:KERNEL, or a lock file "
        "(OTHER.lock), for the same kernels with its schedules",
    )
    parser.add_argument(
        "--counters", metavar="FILE", help="counters of a GPU, as `benchmarks/machine/counters.py compare` writes them"
    )
    parser.add_argument(
        "--sass", metavar="FILE", help="machine code of the kernels, as `inspect --what sass` prints it"
    )
    add_options(parser)
    add_lock_options(parser)


def execute(args: argparse.Namespace) -> int:
    if (args.output is None) == (args.serve is None):
        page = f"{Path(args.specs[0]).stem}.html" if len(args.specs) == 1 else "pages"
        raise wrong_call("give either `-o PATH` or `--serve PORT`", f"`-o {page}` writes what a browser opens")
    if args.serve is not None:
        return _serve(args)
    output = Path(args.output)
    is_page = output.suffix.lower() in _PAGE
    if is_page:
        refuse_no_file("-o", output)
    refuse_unwritable("-o", output, output.parent if is_page else output)
    specs = _load(args)
    if is_page and len(specs) > 1:
        raise wrong_call(
            f"`-o {args.output}` is one page, and there are {len(specs)} kernels",
            "give a folder, or choose one with `--kernel`",
        )
    texts = _texts(specs, args, with_index=not is_page)
    if is_page:
        (text,) = texts.values()
        _write({output: text}, args)
    else:
        _write({output / name: text for name, text in texts.items()}, args)
    return DONE


def _write(texts: Mapping[Path, str], args: argparse.Namespace) -> None:
    from cugen.emit.files import File, write_file

    with files_of_the_user():
        for path, text in texts.items():
            write_file(File(path, text.encode()))
            note(f"wrote {path}", quiet=args.quiet)


def _serve(args: argparse.Namespace) -> int:
    from cugen.report.server import Server

    with files_of_the_user():
        server = Server(lambda: _site(args), args.serve)
    note(f"serving {server.url} until it is interrupted", quiet=False)
    try:
        server.run()
    except KeyboardInterrupt:
        note("ended", quiet=args.quiet)
    return DONE


def _site(args: argparse.Namespace) -> Site:
    """The pages of the files as they are; in place of a page that can't be made, why."""
    from cugen.report.html import failure_html
    from cugen.report.server import Site

    diff = file_and_kernel(args.diff)[0] if args.diff else None
    given = (*args.specs, *filter(None, (diff, args.counters, args.sass)))
    files = [*given, *(lock_of(file, args) for file in args.specs)]
    first = f"{_INDEX}.html"
    try:
        specs = _load(args)
        files += [file for spec in specs for file in spec.dependencies]
        with_index = len(specs) > 1
        texts = _texts(specs, args, with_index=with_index)
        first = first if with_index else next(iter(texts))
    except Exception as error:
        failure = failure_of(error)
        if failure is None:
            raise
        texts = {first: failure_html(failure.text)}
    return Site(texts, first, tuple(Path(file) for file in dict.fromkeys(files) if file is not None))


def _load(args: argparse.Namespace) -> tuple[Spec, ...]:
    if not args.kernel:
        return load_files(args.specs, args)
    from cugen.spec.load import load

    return tuple(load(file, settings_of(args), kernel=args.kernel, target=args.target) for file in args.specs)


def _texts(specs: Sequence[Spec], args: argparse.Namespace, *, with_index: bool) -> dict[str, str]:
    """The pages of the specs, with the schedules of their lock files, by file name."""
    from cugen.report.html import index_html

    names = [spec.kernel for spec in specs]
    for name in names:
        if names.count(name) > 1 or (name == _INDEX and with_index):
            raise wrong_call(
                f"`{name}.html` would be written twice", "choose other files, or one kernel with `--kernel`"
            )
    attachments = _attachments(specs, args)
    tuned = with_locks(specs, args)
    pages = [_page(spec, args) for spec in progress(tuned, len(tuned), "analysing", quiet=args.quiet)]
    texts = {f"{page.kernel.name}.html": _html(page, len(pages), attachments, args) for page in pages}
    if with_index:
        texts[f"{_INDEX}.html"] = index_html(pages)
    return texts


@dataclass(frozen=True)
class _Attachments:
    """The pages of `--diff`, and the contents of `--counters` and `--sass`."""

    baselines: tuple[Page, ...]
    counters: Mapping[str, Any] | None
    sass: str


def _attachments(specs: Sequence[Spec], args: argparse.Namespace) -> _Attachments:
    from cugen.report.attachments import counters

    others = baselines(args.diff, specs, args) if args.diff else ()
    read = None
    if args.counters:
        try:
            read = counters.read(_text(args.counters))
        except counters.UnreadableCounters as error:
            raise wrong_call(f"`--counters {args.counters}`: {error}") from None
    return _Attachments(tuple(_page(spec, args) for spec in others), read, _text(args.sass) if args.sass else "")


def _text(file: str) -> str:
    with files_of_the_user():
        return Path(file).read_text(errors="replace")


def _page(spec: Spec, args: argparse.Namespace) -> Page:
    from cugen.kernel import generate
    from cugen.kernel_report import analyze
    from cugen.report.page import page
    from cugen.schedule.lock import refused_warning

    kernel, params = generate(spec), dynamic_params(spec, args)
    warn(refused_warning(kernel.spec), args)
    report = analyze(kernel, params=params, device=known_device_of(spec, args.device_name))
    return page(kernel, report, params)


def _html(page: Page, pages: int, attachments: _Attachments, args: argparse.Namespace) -> str:
    from cugen.analysis.launches.comparison import compare
    from cugen.report.attachments.counters import UnreadableCounters, counters_of
    from cugen.report.attachments.machine_code import sass_of
    from cugen.report.html import page_html

    baseline = None
    if others := attachments.baselines:
        names = [each.kernel.name for each in others]
        baseline = others[baseline_of(page.kernel.name, pages, names, args.diff)]
    counters, sass = None, sass_of(page, attachments.sass)
    if attachments.counters is not None:
        try:
            counters = counters_of(page, attachments.counters)
        except UnreadableCounters as error:
            raise wrong_call(f"`--counters {args.counters}`: {error}") from None
        if counters is None:
            note(f"{page.kernel.name}: {args.counters} has no counters of it", quiet=args.quiet)
    if attachments.sass and not sass:
        note(f"{page.kernel.name}: {args.sass} has no instructions with lines of it", quiet=args.quiet)
    comparison = compare(baseline.compared, page.compared) if baseline is not None else None
    return page_html(page, comparison=comparison, counters=counters, sass=sass)
