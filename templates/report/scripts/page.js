// Selection of accesses, and the controls and figures of the map of a request, which the scripts before this one draw.
"use strict";

(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const { thousands, counted, unitOf, escaped, swatch } = words;
  const layouts = {};  // the chosen layout of each tile, by launch and name
  const MAX_TRIES = 1000;
  const IDEALS = { wavefronts: "ideal_wavefronts", sectors: "ideal_sectors", requests: "ideal_wavefronts" };
  let chosen = null, state = {};

  document.documentElement.classList.add("js");

  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  // Accesses and lines

  function select(number) {
    const access = data.accesses[number];
    if (!access) return;
    chosen = number;
    all("[data-access]").forEach((part) => part.classList.toggle("chosen", part.dataset.access === number));
    all("tr[data-line]").forEach((line) => line.classList.toggle("chosen", Number(line.dataset.line) === access.line));
    all("table.code button").forEach((button) => button.removeAttribute("aria-current"));
    const line = byId(`L${access.line}`);
    line.querySelector("button").setAttribute("aria-current", "true");
    mark(line, access.text);
    const box = line.closest("div.code"), top = line.offsetTop, bottom = top + line.offsetHeight;
    if (top < box.scrollTop || bottom > box.scrollTop + box.clientHeight) box.scrollTop = top - box.clientHeight / 2;
    openMap(access);
  }

  // Frames the access in its line, where the line has it in one piece.
  function mark(line, text) {
    all("pre mark").forEach((old) => old.replaceWith(...old.childNodes));
    const pre = line.querySelector("pre");
    pre.normalize();
    for (const node of [...pre.childNodes]) {
      const start = node.nodeType === Node.TEXT_NODE ? node.data.indexOf(text) : -1;
      if (start < 0) continue;
      const range = document.createRange();
      range.setStart(node, start);
      range.setEnd(node, start + text.length);
      range.surroundContents(document.createElement("mark"));
      return;
    }
  }

  const onLine = (line) => Object.keys(data.accesses).filter((number) => data.accesses[number].line === line);

  // The next access of a line each time that the line is chosen.
  function chooseLine(line) {
    const numbers = onLine(line), position = numbers.indexOf(chosen);
    select(numbers[(position + 1) % numbers.length]);
  }

  all("tr[data-line]").forEach((line) => line.addEventListener("click", () => chooseLine(Number(line.dataset.line))));
  // Before the browser goes to the details, which are hidden until then.
  all("a[data-select]").forEach((link) => link.addEventListener("click", () => select(link.dataset.select)));
  document.querySelector("table.code").addEventListener("keydown", (event) => {
    if (!["ArrowUp", "ArrowDown"].includes(event.key) || event.target.tagName !== "BUTTON") return;
    const buttons = all("table.code button");
    const next = buttons[buttons.indexOf(event.target) + (event.key === "ArrowDown" ? 1 : -1)];
    event.preventDefault();
    if (next) { next.focus(); select(next.dataset.select); }
  });

  // The map of a request

  const layoutKey = (access) => `${access.launch} ${access.map.tile.array}`;
  const tileOf = (access) => (access.map && access.map.tile ? data.tiles[access.launch][access.map.tile.array] : null);

  function layoutOf(access) {
    const tile = tileOf(access);
    if (!tile) return null;
    return tile.layouts[layouts[layoutKey(access)] ?? tile.layouts.findIndex((layout) => layout.is_current)];
  }

  function openMap(access) {
    const hasMap = Boolean(access.map || access.box || access.pixels || access.chunks);
    byId("map-body").hidden = !hasMap;
    byId("map-reason").hidden = hasMap;
    all(".map-of-lanes").forEach((part) => { part.hidden = !access.map; });
    if (!hasMap) {
      byId("map-reason").textContent = `${access.text} has no map: ${access.reason}.`;
      return;
    }
    if (access.map) openLanes(access);
    else if (access.box || access.pixels) openBox(access, access.box || access.pixels);
    else openChunks(access);
  }

  function openLanes(access) {
    state = worstRequest(access);
    const controls = byId("map-controls");
    controls.replaceChildren(slider("warp", "warp", 0, warpsOf(access) - 1, state.warp,
                                    (value) => { state.warp = value; }, (value) => value));
    for (const variable of access.map.variables) controls.append(variableControl(variable));
    const tile = tileOf(access);
    if (tile) controls.append(layoutControl(access, tile));
    draw(access);
  }

  function openBox(access, map) {
    state = firstBox(access, map);
    byId("map-controls").replaceChildren(...map.variables.map(variableControl));
    draw(access);
  }

  function openChunks(access) {
    byId("map-controls").replaceChildren();
    draw(access);
  }

  const warpsOf = (access) => Math.ceil(access.block.reduce((product, size) => product * size, 1) / 32);

  const excessOf = (cost, access) => cost[access.unit] - cost[IDEALS[access.unit]];

  // Cost of one warp; -1 where no lane runs, else what it costs beyond its ideal.
  function badness(warp, uniform, access) {
    const lanes = requests.lanesOf(access.map, access.block, warp, uniform, layoutOf(access));
    return lanes.some(Boolean) ? excessOf(requests.costOf(access.map, lanes, data.target), access) : -1;
  }

  const namesIn = (tree) => (Array.isArray(tree) ? tree.slice(1).flatMap(namesIn) : typeof tree === "string" ? [tree] : []);

  // The first values for which conditions on a variable alone that it equals something hold, as `k == 3`.
  function solutions(conditions, { name, low, high }) {
    const trees = conditions.flatMap(({ terms, negated }) => (negated ? [] : terms))
      .filter(([tree, operator]) => operator === "==" && namesIn(tree).every((used) => used === name))
      .map(([tree]) => tree);
    const values = Array.from({ length: Math.min(high - low + 1, MAX_TRIES) }, (_, step) => low + step);
    return trees.flatMap((tree) => values.filter((value) => requests.evaluate(tree, { [name]: value }) === 0).slice(0, 1));
  }

  // Values of the blocks and iterations to begin with: the first and last ones and some between, with each other.
  function* beginnings({ variables, conditions }) {
    const initial = Object.fromEntries(variables.map((variable) => [variable.name, variable.initial]));
    const free = variables.filter((variable) => variable.kind !== "param");
    const values = free.map((variable) => {
      const { low, high } = variable, middle = Math.floor((low + high) / 2);
      return [...new Set([...solutions(conditions, variable), low, low + 1, middle, high - 1, high])]
        .filter((value) => value >= low && value <= high);
    });
    function* visit(position, uniform) {
      if (position === free.length) {
        yield uniform;
        return;
      }
      for (const value of values[position]) yield* visit(position + 1, { ...uniform, [free[position].name]: value });
    }
    yield* visit(0, initial);
  }

  // A warp and iterations with the worst request of the launch, which costs most beyond its ideal; or the worst of those
  // tried.
  function worstRequest(access) {
    const goal = access.worst === null ? Infinity : access.worst - access.ideal;
    let best = null, worst = -Infinity, tries = 0;
    for (const uniform of beginnings(access.map)) {
      for (let warp = 0; warp < warpsOf(access) && worst < goal; warp++) {
        const excess = badness(warp, uniform, access);
        tries += 1;
        if (excess > worst) [best, worst] = [{ warp, uniform }, excess];
      }
      if (worst >= goal || tries > MAX_TRIES) break;
    }
    return best;
  }

  // Blocks and iterations at which some thread copies a box; the first ones where none of those tried does.
  function firstBox(access, map) {
    let first = null, tries = 0;
    for (const uniform of beginnings(map)) {
      if (boxes.copiers(map, access.block, uniform).length) return { uniform };
      first = first || uniform;
      tries += 1;
      if (tries > MAX_TRIES) break;
    }
    return { uniform: first };
  }

  function slider(id, name, low, high, value, set, text) {
    const output = element("output"), input = element("input", { type: "range", id: `map-${id}`, min: low, max: high, value });
    const show = () => { output.textContent = text(Number(input.value)); };
    input.addEventListener("input", () => { set(Number(input.value)); show(); draw(data.accesses[chosen]); });
    if (low === high) input.disabled = true;
    show();
    return element("label", {}, element("span", {}, `${name} `, output), input);
  }

  function variableControl(variable) {
    const set = (value) => { state.uniform[variable.name] = value; };
    const count = variable.high - variable.low + 1;
    const current = state.uniform[variable.name];
    if (variable.kind === "param" || count > 5000) {
      const input = element("input", { type: "number", min: variable.low, max: variable.high, value: current });
      input.addEventListener("change", () => {
        const value = Math.min(variable.high, Math.max(variable.low, Math.round(Number(input.value) || 0)));
        input.value = value;
        set(value);
        draw(data.accesses[chosen]);
      });
      const range = `${thousands(variable.low)} … ${thousands(variable.high)}`;
      return element("label", {}, element("span", {}, `${variable.shown}, ${range}`), input);
    }
    const text = (value) => variable.value === null
      ? (variable.kind === "loop" ? `iteration ${value + 1} of ${count}` : `${value} of ${count}`)
      : `= ${requests.evaluate(variable.value, { [variable.name]: value })}, step ${value + 1} of ${count}`;
    const id = variable.name.replace(/[^A-Za-z0-9]+/g, "-");
    return slider(id, variable.shown, variable.low, variable.high, current, set, text);
  }

  function layoutControl(access, tile) {
    const choices = element("select", { id: "map-layout" });
    tile.layouts.forEach((layout, position) => {
      const option = element("option", { value: position }, layout.label + (layout.is_current ? " (as it is)" : ""));
      option.selected = layout === layoutOf(access);
      choices.append(option);
    });
    choices.addEventListener("input", () => {
      layouts[layoutKey(access)] = Number(choices.value);
      draw(data.accesses[chosen]);
    });
    return element("label", {}, element("span", {}, `rows of ${access.map.tile.array}`), choices);
  }

  function draw(access) {
    if (access.map) drawLanesMap(access);
    else if (access.box) drawBox(access);
    else if (access.pixels) drawPixels(access);
    else drawChunks(access);
  }

  function drawBox(access) {
    const copied = boxes.of(access.box, access.block, state.uniform), picture = byId("map-picture");
    const { array, box, swizzle_bytes: swizzle } = access.box;
    if (!copied.length) {
      byId("map-figures").textContent = "";
      picture.replaceChildren(element("p", {}, "No thread copies a box here."));
      return;
    }
    const [first] = copied, whole = box.reduce((product, count) => product * count, 1);
    const others = copied.length > 1 ? `; the first of ${copied.length} boxes of the block` : "";
    const kind = swizzle ? `, rows of ${swizzle} bytes swizzled in shared memory` : "";
    byId("map-figures").innerHTML = `<strong class="${first.sectors > first.ideal ? "bad" : ""}">` +
      `${unitOf(first.sectors, "sectors")}</strong>, ideal ${thousands(first.ideal)}, for a box of ` +
      `${box.map(thousands).join(" × ")} elements${kind}${others}`;
    const at = `(${first.first.map(thousands).join(", ")})`, outside = whole - first.elements;
    const text = `The box begins at ${at} of ${escaped(array)} (${first.shape.map(thousands).join(" × ")}): ` +
      `${counted(first.elements, "element")} inside` + (outside ? `, ${thousands(outside)} beyond the edge` : "");
    picture.innerHTML = `<p>${text}.</p><div class="beside-map">${boxes.picture(access.box, first, `Box. ${text}.`)}` +
      `${boxes.overview(first, `Where the box is in ${escaped(array)}`)}</div><p class="legend">` +
      `${swatch("style=\"background:var(--quarter-0)\"", "inside the array, with its sectors")} ` +
      `${outside ? swatch("data-kind=beyond", "beyond the edge: zeros are loaded, nothing is stored") : ""}</p>`;
  }

  function drawPixels(access) {
    const copied = pixels.of(access.pixels, access.block, state.uniform), picture = byId("map-picture");
    const { array, box, swizzle_bytes: swizzle } = access.pixels;
    if (!copied.length) {
      byId("map-figures").textContent = "";
      picture.replaceChildren(element("p", {}, "No thread copies a box here."));
      return;
    }
    const [first] = copied, [low, high] = first.part, rows = first.pixels.length;
    byId("map-figures").innerHTML = `<strong class="${first.sectors > first.ideal ? "bad" : ""}">` +
      `${unitOf(first.sectors, "sectors")}</strong>, ideal ${thousands(first.ideal)}, for a box of ${rows} pixels of ` +
      `${box[box.length - 1]} channels, rows of ${swizzle} bytes swizzled in shared memory` +
      (copied.length > 1 ? `; the first of ${copied.length} boxes of the block` : "");
    const text = `The box has the channels ${low} to ${high - 1} of ${rows} pixels of ${escaped(array)} ` +
      `(${first.shape.map(thousands).join(" × ")}) from (${first.first.slice(0, -1).join(", ")}) on, read at the offset ` +
      `(${first.offsets.join(", ")}): ${counted(first.inside, "pixel")} inside` +
      (first.inside < rows ? `, ${rows - first.inside} beyond the edge` : "");
    const quarters = [0, 1, 2, 3].map((n) => swatch(`style="background:var(--quarter-${n})"`,
      `rows ${Math.ceil((n * rows) / 4)}–${Math.ceil(((n + 1) * rows) / 4) - 1} of the tile`));
    if (first.inside < rows) quarters.push(swatch("data-kind=beyond", "beyond the edge: zeros are loaded"));
    picture.innerHTML = `<p>${text}.</p>${pixels.picture(first)}<p class="legend">${quarters.join(" ")} ` +
      "Thick lines are the edges of an image.</p>";
  }

  function drawChunks(access) {
    const { swizzle_bytes: bytes, is_operand: isOperand, k_chunks: kChunks } = access.chunks;
    const rows = `Rows of ${bytes} bytes; an address has the 16-byte chunk xor bits 7 to 9 in the bits from 4 on.`;
    const reads = !isOperand ? "TMA writes or reads each word once, without bank conflicts."
      : kChunks ? `One colour is the K of one wgmma, ${counted(kChunks, "chunk")} of each row: the same chunk of 8 rows is in all 32 banks.`
      : "A wgmma reads whole rows, which are in all 32 banks.";
    byId("map-figures").textContent = access.worst === null ? "" : `${unitOf(access.worst, access.unit)}, ideal ${thousands(access.ideal)}, for one instruction`;
    byId("map-picture").innerHTML = boxes.chunkPicture(access.chunks, `Swizzled rows. ${rows} ${reads}`) +
      `<p class="legend">${rows} ${reads}</p>`;
  }

  function drawLanesMap(access) {
    const layout = layoutOf(access);
    const lanes = requests.lanesOf(access.map, access.block, state.warp, state.uniform, layout);
    const cost = requests.costOf(access.map, lanes, data.target);
    const picture = byId("map-picture");
    byId("map-figures").innerHTML = figures(access, cost, lanes);
    if (!lanes.some(Boolean)) picture.replaceChildren(element("p", {}, "No lane of this warp runs here."));
    else if (access.map.space === "shared") picture.innerHTML = laneMaps.bankMap(cost, data.target) + laneMaps.bankLegend();
    else if (access.map.space === "global") picture.innerHTML = laneMaps.sectorMap(access, cost, lanes) + laneMaps.sectorLegend();
    else if (access.map.space === "constant") picture.innerHTML = laneMaps.constantMap(cost);
    else picture.replaceChildren();
    drawTile(access, layout);
    drawFootprint(access, lanes);
    drawLanes(access, lanes);
  }

  function figures(access, cost, lanes) {
    const figure = cost[access.unit], ideal = cost[IDEALS[access.unit]];
    const count = lanes.filter(Boolean).length;
    const used = access.map.space === "global" && cost.sectors ? `, ${laneMaps.usedBytes(access, cost, lanes)}` : "";
    const layout = layoutOf(access), asItIs = !layout || layout.is_current;
    const isWorst = asItIs && figure === access.worst && ideal === access.ideal && figure > ideal;
    return `<strong class="${figure > ideal ? "bad" : ""}">${unitOf(figure, access.unit)}</strong>, ideal ` +
      `${thousands(ideal)}, for ${counted(count, "active lane")}${used}${isWorst ? "; the worst request of the launch" : ""}`;
  }

  // All accesses to the tile over the launch, as `cugen check` counts them with the chosen layout in the spec.
  function drawTile(access, layout) {
    const box = byId("map-tile"), tile = tileOf(access);
    if (!tile) { box.replaceChildren(); return; }
    const current = tile.layouts.find((known) => known.is_current);
    const rows = tile.accesses.map((number, position) => {
      if (number === null) return "";
      const cost = layout.costs[position], before = current.costs[position], each = data.accesses[number];
      const cells = cost === null ? '<td colspan="4">unknown</td>'
        : `<td class="n">${thousands(before ? before[0] : 0)}</td><td class="n" data-cost="${number}">${thousands(cost[0])}</td>` +
          `<td class="n">${thousands(cost[1])}</td><td class="${verdictClass(cost)}"><span class="mark" aria-hidden="true">` +
          `${cost[0] > cost[1] ? "▲" : "●"}</span> ${cost[0] > cost[1] ? "costly" : "ideal"}</td>`;
      return `<tr><td class="n">${each.line}</td><td><code>${escaped(each.text)}</code></td>${cells}</tr>`;
    });
    box.innerHTML = `<p id="map-tile-title">Wavefronts of all accesses to <code>${escaped(access.map.tile.array)}</code> ` +
      `over the launch, with <code>${layout.label}</code> in the spec</p>` +
      '<div class="scroll"><table class="list" aria-labelledby="map-tile-title"><thead><tr>' +
      '<th scope="col" class="n">line</th><th scope="col">access</th><th scope="col" class="n">as it is</th>' +
      `<th scope="col" class="n">${layout.label}</th><th scope="col" class="n">ideal</th><th scope="col"></th>` +
      `</tr></thead><tbody>${rows.join("")}</tbody></table></div>`;
  }

  // The elements of the array that the whole block accesses, with those of the chosen request framed.
  function drawFootprint(access, lanes) {
    const { matrix, width } = access.map, box = byId("map-footprint");
    box.hidden = !matrix;
    if (!matrix) return;
    const active = lanes.filter(Boolean), values = (lane) => ({ ...state.uniform, ...requests.threadOf(lane.indices) });
    const subscripts = active.map((lane) => matrix.subscripts.map((tree) => requests.evaluate(tree, values(lane))));
    const found = footprint.of(access.map, access.block, state.uniform, subscripts[0]);
    const requested = subscripts.flatMap((at) => Array.from({ length: width }, (_, step) =>
      [found.row === null ? 0 : at[found.row], at[found.column] + step]));
    const text = footprintText(access, found);
    byId("map-footprint-text").textContent = text;
    const where = `Where the block's elements are in ${matrix.array}`;
    byId("map-footprint-picture").innerHTML = footprint.picture(found, requested, escaped(`Footprint. ${text}`)) +
      footprint.overview(found, escaped(where));
    byId("map-footprint-legend").innerHTML = footprintLegend(found, access);
  }

  function footprintText(access, found) {
    const { array } = access.map.matrix, active = found.cells.filter((cell) => cell.active);
    const extents = found.shape.map(thousands).join(" × ");
    const at = access.map.variables.filter((variable) => variable.kind === "block" || found.fixed.includes(variable))
      .map((variable) => `${variable.shown} = ${valueOf(variable)}`);
    const of = `${counted(found.elements, "element")} of ${array} (${extents})${at.length ? `, with ${at.join(", ")}` : ""}`;
    if (!active.length) return `The block accesses no element of ${array} here.`;
    const span = (name, values) => {
      const [low, high] = footprint.range(values);
      return low === high ? `${name} ${thousands(low)}` : `${name}s ${thousands(low)} to ${thousands(high)}`;
    };
    const where = [span(found.row === null ? "element" : "column", active.map((cell) => cell.c))];
    if (found.row !== null) where.unshift(span("row", active.map((cell) => cell.r)));
    const planes = found.plane.map((value, d) => (d === found.row || d === found.column ? "·" : value));
    const plane = found.shape.length > 2 ? ` of the plane (${planes.join(", ")})` : "";
    const beyond = found.cells.length - active.length;
    return `The block accesses ${of}: ${where.join(", ")}${plane}.` +
      (beyond ? ` ${counted(beyond, "element")} beyond the edge ${beyond === 1 ? "isn't" : "aren't"} accessed.` : "");
  }

  const valueOf = (variable) => {
    const current = state.uniform[variable.name];
    return thousands(variable.value === null ? current : requests.evaluate(variable.value, { [variable.name]: current }));
  };

  function footprintLegend(found, access) {
    const warps = Math.min(warpsOf(access), 4);
    const names = Array.from({ length: warps }, (_, n) =>
      swatch(`style="background:var(--quarter-${n})"`, `warp ${n}${warpsOf(access) > 4 ? ", …" : ""}`));
    names.push(swatch("data-kind=request", "the request above"));
    if (found.cells.some((cell) => !cell.active)) names.push(swatch("data-kind=beyond", "beyond the edge"));
    return `${names.join(" ")} ` + (found.row === null ? "A line has 64 elements."
      : "Thick lines are the edge of the array; beside, where the block's elements are in it.");
  }

  const verdictClass = (cost) => (cost[0] > cost[1] ? "costly" : "ideal");

  function drawLanes(access, lanes) {
    const shared = access.map.space === "shared", unit = shared ? "bank" : "sector";
    const where = (lane) => shared ? Math.floor(lane.address / 4) % data.target.banks : Math.floor(lane.address / 32);
    const rows = lanes.map((lane, number) => lane === null
      ? `<tr><td class="n">${number}</td><td colspan="4">inactive</td></tr>`
      : `<tr><td class="n">${number}</td><td>${lane.indices.join(", ")}</td><td class="n">${thousands(lane.offset)}</td>` +
        `<td class="n">${thousands(lane.address)}</td><td class="n">${thousands(where(lane))}</td></tr>`);
    byId("map-lanes").innerHTML = '<thead><tr><th scope="col" class="n">lane</th><th scope="col">threadIdx</th>' +
      '<th scope="col" class="n">element</th><th scope="col" class="n">byte</th>' +
      `<th scope="col" class="n">${unit}</th></tr></thead><tbody>${rows.join("")}</tbody>`;
  }

  // Opens at the access that costs most beyond its ideal, or that of the address.
  const linked = () => (location.hash.match(/^#access-(\d+)$/) || [])[1];
  addEventListener("hashchange", () => { if (linked() && linked() !== chosen) select(linked()); });
  const numbers = Object.keys(data.accesses);
  const excess = (number) => {
    const { worst, ideal, reason } = data.accesses[number];
    return worst && ideal ? worst / ideal : reason ? 0 : 0.5;
  };
  select(data.accesses[linked()] ? linked() : numbers.reduce((a, b) => (excess(b) > excess(a) ? b : a), numbers[0]));
})();
