// The elements of a matrix that a block accesses in the iterations of the loops within a tile, and their picture.
"use strict";

const footprint = ((requests) => {
  const MAX_POINTS = 1 << 15;  // accesses of threads that are evaluated
  const MAX_ROWS = 96, MAX_COLUMNS = 288;  // elements that are drawn
  const LINE = 64;  // elements in a line of an array of one dimension
  const WARP = 32, COLOURS = 4;

  // The accesses of all threads as {at, thread, active}; `at` has the first element's subscripts. Loops that pass from
  // tile to tile stay at their values in `uniform`, and the outer ones of a long nest too: these are `fixed`.
  function points(access, block, uniform) {
    const [x, y, z] = block, threads = x * y * z;
    const loops = access.variables.filter((variable) => variable.kind === "loop");
    const inner = loops.filter((variable) => !variable.walks);
    const count = () => inner.reduce((product, { low, high }) => product * (high - low + 1), 1);
    while (inner.length && threads * count() > MAX_POINTS) inner.shift();
    const values = { ...uniform }, made = [];
    for (let iteration = 0; iteration < count(); iteration++) {
      let rest = iteration;
      for (const { name, low, high } of inner) {
        values[name] = low + (rest % (high - low + 1));
        rest = Math.floor(rest / (high - low + 1));
      }
      for (let thread = 0; thread < threads; thread++) {
        values["threadIdx.x"] = thread % x;
        values["threadIdx.y"] = Math.floor(thread / x) % y;
        values["threadIdx.z"] = Math.floor(thread / (x * y));
        const active = access.conditions.every((condition) => requests.holds(condition, values));
        made.push({ at: access.matrix.subscripts.map((tree) => requests.evaluate(tree, values)), thread, active });
      }
    }
    return { all: made, fixed: loops.filter((variable) => !inner.includes(variable)) };
  }

  // What a block accesses. `cells` are those of the plane through `anchor`, by line and column of the picture: elements
  // of active threads, and those beyond the edge of inactive ones. `elements` counts the distinct ones of all planes.
  function of(access, block, uniform, anchor) {
    const { matrix, width } = access, { all, fixed } = points(access, block, uniform);
    const shape = matrix.shape.map((tree) => requests.evaluate(tree, uniform)), column = matrix.consecutive;
    const active = all.filter((point) => point.active);
    const row = rowDimension(active, shape.length, column);
    const plane = anchor || (active.length ? active[0].at : shape.map(() => 0));
    const isShown = ({ at }) => at.every((value, d) => d === row || d === column || value === plane[d]);
    const seen = new Set(), cells = new Map();
    for (const point of all) {
      for (let step = 0; step < width; step++) {
        const at = point.at.map((value, dimension) => value + (dimension === column ? step : 0));
        if (point.active) seen.add(at.reduce((offset, value, dimension) => offset * shape[dimension] + value, 0));
        const isInside = at.every((value, dimension) => value >= 0 && value < shape[dimension]);
        if (!isShown(point) || (!point.active && isInside)) continue;
        const cell = { r: row === null ? 0 : at[row], c: at[column], thread: point.thread, active: point.active };
        const key = `${cell.r} ${cell.c}`, known = cells.get(key);
        if (!known || (cell.active && !known.active)) cells.set(key, cell);
      }
    }
    return { cells: [...cells.values()], elements: seen.size, shape, row, column, plane, fixed };
  }

  // The dimension of the picture's rows: that with most values but the one of consecutive elements; null without any.
  function rowDimension(active, dimensions, column) {
    const distinct = (dimension) => new Set(active.map(({ at }) => at[dimension])).size;
    let row = null;
    for (let dimension = 0; dimension < dimensions; dimension++) {
      if (dimension !== column && (row === null || distinct(dimension) >= distinct(row))) row = dimension;
    }
    return row;
  }

  const range = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)],
                                          [Infinity, -Infinity]);

  // Equal neighbours of a line as [first, last, class].
  function runs(line) {
    const made = [];
    for (const [at, kind] of [...line].sort(([a], [b]) => a - b)) {
      const last = made[made.length - 1];
      if (last && last[1] >= at - 1 && last[2] === kind) last[1] = at; else made.push([at, at, kind]);
    }
    return made;
  }

  // The first of at most `most` lines or columns that are drawn, so that `inside` is among them.
  const start = ([low, high], most, inside) =>
    high - low < most ? low : Math.max(low, Math.min(inside - (most >> 1), high - most + 1));

  // SVG of what `of` found; `requested` are the elements [row, column] of the chosen request, which are framed.
  function picture(found, requested, label) {
    const { shape, row, column } = found, isLine = row === null;
    const placed = (r, c) => (isLine ? [Math.floor(c / LINE), ((c % LINE) + LINE) % LINE] : [r, c]);
    const cells = found.cells.map((cell) => [...placed(cell.r, cell.c), cell]);
    if (!cells.length) return "";
    const rows = range(cells.map(([r]) => r)), columns = isLine ? [0, LINE - 1] : range(cells.map(([, c]) => c));
    const focus = requested.length ? placed(...requested[0]) : [rows[0], columns[0]];
    const top = start(rows, MAX_ROWS, focus[0]), left = start(columns, MAX_COLUMNS, focus[1]);
    const height = Math.min(rows[1] - top + 1, MAX_ROWS), width = Math.min(columns[1] - left + 1, MAX_COLUMNS);
    const side = (pixels, cells) => Math.max(3, Math.min(18, Math.floor(pixels / cells)));
    const wide = side(900, width), high = side(420, height), x0 = 58, y0 = 18;
    const box = (kind, r, c, last) => `<rect class="${kind}" x="${x0 + (c - left) * wide}" y="${y0 + (r - top) * high}" ` +
      `width="${(last - c + 1) * wide}" height="${high}"/>`;
    const lines = (chosen) => {
      const made = new Map();
      for (const [r, c, kind] of chosen) {
        if (r < top || r >= top + height || c < left || c >= left + width) continue;
        made.set(r, [...(made.get(r) || []), [c, kind]]);
      }
      return [...made].flatMap(([r, line]) => runs(line).map(([c, last, kind]) => box(kind, r, c, last)));
    };
    const kindOf = (cell) => (cell.active ? `q${Math.floor(cell.thread / WARP) % COLOURS}` : "beyond");
    const parts = lines(cells.map(([r, c, cell]) => [r, c, kindOf(cell)]));
    parts.push(...lines(requested.map(([r, c]) => [...placed(r, c), "request"])));
    const right = x0 + width * wide, bottom = y0 + height * high;
    if (!isLine) {
      for (const c of [0, shape[column]].filter((c) => c >= left && c <= left + width)) {
        parts.push(`<line class="edge" x1="${x0 + (c - left) * wide}" x2="${x0 + (c - left) * wide}" y1="${y0 - 3}" y2="${bottom + 3}"/>`);
      }
      for (const r of [0, shape[row]].filter((r) => r >= top && r <= top + height)) {
        parts.push(`<line class="edge" x1="${x0 - 3}" x2="${right + 3}" y1="${y0 + (r - top) * high}" y2="${y0 + (r - top) * high}"/>`);
      }
    }
    const every = (size, pixels) => { let step = 1; while (step * size < pixels) step *= 2; return step; };
    for (let c = left; c < left + width; c += every(wide, 36)) {
      parts.push(`<text class="head" x="${x0 + (c - left) * wide + 1}" y="12">${c}</text>`);
    }
    for (let r = top; r < top + height; r += every(high, 13)) {
      parts.push(`<text class="head" x="${x0 - 6}" y="${y0 + (r - top) * high + Math.min(high, 10)}" text-anchor="end">` +
                 `${isLine ? (r * LINE).toLocaleString("en-US") : r}</text>`);
    }
    return `<svg class="map" viewBox="0 0 ${right + 6} ${bottom + 6}" width="${right + 6}" height="${bottom + 6}" role="img" ` +
      `aria-label="${label}">${parts.join("")}</svg>`;
  }

  // SVG of where the elements of the plane are in it; empty for an array of one dimension.
  function overview(found, label) {
    const { shape, row, column } = found, active = found.cells.filter((cell) => cell.active);
    if (row === null || !active.length) return "";
    const scale = 120 / Math.max(shape[row], shape[column]);
    const wide = Math.max(12, shape[column] * scale), high = Math.max(12, shape[row] * scale);
    const [[top, bottom], [left, right]] = [range(active.map((cell) => cell.r)), range(active.map((cell) => cell.c))];
    const x = (left * wide) / shape[column], y = (top * high) / shape[row];
    const box = `x="${x + 2}" y="${y + 2}" width="${Math.max(2, ((right - left + 1) * wide) / shape[column])}" ` +
      `height="${Math.max(2, ((bottom - top + 1) * high) / shape[row])}"`;
    return `<svg class="map" viewBox="0 0 ${wide + 4} ${high + 4}" width="${wide + 4}" height="${high + 4}" role="img" ` +
      `aria-label="${label}"><rect class="matrix" x="2" y="2" width="${wide}" height="${high}"/><rect class="block" ${box}/></svg>`;
  }

  return { of, picture, overview, range };
})(typeof module === "undefined" ? requests : require("./requests.js"));

if (typeof module !== "undefined") module.exports = footprint;
