"""Taking apart what compilers print; the texts were captured from the tools."""

import pytest

from cugen.toolchain.messages import Message, Spills, parse, serialised_wgmmas, spills, warnings

NVCC = """\
k.cu(9): warning #177-D: variable "unused" was declared but never referenced
  int unused = 3;
      ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

k.cu(3): error: identifier "missing" is undefined
      a[0] = missing;
             ^

1 error detected in the compilation of "k.cu".
"""
PTXAS = """\
ptxas info    : Overriding maximum register limit 256 for 'dyn' with  40 of maxrregcount option
ptxas info    : 0 bytes gmem, 148 bytes cmem[3]
ptxas info    : Compiling entry function 'spilly' for 'sm_90'
ptxas info    : Function properties for spilly
{margin}184 bytes stack frame, 360 bytes spill stores, 388 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 184 bytes cumulative stack size
ptxas info    : Function properties for helper
{margin}8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads
ptxas info    : Compiling entry function 'dyn' for 'sm_90'
ptxas info    : Function properties for dyn
{margin}0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""


def test_front_end_messages_have_their_lines() -> None:
    assert parse(NVCC) == (
        Message("warning", 'variable "unused" was declared but never referenced', "k.cu", 9),
        Message("error", 'identifier "missing" is undefined', "k.cu", 3),
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param(
            "ptxas error   : Entry function 'f' uses too much shared data (0x10000 bytes, 0xc000 max)",
            Message("error", "Entry function 'f' uses too much shared data (0x10000 bytes, 0xc000 max)"),
            id="ptxas error",
        ),
        pytest.param(
            "ptxas fatal   : Ptx assembly aborted due to errors",
            Message("error", "Ptx assembly aborted due to errors"),
            id="ptxas fatal",
        ),
        pytest.param(
            "nvcc fatal   : Unsupported gpu architecture 'sm_20'",
            Message("error", "Unsupported gpu architecture 'sm_20'"),
            id="nvcc fatal",
        ),
        pytest.param(
            "nvrtc: error: invalid value for --gpu-architecture (-arch)",
            Message("error", "invalid value for --gpu-architecture (-arch)"),
            id="nvrtc",
        ),
        pytest.param(
            "ptxas k.ptx, line 12; error   : Unknown symbol 'x'",
            Message("error", "Unknown symbol 'x'", "k.ptx", 12),
            id="ptxas with a line",
        ),
        pytest.param(
            "k.cu:1:10: fatal error: foo.h: No such file or directory",
            Message("error", "foo.h: No such file or directory", "k.cu", 1),
            id="fatal error",
        ),
        pytest.param(
            "k.cu:7:3: warning: unused variable 'x'", Message("warning", "unused variable 'x'", "k.cu", 7), id="warning"
        ),
        pytest.param(
            'k.cu(1): catastrophic error: cannot open source file "foo.h"',
            Message("error", 'cannot open source file "foo.h"', "k.cu", 1),
            id="catastrophic error",
        ),
    ],
)
def test_every_tool_s_form_is_understood(line: str, expected: Message) -> None:
    assert parse(line) == (expected,)


def test_what_is_neither_error_nor_warning_is_left_out() -> None:
    assert parse(PTXAS.format(margin="    ")) == ()


@pytest.mark.parametrize("margin", ["    ", "ptxas         .     "])  # nvcc's and NVRTC's
def test_spills_belong_to_their_kernel_and_not_to_the_functions_it_calls(margin: str) -> None:
    assert spills(PTXAS.format(margin=margin)) == {"spilly": Spills(360, 388), "dyn": Spills(0, 0)}


@pytest.mark.parametrize(
    "text",
    [
        "nvrtc: warning : Architectures prior to '<compute/sm>_75' are deprecated and may be removed in a future "
        "release",
        "nvcc warning : Support for offline compilation for architectures prior to '<compute/sm/lto>_75' will be "
        "removed in a future release (Use -Wno-deprecated-gpu-targets to suppress warning).",
    ],
)
def test_that_a_target_is_deprecated_is_no_warning_about_the_code(text: str) -> None:
    assert [message.text for message in warnings(f"{text}\n{NVCC}")] == [
        'variable "unused" was declared but never referenced'
    ]


def test_serialised_wgmmas_belong_to_their_kernel() -> None:
    log = (
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
        "insufficient register resources for the wgmma pipeline in the function 'product'\n"
        "ptxas info    : 0 bytes gmem\n"
    )
    why = "C7510, due to insufficient register resources for the wgmma pipeline"
    assert serialised_wgmmas(log) == {"product": why}
    assert serialised_wgmmas(PTXAS.format(margin="    ")) == {}
