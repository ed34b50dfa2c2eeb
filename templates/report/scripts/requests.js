// Addresses of a warp's lanes, and the requests, wavefronts and sectors that a target charges for them: the rules of
// cugen/machine/requests, with the words and lanes of each pass, which a page draws.
"use strict";

const requests = (() => {
  const WARP = 32, WORD = 4, SECTOR = 32, LINE = 128, HALF_SECTOR = 16;
  const floorDiv = (a, b) => Math.floor(a / b);
  const mod = (a, b) => ((a % b) + b) % b;
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const most = (values) => values.reduce((a, b) => Math.max(a, b), 0);

  // The value of an expression tree: a number, a name, or an operator with its operands.
  const evaluate = (tree, values) => compiled(tree)(values);
  const known = new WeakMap();

  // A tree as a function of the values by name.
  function compiled(tree) {
    if (typeof tree === "number") return () => tree;
    if (typeof tree === "string") return (values) => values[tree];
    if (!known.has(tree)) known.set(tree, composed(tree[0], tree.slice(1).map(compiled)));
    return known.get(tree);
  }

  function composed(operator, parts) {
    const [a, b, then, otherwise] = parts;
    switch (operator) {
      case "+": return (values) => { let total = 0; for (const part of parts) total += part(values); return total; };
      case "*": return (values) => { let total = 1; for (const part of parts) total *= part(values); return total; };
      case "**": return (values) => a(values) ** b(values);
      case "//": return (values) => floorDiv(a(values), b(values));
      case "%": return (values) => mod(a(values), b(values));
      case "^": return (values) => Number(BigInt(a(values)) ^ BigInt(b(values)));
      case "min": return (values) => Math.min(a(values), b(values));
      case "max": return (values) => Math.max(a(values), b(values));
      case "?": return (values) => (a(values) < b(values) ? then(values) : otherwise(values));
    }
    throw new Error(`unknown operator ${operator}`);
  }

  function holds(condition, values) {
    const all = condition.terms.every(([difference, operator]) => {
      const value = evaluate(difference, values);
      return operator === "<" ? value < 0 : operator === "==" ? value === 0 : value !== 0;
    });
    return all !== condition.negated;
  }

  // Offset in elements; `layout` has the pad and swizzle of a tile's rows.
  function offsetOf(access, layout, values) {
    if (!access.tile || !layout) return evaluate(access.offset, values);
    const subscripts = access.tile.subscripts.map((subscript) => evaluate(subscript, values));
    const last = subscripts.length - 1;
    if (layout.swizzle) {
      const mask = layout.swizzle_unit * mod(subscripts[last - 1], layout.swizzle);
      subscripts[last] = Number(BigInt(subscripts[last]) ^ BigInt(mask));
    }
    let offset = 0, stride = 1;
    for (let dimension = last; dimension >= 0; dimension--) {
      offset += subscripts[dimension] * stride;
      stride *= access.tile.shape[dimension] + (dimension === last ? layout.pad : 0);
    }
    return offset;
  }

  // A thread's indices by their names.
  const threadOf = ([x, y, z]) => ({ "threadIdx.x": x, "threadIdx.y": y, "threadIdx.z": z });

  // The lanes of a warp: thread indices, offset in elements and byte address; null where a lane is inactive.
  function lanesOf(access, block, warp, uniform, layout) {
    const [x, y, z] = block;
    return Array.from({ length: WARP }, (_, lane) => {
      const thread = warp * WARP + lane;
      if (thread >= x * y * z) return null;
      const indices = [thread % x, floorDiv(thread, x) % y, floorDiv(thread, x * y)];
      const values = { ...uniform, ...threadOf(indices) };
      if (!access.conditions.every((condition) => holds(condition, values))) return null;
      const offset = offsetOf(access, layout, values);
      const reads = !access.source_guard || holds(access.source_guard, values);
      return { lane, indices, offset, address: access.start + offset * access.element_bytes, reads };
    });
  }

  // The cost of an access for some lanes. Lanes of a narrow copy whose guard fails are zero-filled by separate stores.
  function costOf(access, lanes, target) {
    const width = access.element_bytes * access.width;
    const addresses = (chosen) => lanes.map((lane) => (lane && chosen(lane) ? lane.address : null));
    const charge = (chosen, sources) =>
      warpRequest(access.space, access.kind, width, addresses(chosen), target, sources);
    if (!access.source_guard || width >= HALF_SECTOR) return charge(() => true, access.sources);
    const read = charge((lane) => lane.reads, access.sources), zeros = charge((lane) => !lane.reads, null);
    const added = {};
    for (const name of Object.keys(read)) {
      added[name] = Array.isArray(read[name]) ? read[name].concat(zeros[name]) : read[name] + zeros[name];
    }
    return added;
  }

  // One warp instruction: requests, wavefronts, ideal_wavefronts, transactions, sectors, ideal_sectors, and `passes`:
  // of each wavefront its cells {bank, word, lanes}, and whether it is one more than the ideal.
  function warpRequest(space, kind, width, addresses, target, sources) {
    if (active(addresses).length === 0) return cost(0, [], 0);
    if (space === "constant") return constant(width, addresses, target);
    if (space === "local") return local(kind, width, addresses, target);
    if (space === "global") return segments(kind, width, addresses, target);
    if (kind === "async_copy") return asyncCopy(width, addresses, target, sources);
    if (kind === "atomic") return atomic(width, addresses, target);
    if (kind.startsWith("matrix_")) {
      const matrices = groups(addresses, 8);
      return cost(1, matrices.flatMap((matrix) => stacked(matrix, 16, target.banks)), matrices.length);
    }
    const rules = { half_warps: halfWarps, double_words: doubleWords, ways, phases };
    return rules[target.shared_rule](kind, width, addresses, target);
  }

  function cost(count, passes, ideal) {
    return { requests: count, wavefronts: passes.length, ideal_wavefronts: ideal, transactions: [], sectors: 0,
             ideal_sectors: 0, passes };
  }

  const active = (addresses) => addresses.filter((address) => address !== null);

  // Groups of consecutive lanes, as [lane, address] of the active ones; without empty groups.
  function groups(addresses, size) {
    const made = [];
    for (let first = 0; first < addresses.length; first += size) {
      const group = [];
      for (let lane = first; lane < Math.min(first + size, addresses.length); lane++) {
        if (addresses[lane] !== null) group.push([lane, addresses[lane]]);
      }
      if (group.length) made.push(group);
    }
    return made;
  }

  const wordsOf = (address, width) =>
    Array.from({ length: Math.max(1, width / WORD) }, (_, word) => floorDiv(address, WORD) + word);

  // Passes of lanes that want different words of a bank, one word of each bank in a pass. Lanes share a word unless
  // `unshared`. `unitOf` names what a bank delivers in one pass, `bankOf` the bank.
  function stacked(group, width, banks, options = {}) {
    const bankOf = options.bankOf || ((word) => mod(word, banks));
    const unitOf = options.unitOf || ((word) => word);
    const columns = new Map();
    for (const [lane, address] of group) {
      for (const word of wordsOf(address, width)) {
        const bank = bankOf(word), column = columns.get(bank) || [];
        columns.set(bank, column);
        const unit = options.unshared ? `${word} ${lane}` : unitOf(word);
        let cell = column.find((known) => known.unit === unit);
        if (!cell) column.push((cell = { unit, bank, word, lanes: [] }));
        if (!cell.lanes.includes(lane)) cell.lanes.push(lane);
      }
    }
    return inRows([...columns.values()]);
  }

  function inRows(columns) {
    const height = most(columns.map((column) => column.length));
    return Array.from({ length: height }, (_, row) => ({
      excess: row > 0,
      cells: columns.filter((column) => row < column.length).map((column) => column[row]),
    }));
  }

  // Compute capability 5.0 on: 8 bytes by half-warps, 16 bytes by quarter-warps; some loads merge two of them.
  function phases(kind, width, addresses, target) {
    const passesOf = (group) => stacked(group, width, target.banks);
    if (width < 8) return cost(1, passesOf(groups(addresses, WARP)[0]), 1);
    if (kind === "store") {
      const parts = groups(addresses, LINE / width);
      return cost(1, parts.flatMap(passesOf), parts.length);
    }
    const size = width === 8 ? WARP : WARP / 2;
    let passes = [], ideal = 0;
    for (let first = 0; first < WARP; first += size) {
      const part = addresses.map((address, lane) => (lane >= first && lane < first + size ? address : null));
      if (!active(part).length) continue;
      const halves = groups(part, size / 2), whole = passesOf(groups(part, WARP)[0]);
      const equal = [1, 2].some((mask) => equalUnder(part, mask));
      passes = passes.concat(equal && whole.length <= 1 ? whole : halves.flatMap(passesOf));
      ideal += equal ? 1 : halves.length;
    }
    return cost(1, passes, ideal);
  }

  // Whether lanes i and i ^ mask have one address; inactive lanes match any.
  function equalUnder(addresses, mask) {
    return addresses.every((address, lane) => {
      const partner = addresses[lane ^ mask];
      return address === null || partner === null || address === partner;
    });
  }

  // 2.x: 8 bytes by half-warps; of 16 bytes the worst quarter-warp, and one pass more.
  function ways(kind, width, addresses, target) {
    const passesOf = (group) => stacked(group, width, target.banks);
    if (width < 16) {
      const parts = groups(addresses, width < 8 ? WARP : WARP / 2);
      return cost(1, parts.flatMap(passesOf), parts.length);
    }
    const worst = groups(addresses, 8).map(passesOf).reduce((a, b) => (b.length > a.length ? b : a));
    return cost(1, [...worst, { excess: false, cells: [] }], 2);
  }

  // 3.x: banks of 64 bits.
  function doubleWords(kind, width, addresses, target) {
    const byPairs = target.bank_bytes === 8;
    const options = {
      bankOf: (word) => mod(byPairs ? floorDiv(word, 2) : word, target.banks),
      unitOf: (word) => floorDiv(word, byPairs ? 2 : 2 * target.banks),
    };
    const parts = groups(addresses, width === 16 ? WARP / 2 : WARP);
    return cost(1, parts.flatMap((part) => stacked(part, width, target.banks, options)), parts.length);
  }

  // 1.x: half-warps in parts of 32 bits; a load broadcasts one word in each pass.
  function halfWarps(kind, width, addresses, target) {
    const halves = groups(addresses, target.request_lanes), count = Math.max(1, width / WORD);
    const passes = halves.flatMap((half) => Array.from({ length: count }, (_, part) => {
      const shifted = half.map(([lane, address]) => [lane, address + part * WORD]);
      return kind === "load" ? broadcasts(shifted, target.banks) : distinctStores(shifted, target.banks);
    }).flat());
    return cost(halves.length * count, passes, halves.length * count);
  }

  function distinctStores(half, banks) {
    const columns = new Map();
    for (const [lane, address] of half) {
      const word = floorDiv(address, WORD), bank = mod(word, banks), column = columns.get(bank) || [];
      columns.set(bank, column);
      let cell = column.find((known) => known.address === address);
      if (!cell) column.push((cell = { address, bank, word, lanes: [] }));
      cell.lanes.push(lane);
    }
    return inRows([...columns.values()]);
  }

  function broadcasts(half, banks) {
    const pending = new Map();
    for (const [lane, address] of half) {
      const word = floorDiv(address, WORD);
      pending.set(word, [...(pending.get(word) || []), lane]);
    }
    const passes = [];
    while (pending.size) {
      const words = [...pending.keys()].sort((a, b) => a - b);
      const chosen = words.reduce((a, b) => (pending.get(b).length > pending.get(a).length ? b : a));
      const cells = [{ bank: mod(chosen, banks), word: chosen, lanes: pending.get(chosen) }];
      pending.delete(chosen);
      const served = new Set([mod(chosen, banks)]);
      for (const word of words) {
        if (!pending.has(word) || served.has(mod(word, banks))) continue;
        served.add(mod(word, banks));
        const [lane, ...others] = pending.get(word);
        cells.push({ bank: mod(word, banks), word, lanes: [lane] });
        if (others.length) pending.set(word, others); else pending.delete(word);
      }
      passes.push({ excess: passes.length > 0, cells });
    }
    return passes;
  }

  function atomic(width, addresses, target) {
    const whole = target.request_lanes === WARP;
    const parts = groups(addresses, whole ? (WARP * WORD) / Math.max(width, WORD) : target.request_lanes);
    const passes = parts.flatMap((part) => stacked(part, width, target.banks, { unshared: true }));
    return cost(1, passes, parts.length);
  }

  // cp.async below 16 bytes: words of one bank conflict in the reads through L1 and in the writes.
  function asyncCopy(width, addresses, target, sources) {
    if (width === 16) return wideCopy(addresses, sources);
    const size = width === 4 ? WARP : WARP / 2, parts = groups(addresses, size);
    if (!sources) {
      const options = { unshared: true };
      return cost(1, parts.flatMap((part) => stacked(part, width, target.banks, options)), parts.length);
    }
    return cost(1, parts.flatMap((part) => copyPasses(part, sources, width)), parts.length);
  }

  function copyPasses(part, sources, width) {
    const banks = LINE / width, read = new Map(), written = new Map(), byRank = new Map();
    for (const [lane, address] of part) {
      const unit = floorDiv(sources[lane], width), from = mod(unit, banks), units = read.get(from) || [];
      if (!units.includes(unit)) units.push(unit);
      read.set(from, units);
      const bank = mod(floorDiv(address, width), banks), rank = units.indexOf(unit) + (written.get(bank) || 0);
      written.set(bank, (written.get(bank) || 0) + 1);
      const cells = byRank.get(rank) || [];
      byRank.set(rank, cells);
      for (const word of wordsOf(address, width)) cells.push({ bank: mod(word, WARP), word, lanes: [lane] });
    }
    const ranks = [...byRank.keys()].sort((a, b) => a - b);
    return ranks.map((rank, row) => ({ excess: row > 0, cells: byRank.get(rank) }));
  }

  // 16-byte copies bypass L1. Half sectors move together where source and destination lines, the parity of the sector
  // distance and the halves agree.
  function wideCopy(addresses, sources) {
    const from = sources || addresses.map((_, lane) => HALF_SECTOR * lane), seen = new Set();
    const writers = addresses.map((address) => {
      if (address === null || seen.has(address)) return null;
      seen.add(address);
      return address;
    });
    const parts = groups(writers, 8);
    const passes = parts.flatMap((part) => {
      const moves = new Map();
      for (const [lane, address] of part) {
        const source = from[lane], key = `${floorDiv(source, SECTOR)} ${floorDiv(address, SECTOR)}`;
        const move = moves.get(key) || { source: floorDiv(source, SECTOR), target: floorDiv(address, SECTOR),
                                         halves: new Set(), lanes: [] };
        move.halves.add(`${mod(floorDiv(source, HALF_SECTOR), 2)}${mod(floorDiv(address, HALF_SECTOR), 2)}`);
        move.lanes.push([lane, address]);
        moves.set(key, move);
      }
      const wavefronts = new Map();
      for (const { source, target, halves, lanes } of moves.values()) {
        const key = [floorDiv(source, 4), floorDiv(target, 4), mod(target - source, 2), [...halves].sort()].join(" ");
        wavefronts.set(key, [...(wavefronts.get(key) || []), ...lanes]);
      }
      return [...wavefronts.values()].map((lanes, row) => ({
        excess: row > 0,
        cells: lanes.flatMap(([lane, address]) =>
          wordsOf(address, 16).map((word) => ({ bank: mod(word, WARP), word, lanes: [lane] }))),
      }));
    });
    const written = active(writers);
    const made = cost(1, passes, parts.length);
    made.sectors = new Set(written.map((address) => floorDiv(address, SECTOR))).size;
    made.ideal_sectors = Math.ceil((written.length * HALF_SECTOR) / SECTOR);
    return made;
  }

  function constant(width, addresses, target) {
    const count = Math.max(1, floorDiv(width, 8)), parts = groups(addresses, target.request_lanes);
    const passes = parts.flatMap((part) => {
      const distinct = [...new Set(part.map(([, address]) => address))].sort((a, b) => a - b);
      return Array.from({ length: count }, () => distinct.map((address, row) => ({
        excess: row > 0,
        cells: [{ bank: 0, word: floorDiv(address, WORD),
                  lanes: part.filter(([, other]) => other === address).map(([lane]) => lane) }],
      }))).flat();
    });
    return cost(passes.length, passes, count * parts.length);
  }

  // Local memory: the words of the lanes are interleaved.
  function local(kind, width, addresses, target) {
    const words = Array.from({ length: Math.max(1, width / WORD) }, (_, word) => word);
    const interleaved = (from, word) => from.map((address, lane) =>
      address === null ? null : ((floorDiv(address, WORD) + word) * WARP + lane) * WORD);
    const through = { ...target, global_cache: "l1" };
    const costs = words.map((word) => segments(kind, WORD, interleaved(addresses, word), through));
    const uniform = addresses.map((address) => (address === null ? null : 0));
    const ideal = segments(kind, WORD, interleaved(uniform, 0), through);
    const made = cost(sum(costs.map((each) => each.requests)), [], 0);
    made.transactions = costs.flatMap((each) => each.transactions);
    made.sectors = sum(costs.map((each) => each.sectors));
    made.ideal_sectors = ideal.sectors * words.length;
    return made;
  }

  // Global memory: transactions of 32-byte sectors or, through the L1 of 2.x to 5.x, of lines.
  function segments(kind, width, addresses, target) {
    if (target.global_rule === "in_order") return inOrder(width, addresses, target);
    if (target.global_rule === "segments") return halvedSegments(width, addresses, target);
    const lines = target.global_rule === "lines" && kind === "load" && target.global_cache === "l1";
    const granule = lines ? LINE : SECTOR;
    const split = groups(addresses, target.global_split ? (WARP * 4) / Math.max(4, width) : WARP);
    const parts = target.global_rule === "sectors" ? groups(addresses, WARP) : split;
    const transactions = parts.flatMap((part) => {
      const starts = [...new Set(part.map(([, address]) => floorDiv(address, granule)))].sort((a, b) => a - b);
      return starts.map((start) => [start * granule, granule]);
    });
    return moved(split.length, transactions, sum(parts.map((part) => packed(width, part, granule))));
  }

  function moved(count, transactions, idealBytes) {
    const made = cost(count, [], 0);
    made.transactions = transactions;
    made.sectors = floorDiv(sum(transactions.map(([, size]) => size)), SECTOR);
    made.ideal_sectors = floorDiv(idealBytes, SECTOR);
    return made;
  }

  const packed = (width, part, granule) =>
    Math.ceil((new Set(part.map(([, address]) => address)).size * width) / granule) * granule;

  // 1.2, 1.3: segments of 32 to 128 bytes, halved while one half is unused.
  function halvedSegments(width, addresses, target) {
    const size = { 1: 32, 2: 64 }[width] || LINE, halves = groups(addresses, target.request_lanes);
    const transactions = halves.flatMap((half) => {
      let pending = half.map(([, address]) => address);
      const made = [];
      while (pending.length) {
        const start = floorDiv(pending[0], size) * size;
        const joined = pending.filter((address) => floorDiv(address, size) * size === start);
        pending = pending.filter((address) => floorDiv(address, size) * size !== start);
        made.push(halved(start, size, Math.min(...joined), Math.max(...joined) + width));
      }
      return made;
    });
    return moved(halves.length, transactions, sum(halves.map((half) => packed(width, half, SECTOR))));
  }

  function halved(start, size, first, stop) {
    while (size > SECTOR) {
      const half = size / 2;
      if (stop <= start + half) size = half;
      else if (first >= start + half) { start += half; size = half; } else break;
    }
    return [start, size];
  }

  // 1.0, 1.1: lane k accesses word k of an aligned segment, or each lane has a transaction.
  function inOrder(width, addresses, target) {
    const size = target.request_lanes, transactions = [];
    const halves = groups(addresses, size), span = width * size, segment = Math.min(span, LINE);
    let ideal = 0;
    for (const half of halves) {
      const first = floorDiv(half[0][0], size) * size;
      const bases = new Set(half.map(([lane, address]) => address - (lane - first) * width)), base = Math.min(...bases);
      if (width >= 4 && bases.size === 1 && mod(base, segment) === 0) {
        for (let start = base; start < base + span; start += segment) transactions.push([start, segment]);
        ideal += span;
        continue;
      }
      for (const [, address] of half) transactions.push([floorDiv(address, SECTOR) * SECTOR, SECTOR]);
      ideal += Math.min(Math.ceil(span / SECTOR), half.length) * SECTOR;
    }
    return moved(halves.length, transactions, ideal);
  }

  return { evaluate, holds, threadOf, lanesOf, costOf, warpRequest };
})();

if (typeof module !== "undefined") module.exports = requests;
