// Boxes of pixels that TMA copies in im2col mode: which pixels of which images, their sectors and picture.
"use strict";

const pixels = ((requests, boxes) => {
  const SECTOR = 32, MAX_PLANES = 6;
  const mod = (a, b) => ((a % b) + b) % b;

  // The boxes that threads of a block copy at some values of blocks and loops. Pixels follow each other in the bounding
  // box of the tensor map, image by image, from the first one on; each is read at the offset of a tap.
  function of(map, block, uniform) {
    const numbers = (trees, values) => trees.map((tree) => requests.evaluate(tree, values));
    const shape = numbers(map.shape, uniform), strides = numbers(map.strides, uniform);
    const counts = map.lower.map((lower, d) => Math.floor((shape[d + 1] + map.upper[d] - lower + map.steps[d] - 1) / map.steps[d]));
    return boxes.copiers(map, block, uniform).map(({ thread, values }) => {
      const first = numbers(map.first, values), offsets = numbers(map.offsets, values);
      const channel = first[first.length - 1], channels = shape[shape.length - 1];
      const part = [Math.max(channel, 0), Math.min(channel + map.box[map.box.length - 1], channels)];
      let number = first[0];
      counts.forEach((count, d) => { number = number * count + (first[d + 1] - map.lower[d]) / map.steps[d]; });
      const made = Array.from({ length: map.box[map.box.length - 2] }, (_, row) => {
        const at = positionOf(map, number + row, counts, offsets);
        return { at, isInside: at.every((value, d) => value >= 0 && value < shape[d]) };
      });
      return { thread, first, offsets, shape, part, pixels: made, ...sectorsOf(map, made, part, strides) };
    });
  }

  // The image and the position in it of the pixel with a number, at the offsets of a tap.
  function positionOf(map, number, counts, offsets) {
    const at = [];
    for (let d = counts.length - 1; d >= 0; d--) {
      at.unshift(map.lower[d] + map.steps[d] * mod(number, counts[d]) + offsets[d]);
      number = Math.floor(number / counts[d]);
    }
    return [number, ...at];
  }

  function sectorsOf(map, made, [low, high], strides) {
    const bytes = Math.max(0, high - low) * map.element_bytes, inside = made.filter((pixel) => pixel.isInside);
    const last = strides.length - 1;
    let sectors = 0;
    for (const { at } of bytes ? inside : []) {
      const offset = at.reduce((sum, value, d) => sum + value * strides[d], low * strides[last]);
      sectors += Math.ceil((mod(offset * map.element_bytes, SECTOR) + bytes) / SECTOR);
    }
    return { inside: inside.length, sectors, ideal: Math.ceil((inside.length * bytes) / SECTOR) };
  }

  // The planes of images that the pixels are in, at most so many, each with its name, its pixels and its rows of the tile.
  function planesOf(copied) {
    const planes = new Map();
    copied.pixels.forEach((pixel, row) => {
      const key = pixel.at.slice(0, copied.shape.length === 3 ? 1 : -2).join(", ");
      planes.set(key, [...(planes.get(key) || []), { ...pixel, row }]);
    });
    return [...planes];
  }

  // SVG of a plane of an image: its pixels that are copied, in the colours of the quarters of the tile, and in another
  // one those beyond the edge, in place of which zeros are copied.
  function planePicture(copied, list, label) {
    const isLine = copied.shape.length === 3, size = copied.shape.slice(0, -1);
    const [rows, columns] = isLine ? [1, size[1]] : size.slice(-2);
    const of = (pixel) => (isLine ? [0, pixel.at[1]] : pixel.at.slice(-2));
    const [tops, lefts] = [0, 1].map((axis) => list.map((pixel) => of(pixel)[axis]));
    const top = Math.min(...tops), bottom = Math.max(...tops) + 1;
    const left = Math.min(0, ...lefts), right = Math.max(columns, ...lefts.map((value) => value + 1));
    const scale = Math.max(3, Math.min(16, Math.floor(512 / (right - left))));
    const x0 = 48, y0 = 20, x = (column) => x0 + (column - left) * scale, y = (row) => y0 + (row - top) * scale;
    const wide = (right - left) * scale, high = (bottom - top) * scale, quarter = copied.pixels.length / 4;
    const cells = list.map((pixel) => {
      const [row, column] = of(pixel), kind = pixel.isInside ? `q${Math.floor(pixel.row / quarter)}` : "beyond";
      return `<g><title>row ${pixel.row} of the tile: (${pixel.at.join(", ")})${pixel.isInside ? "" : ", zeros"}</title>` +
        `<rect class="${kind}" x="${x(column) + 0.5}" y="${y(row) + 0.5}" width="${scale - 1}" height="${scale - 1}"/></g>`;
    });
    const edges = [[0, columns].map((at) => [x(at), y0 - 3, x(at), y0 + high + 3]),
      [0, rows].filter((at) => at >= top && at <= bottom).map((at) => [x0 - 3, y(at), x0 + wide + 3, y(at)])].flat();
    const lines = edges.map(([x1, y1, x2, y2]) => `<line class="edge" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"/>`);
    const text = (at, down, anchor, number) => `<text class="head" x="${at}" y="${down}" text-anchor="${anchor}">${number}</text>`;
    const heads = [text(x0, 12, "start", left), text(x0 + wide, 12, "end", right - 1)];
    if (!isLine) heads.push(text(x0 - 8, y0 + 10, "end", top));
    if (bottom - top > 1 && high > 24) heads.push(text(x0 - 8, y0 + high, "end", bottom - 1));
    return `<svg class="map" viewBox="0 0 ${x0 + wide + 8} ${y0 + high + 8}" width="${x0 + wide + 8}" height="${y0 + high + 8}" ` +
      `role="img" aria-label="${label}">${cells.join("")}${lines.join("")}${heads.join("")}</svg>`;
  }

  // The pictures of the planes, each with its name.
  function picture(copied) {
    const planes = planesOf(copied), images = copied.shape[0];
    const made = planes.slice(0, MAX_PLANES).map(([key, list]) => {
      const kind = copied.shape.length > 4 ? `plane (${key}, ·, ·)` : `image ${key}`;
      const inside = list.filter((pixel) => pixel.isInside).length;
      const name = `${kind}: ${inside} of ${list.length} pixels inside` + (list[0].at[0] >= images ? ", after the last image" : "");
      return `<figure class="plane"><figcaption>${name}</figcaption>${planePicture(copied, list, name)}</figure>`;
    });
    const others = planes.length - made.length;
    return made.join("") + (others > 0 ? `<p>and ${others} more</p>` : "");
  }

  return { of, picture };
})(...(typeof module === "undefined" ? [requests, boxes] : [require("./requests.js"), require("./boxes.js")]));

if (typeof module !== "undefined") module.exports = pixels;
