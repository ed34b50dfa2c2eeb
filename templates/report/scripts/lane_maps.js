// The map of a warp's request: its lanes over banks, sectors or constants, drawn from what `requests` computes.
"use strict";

const laneMaps = (() => {
  const { thousands, counted, unitOf, swatch, runs } = words;

  const short = (lanes) => (lanes.length === 1 ? `${lanes[0]}` : `${Math.min(...lanes)}…`);

  function bankMap(cost, target) {
    const banks = Math.max(target.banks, 1), wide = 28, high = 20, left = 76, top = 20;
    const height = top + cost.passes.length * high + 4, width = left + banks * wide + 4;
    const conflicting = new Set(cost.passes.filter((pass) => pass.excess).flatMap((pass) => pass.cells.map((c) => c.bank)));
    const parts = [];
    for (let bank = 0; bank < banks; bank++) {
      const bad = conflicting.has(bank) ? " bad" : "";
      parts.push(`<text class="head${bad}" x="${left + bank * wide + wide / 2}" y="13" text-anchor="middle">${bank}</text>`);
    }
    cost.passes.forEach((pass, row) => {
      const y = top + row * high;
      parts.push(`<text class="head${pass.excess ? " bad" : ""}" x="${left - 8}" y="${y + 14}" text-anchor="end">` +
                 `${pass.excess ? "▲ " : ""}pass ${row + 1}</text>`);
      for (let bank = 0; bank < banks; bank++) {
        parts.push(`<rect class="slot" x="${left + bank * wide}" y="${y}" width="${wide}" height="${high}"/>`);
      }
      for (const cell of pass.cells) {
        const x = left + (cell.bank % banks) * wide, first = Math.min(...cell.lanes);
        const title = `pass ${row + 1}, bank ${cell.bank}, word ${cell.word}: lane${cell.lanes.length > 1 ? "s" : ""} ${runs(cell.lanes)}`;
        parts.push(`<g><title>${title}</title><rect class="q${first >> 3}${pass.excess ? " excess" : ""}" ` +
          `x="${x + 1}" y="${y + 1}" width="${wide - 2}" height="${high - 2}"/>` +
          `<text class="lanes" x="${x + wide / 2}" y="${y + 14}" text-anchor="middle">${short(cell.lanes)}</text></g>`);
      }
    });
    return `<svg class="map" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" ` +
      `aria-label="${bankText(cost)}">${parts.join("")}</svg>`;
  }

  function bankText(cost) {
    const lanes = cost.passes.map((pass) => new Set(pass.cells.flatMap((cell) => cell.lanes)));
    const listed = lanes.slice(0, 8).map((set, row) => `pass ${row + 1}: lanes ${runs(set)}`).join("; ");
    return `Bank map. ${unitOf(cost.wavefronts, "wavefronts")}, ideal ${cost.ideal_wavefronts}. ${listed}` +
      (lanes.length > 8 ? "; and so on." : ".");
  }

  // The 128-byte lines that a warp touches, with the sectors moved, the bytes of lanes, and the bytes wasted.
  function sectorMap(access, cost, lanes) {
    const scale = 7, left = 104, high = 30, top = 18, width = access.map.element_bytes * access.map.width;
    const moved = cost.transactions, lineOf = (address) => Math.floor(address / 128);
    const lines = [...new Set(moved.flatMap(([start, size]) => [lineOf(start), lineOf(start + size - 1)]))].sort((a, b) => a - b);
    const rows = new Map(lines.map((line, row) => [line, row]));
    const cells = new Map();
    for (const lane of lanes.filter(Boolean)) cells.set(lane.address, [...(cells.get(lane.address) || []), lane.lane]);
    const parts = [0, 32, 64, 96].map((byte) =>
      `<text class="head" x="${left + byte * scale + 2}" y="12">+${byte} B</text>`);
    lines.forEach((line, row) => {
      const y = top + row * high;
      parts.push(`<text class="head" x="${left - 8}" y="${y + 16}" text-anchor="end">${thousands(line * 128)}</text>`);
      parts.push(`<rect class="line" x="${left}" y="${y}" width="${128 * scale}" height="${high - 6}"/>`);
    });
    const box = (kind, start, size) => {
      const y = top + rows.get(lineOf(start)) * high, x = left + (start - lineOf(start) * 128) * scale;
      return `<rect class="${kind}" x="${x}" y="${y}" width="${size * scale}" height="${high - 6}"/>`;
    };
    const sectors = [...new Set(moved.flatMap(([start, size]) =>
      Array.from({ length: size / 32 }, (_, n) => start + 32 * n)))];
    for (const start of sectors) parts.push(box("waste", start, 32));
    for (const [address, group] of cells) {
      const y = top + rows.get(lineOf(address)) * high, x = left + (address - lineOf(address) * 128) * scale;
      const title = `bytes ${address} to ${address + width - 1}: lane${group.length > 1 ? "s" : ""} ${runs(group)}`;
      parts.push(`<g><title>${title}</title><rect class="q${Math.min(...group) >> 3}" x="${x + 0.5}" y="${y + 1}" ` +
        `width="${width * scale - 1}" height="${high - 8}"/>` + (width * scale < 24 ? "" :
        `<text class="lanes" x="${x + (width * scale) / 2}" y="${y + 16}" text-anchor="middle">${short(group)}</text>`) + "</g>");
    }
    for (const start of sectors) parts.push(box("sector", start, 32));
    const full = left + 128 * scale + 4, height = top + lines.length * high + 2;
    const text = `Sector map. ${unitOf(cost.sectors, "sectors")} in ${counted(lines.length, "line")}, ideal ` +
      `${cost.ideal_sectors}; ${usedBytes(access, cost, lanes)}.`;
    return `<svg class="map" viewBox="0 0 ${full} ${height}" width="${full}" height="${height}" role="img" ` +
      `aria-label="${text}">${parts.join("")}</svg>`;
  }

  function constantMap(cost) {
    const rows = cost.passes.map((pass, row) => `<tr><td class="n">${row + 1}</td><td class="n">` +
      `${thousands(pass.cells[0].word * 4)}</td><td>${runs(pass.cells[0].lanes)}</td></tr>`).join("");
    return '<table class="list"><thead><tr><th scope="col" class="n">request</th><th scope="col" class="n">byte</th>' +
      `<th scope="col">lanes</th></tr></thead><tbody>${rows}</tbody></table>`;
  }

  function touchedBytes(access, lanes) {
    const width = access.map.element_bytes * access.map.width;
    return new Set(lanes.filter(Boolean).map((lane) => lane.address)).size * width;
  }

  function usedBytes(access, cost, lanes) {
    const used = touchedBytes(access, lanes), moved = cost.sectors * 32;
    return `${thousands(used)} of ${thousands(moved)} bytes used, ${thousands(Math.max(0, moved - used))} wasted`;
  }

  const quarters = () => [0, 1, 2, 3].map((q) =>
    swatch(`style="background:var(--quarter-${q})"`, `lanes ${8 * q}–${8 * q + 7}`)).join(" ");

  const bankLegend = () => `<p class="legend">${quarters()} Columns are banks, rows are wavefronts; ▲ and a frame mark those ` +
    "beyond the ideal. “4…” is a word that several lanes share.</p>";

  const sectorLegend = () => `<p class="legend">${quarters()} ` +
    swatch('style="background:var(--waste);opacity:.45"', "wasted bytes") +
    " Rows are 128-byte lines by the byte offset in the array, boxes are the 32-byte sectors moved.</p>";

  return { bankMap, bankLegend, sectorMap, sectorLegend, constantMap, usedBytes };
})();
