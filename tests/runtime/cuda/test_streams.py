"""Streams of other libraries have the driver's handle."""

from types import SimpleNamespace

import pytest

from cugen.abi.errors import RunError
from cugen.runtime.cuda.streams import stream_handle


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (None, 0),
        (17, 17),
        (SimpleNamespace(cuda_stream=18), 18),
        (SimpleNamespace(ptr=19), 19),
        (SimpleNamespace(handle=20), 20),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 21)), 21),
    ],
)
def test_streams_of_every_library_are_understood(stream: object, handle: int) -> None:
    assert stream_handle(stream) == handle


def test_what_is_no_stream_is_refused() -> None:
    with pytest.raises(RunError, match="`stream` is a str"):
        stream_handle("default")
