// Figures and lists in words.
"use strict";

const words = (() => {
  const thousands = (number) => number.toLocaleString("en-US");
  const counted = (number, noun) => `${thousands(number)} ${noun}${number === 1 ? "" : "s"}`;
  const unitOf = (number, unit) => `${thousands(number)} ${number === 1 ? unit.slice(0, -1) : unit}`;
  const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  const swatch = (look, text) => `<span class="nobr"><span class="swatch" ${look}></span>${text}</span>`;

  // `0–7, 16`
  function runs(numbers) {
    const made = [];
    for (const number of [...numbers].sort((a, b) => a - b)) {
      const last = made[made.length - 1];
      if (last && last[1] === number - 1) last[1] = number; else made.push([number, number]);
    }
    return made.map(([a, b]) => (a === b ? `${a}` : b === a + 1 ? `${a}, ${b}` : `${a}–${b}`)).join(", ");
  }

  return { thousands, counted, unitOf, escaped, swatch, runs };
})();

if (typeof module !== "undefined") module.exports = words;
