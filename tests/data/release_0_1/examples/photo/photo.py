"""Blurs a photograph and finds its edges: writes photo.png, blurred.png and edges.png."""

from __future__ import annotations

import argparse
from pathlib import Path

import pywt.data
from PIL import Image

import cugen

SPEC = Path(__file__).with_name("photo.yaml")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("auto", "gpu", "cpu"), default="auto")
    parser.add_argument("--folder", type=Path, default=Path(), help="where the images go (default: here)")
    args = parser.parse_args()

    photo = pywt.data.camera()  # bytes, [512, 512]
    height, width = photo.shape
    images = {"photo": photo}
    for kernel, source in (("blur", "photo"), ("edges", "blurred")):
        spec = cugen.load(SPEC, params={"H": height, "W": width}, kernel=kernel)
        images |= cugen.run(spec, photo=images[source], device=args.device)

    args.folder.mkdir(parents=True, exist_ok=True)
    for name, image in images.items():
        Image.fromarray(image).save(args.folder / f"{name}.png")
        print(args.folder / f"{name}.png")


if __name__ == "__main__":
    main()
