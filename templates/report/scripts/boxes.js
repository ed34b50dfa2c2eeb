// Boxes that TMA copies from or to an array: their coordinates, sectors and picture; and the 16-byte chunks of swizzled
// rows in shared memory.
"use strict";

const boxes = ((requests, { thousands }) => {
  const SECTOR = 32;
  const mod = (a, b) => ((a % b) + b) % b;

  // The threads of a block that copy a box at some values of blocks and loops, each with the values of all names.
  function copiers(map, block, uniform) {
    const [x, y, z] = block, made = [];
    for (let thread = 0; thread < x * y * z; thread++) {
      const indices = [thread % x, Math.floor(thread / x) % y, Math.floor(thread / (x * y))];
      const values = { ...uniform, ...requests.threadOf(indices) };
      if (map.conditions.every((condition) => requests.holds(condition, values))) made.push({ thread, values });
    }
    return made;
  }

  // The boxes of these threads: the first coordinates, the part inside the array along each dimension, and its sectors,
  // which each row of the box spans.
  function of(map, block, uniform) {
    const numbers = (trees, values) => trees.map((tree) => requests.evaluate(tree, values));
    const shape = numbers(map.shape, uniform), strides = numbers(map.strides, uniform);
    return copiers(map, block, uniform).map(({ thread, values }) => {
      const first = numbers(map.first, values);
      const inside = first.map((low, d) => [Math.max(low, 0), Math.min(low + map.box[d], shape[d])]);
      return { thread, first, inside, shape, strides, ...sectorsOf(map, inside, strides) };
    });
  }

  function sectorsOf(map, inside, strides) {
    const counts = inside.map(([low, high]) => Math.max(0, high - low)), last = counts.length - 1;
    const elements = counts.reduce((product, count) => product * count, 1);
    if (!elements) return { elements, sectors: 0, ideal: 0 };
    const row = counts[last] * map.element_bytes;
    let sectors = 0;
    const walk = (dimension, offset) => {
      if (dimension === last) {
        const start = mod((offset + inside[last][0] * strides[last]) * map.element_bytes, SECTOR);
        sectors += Math.ceil((start + row) / SECTOR);
        return;
      }
      for (let at = inside[dimension][0]; at < inside[dimension][1]; at++) walk(dimension + 1, offset + at * strides[dimension]);
    };
    walk(0, 0);
    return { elements, sectors, ideal: Math.ceil((elements * map.element_bytes) / SECTOR) };
  }

  // Boundaries of sectors in the rows of a box, as [row, column]; columns are those of the array.
  function boundaries(map, { inside, strides }) {
    const last = inside.length - 1, row = last - 1, made = [];
    const base = inside.slice(0, Math.max(0, row)).reduce((sum, [low], d) => sum + low * strides[d], 0);
    const [top, bottom] = last === 0 ? [0, 1] : inside[row];
    for (let at = top; at < bottom; at++) {
      for (let column = inside[last][0] + 1; column < inside[last][1]; column++) {
        const offset = base + (last === 0 ? 0 : at * strides[row]) + column * strides[last];
        if (mod(offset * map.element_bytes, SECTOR) === 0) made.push([at, column]);
      }
    }
    return made;
  }

  // SVG of the last two dimensions of a box: the part inside the array with its sectors, and in another colour what is
  // beyond the edge.
  function picture(map, copied, label) {
    const { first, inside, shape } = copied;
    const last = shape.length - 1, row = Math.max(0, last - 1), isLine = last === 0;
    const sides = isLine ? [1, map.box[0]] : [map.box[row], map.box[last]];
    const [down, across] = [Math.max(2, Math.min(12, 256 / sides[0])), Math.max(1, Math.min(12, 512 / sides[1]))];
    const x0 = 72, y0 = 20, high = sides[0] * down, wide = sides[1] * across;
    const [[top, bottom], [left, right]] = isLine ? [[0, 1], inside[0]] : [inside[row], inside[last]];
    const originRow = isLine ? 0 : first[row];
    const x = x0 + (left - first[last]) * across, y = y0 + (top - originRow) * down;
    const part = inside.every(([low, end]) => end > low)
      ? `<rect class="q0" x="${x}" y="${y}" width="${(right - left) * across}" height="${(bottom - top) * down}"/>` : "";
    const path = !part ? "" : boundaries(map, copied).map(([at, column]) =>
      `M${x0 + (column - first[last]) * across} ${y0 + (at - originRow) * down}v${down}`).join("");
    const edges = [];
    if (right === shape[last] && right < first[last] + map.box[last]) {
      const at = x0 + (right - first[last]) * across;
      edges.push([at, y0 - 4, at, y0 + high + 4]);
    }
    if (!isLine && bottom === shape[row] && bottom < first[row] + map.box[row]) {
      const at = y0 + (bottom - first[row]) * down;
      edges.push([x0 - 4, at, x0 + wide + 4, at]);
    }
    const lines = edges.map(([x1, y1, x2, y2]) => `<line class="edge" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"/>`);
    const text = (at, top_, anchor, number) => `<text class="head" x="${at}" y="${top_}" text-anchor="${anchor}">${thousands(number)}</text>`;
    const heads = [text(x0, 13, "start", first[last]), text(x0 + wide, 13, "end", first[last] + map.box[last] - 1)];
    if (!isLine) heads.push(text(x0 - 6, y0 + 10, "end", first[row]), text(x0 - 6, y0 + high, "end", first[row] + map.box[row] - 1));
    return `<svg class="map" viewBox="0 0 ${x0 + wide + 8} ${y0 + high + 8}" width="${x0 + wide + 8}" height="${y0 + high + 8}" ` +
      `role="img" aria-label="${label}"><rect class="beyond" x="${x0}" y="${y0}" width="${wide}" height="${high}"/>${part}<path class="boundary" d="${path}"/>` +
      `<rect class="sector" x="${x0}" y="${y0}" width="${wide}" height="${high}"/>${lines.join("")}${heads.join("")}</svg>`;
  }

  // SVG of where the box is in the array; empty for an array of one dimension.
  function overview({ inside, shape }, label) {
    const last = shape.length - 1, row = last - 1;
    if (last === 0 || inside.some(([low, high]) => high <= low)) return "";
    const scale = 120 / Math.max(shape[row], shape[last]);
    const wide = Math.max(12, shape[last] * scale), high = Math.max(12, shape[row] * scale);
    const place = (values, extent, pixels) => [2 + (values[0] * pixels) / extent, Math.max(2, ((values[1] - values[0]) * pixels) / extent)];
    const [x, w] = place(inside[last], shape[last], wide), [y, h] = place(inside[row], shape[row], high);
    return `<svg class="map" viewBox="0 0 ${wide + 4} ${high + 4}" width="${wide + 4}" height="${high + 4}" role="img" ` +
      `aria-label="${label}"><rect class="matrix" x="2" y="2" width="${wide}" height="${high}"/>` +
      `<rect class="block" x="${x}" y="${y}" width="${w}" height="${h}"/></svg>`;
  }

  // SVG of 128-byte lines of shared memory with the row and chunk in each 16 bytes; one colour for the chunks that an
  // instruction reads of each row.
  function chunkPicture(map, label) {
    const wide = 104, high = 22, left = 8, top = 34;
    const parts = [];
    for (let position = 0; position < 8; position++) {
      const x = left + position * wide + wide / 2;
      parts.push(`<text class="head" x="${x}" y="12" text-anchor="middle">banks ${4 * position}–${4 * position + 3}</text>`,
                 `<text class="head" x="${x}" y="26" text-anchor="middle">+${16 * position} B</text>`);
    }
    map.lines.forEach((line, number) => line.forEach(([row, chunk], position) => {
      const x = left + position * wide, y = top + number * high;
      const colour = map.k_chunks ? Math.floor(chunk / map.k_chunks) % 4 : chunk % 4;
      parts.push(`<rect class="q${colour}" x="${x + 1}" y="${y + 1}" width="${wide - 2}" height="${high - 2}"/>` +
        `<text class="lanes" x="${x + wide / 2}" y="${y + 15}" text-anchor="middle">row ${row}, chunk ${chunk}</text>`);
    }));
    const full = left + 8 * wide + 4, height = top + map.lines.length * high + 4;
    return `<svg class="map" viewBox="0 0 ${full} ${height}" width="${full}" height="${height}" role="img" aria-label="${label}">${parts.join("")}</svg>`;
  }

  return { copiers, of, picture, overview, chunkPicture };
})(...(typeof module === "undefined" ? [requests, words] : [require("./requests.js"), require("./words.js")]));

if (typeof module !== "undefined") module.exports = boxes;
