"""Lays one image over another with a kernel from blend.yaml: arrays of CuPy go straight into it."""

import argparse
from pathlib import Path

import cugen


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("gpu", "cpu"), default="gpu", help="cpu takes arrays of NumPy")
    device = parser.parse_args().device
    if device == "gpu":
        import cupy as xp
    else:
        import numpy as xp

    spec = cugen.load(Path(__file__).parent / "blend.yaml")
    blend = cugen.generate(spec).compile(device=device)

    height, width = 480, 640
    below = xp.zeros((height, width, 3), xp.uint8)
    above = xp.full((height, width, 3), 200, xp.uint8)
    opacity = xp.broadcast_to(xp.linspace(0, 1, width, dtype=xp.float32), (height, width))

    # What is broadcast has a stride of 0, which the kernel wasn't made for: it says so, and copies nothing by itself.
    try:
        blend(below=below, above=above, opacity=opacity, out=xp.empty_like(below))
    except cugen.RunError as error:
        print(error)

    out = xp.empty_like(below)
    blend(below=below, above=above, opacity=xp.ascontiguousarray(opacity), out=out)

    if device == "gpu":  # in the order of a stream, without waiting
        stream = xp.cuda.Stream()
        stream.wait_event(xp.cuda.get_current_stream().record())
        with stream:
            again = xp.empty_like(below)
            dense = xp.ascontiguousarray(opacity)
            blend(below=below, above=above, opacity=dense, out=again, stream=stream)
        stream.synchronize()
        assert (again == out).all()

    expected = xp.rint(opacity[..., None] * above.astype(xp.float32)).astype(xp.uint8)
    assert abs(out.astype(xp.int32) - expected).max() <= 1
    print(f"blended {height} × {width} pixels on the {device}")


if __name__ == "__main__":
    main()
