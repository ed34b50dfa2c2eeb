// Sorts the index by the column whose heading is chosen; again, in the opposite order.
"use strict";

(() => {
  const table = document.getElementById("index"), body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];

  function compare(a, b) {
    const [x, y] = [Number(a), Number(b)];
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en") : x - y;
  }

  headings.forEach((heading, column) => heading.querySelector("button").addEventListener("click", () => {
    const descending = heading.getAttribute("aria-sort") === "ascending";
    headings.forEach((each) => each.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const rows = [...body.rows];
    rows.sort((a, b) => compare(a.cells[column].dataset.value, b.cells[column].dataset.value));
    body.append(...(descending ? rows.reverse() : rows));
  }));
})();
