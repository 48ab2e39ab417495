"use strict";

// A table that is wider than a phone, or higher than its cards, becomes a list of cards, one for each row: the first cell
// is the heading, and each of the others is below or beside its column's name (book.css). A grid of numbered columns keeps
// its shape, and scrolls.

(() => {
  const phone = matchMedia("(max-width: 600px)");
  const numbered = (heads) => heads.length > 2 && heads.slice(1).every((head) => head.length < 2);
  const tables = [];

  // Where there is room, a name, a shape or a number with its unit stays in one line, and so does a short name in code
  // (book.css). In a table of many columns there may be none.
  const many = [];
  for (const cell of document.querySelectorAll("main .table-wrapper > table > tbody > tr > *")) {
    const first = cell.cellIndex === 0;
    if (cell.textContent.trim().length > (first ? 24 : 14)) continue;
    if (first || cell.parentElement.cells.length <= 5) cell.classList.add("short");
    else many.push([cell, cell.closest(".table-wrapper")]);
  }
  for (const code of document.querySelectorAll("main .table-wrapper td code")) {
    if (code.textContent.length <= 16) code.classList.add("short");
  }

  // What a table is to a screen reader is lost with its layout, so it is said.
  const prepare = (table) => {
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
    if (numbered(heads)) return;
    const rows = [...table.tBodies].flatMap((body) => [...body.rows]);
    const cells = rows.flatMap((row) => [...row.cells].slice(1));
    const figures = cells.every((cell) => cell.textContent.trim().length <= 9);
    for (const row of rows) {
      [...row.cells].forEach((cell, i) => {
        cell.setAttribute("data-column", heads[i] ?? "");
        if (cell.childNodes.length < 2) return;
        const whole = document.createElement("span"); // in the card's grid, each part would be a cell of its own
        whole.append(...cell.childNodes);
        cell.append(whole);
      });
    }
    tables.push({ table, kind: figures ? "cards figures" : "cards" });
  };
  const roles = (table, on) => {
    const set = (parts, role) => [...parts].forEach((part) => (on ? part.setAttribute("role", role) : part.removeAttribute("role")));
    set([table], "table");
    set(table.querySelectorAll("thead, tbody"), "rowgroup");
    set(table.rows, "row");
    set(table.querySelectorAll("thead th"), "columnheader");
    set(table.querySelectorAll("tbody th"), "rowheader");
    set(table.querySelectorAll("td"), "cell");
  };
  const update = () => {
    for (const { table } of tables) table.classList.remove("cards", "figures");
    for (const [cell] of many) cell.classList.add("short");
    const full = new Set(many.filter(([, around]) => around.scrollWidth > around.clientWidth + 1).map(([, around]) => around));
    for (const [cell, around] of many) if (full.has(around)) cell.classList.remove("short");
    // All sizes are read before any table is changed: in turns, each of them would lay the page out anew.
    const heights = () => tables.map(({ table }) => table.offsetHeight);
    const fits = tables.map(({ table: { parentElement: around } }) => around.scrollWidth <= around.clientWidth + 1);
    const plain = heights();
    if (phone.matches) for (const { table, kind } of tables) table.classList.add(...kind.split(" "));
    const cards = heights();
    const wide = tables.map((_, i) => phone.matches && !(fits[i] && plain[i] <= 1.25 * cards[i]));
    tables.forEach(({ table }, i) => {
      if (!wide[i]) table.classList.remove("cards", "figures");
      if (wide[i] !== table.hasAttribute("role")) roles(table, wide[i]);
    });
  };
  for (const table of document.querySelectorAll("main .table-wrapper > table")) if (table.tHead) prepare(table);
  update();
  addEventListener("resize", update);
  addEventListener("toggle", update, { capture: true }); // a part that comes to light in a <details>
  document.fonts.addEventListener("loadingdone", update);
})();
