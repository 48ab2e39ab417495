// <online-softmax>: a query's scores arrive in blocks; the running maximum, sum and weighted value after each.
// Data: {tokens, scores, values}: one query's scores, and one feature of each value. With {page,
// tables, pool, stale}, a block is a page of the pool, found in a block table; `pool` has other requests' tokens, and
// `stale` is the key after the last one.
"use strict";

{
  const [CELL, ROW, GAP] = [36, 69, 18];
  const phone = matchMedia("(max-width: 500px)"); // the keys take two rows, in place of one
  const { number, escape } = BookWidget;
  const four = (x) => number(x, 4);
  const middle = (x, y, words) => `<text x="${x}" y="${y}" text-anchor="middle">${escape(String(words))}</text>`;
  const rect = (kind, x, y, width, height = width) => `<rect class="${kind}" x="${x}" y="${y}" width="${width}" height="${height}"/>`;
  const dot = (x, y) => `<circle class="dot" cx="${x}" cy="${y}" r="1.5"/>`;

  class OnlineSoftmax extends BookWidget {
    constructor() {
      super();
      this.view = { step: 2, size: 4, hidden: false, table: 0, stale: false };
    }

    get label() {
      return `Online softmax, ${this.unit} by ${this.unit}`;
    }

    get unit() {
      return this.data.page ? "page" : "block";
    }

    get markup() {
      const { page, tables } = this.data;
      const check = (name, text) => `<label><input type="checkbox" name="${name}"> ${text}</label>`;
      if (page) this.view.size = page;
      const controls = page
        ? BookWidget.list("table", "Block table", tables.map((table) => table.join(", "))) + check("stale", "read the whole last page")
        : BookWidget.list("size", "Keys per block", [1, 2, 4, 6], [1, 2, 4, 6]) + check("hidden", "mask the first block");
      return `${BookWidget.stepBar(`Next ${this.unit}`)}<div class="bar">${controls}</div>
        <div class="scroll" tabindex="0" role="group" aria-label="The keys, their scores and weights">
          <p>Each key's score; the square's area is its weight relative to the largest score so far, and a dot is ${page ? "another request's token" : "masked"}.</p>
          <svg id="keys" role="img"></svg></div>
        <div class="scroll" tabindex="0" role="group" aria-label="The three running numbers">
          <table><thead></thead><tbody></tbody></table></div>
        <style>
          #keys { margin-bottom: 0.6em; }
          .block { fill: none; stroke: var(--fg, #000); stroke-width: 1.5; }
          .fill { --role: var(--weights); }
        </style>`;
    }

    start() {
      for (const name of ["size", "hidden", "table", "stale"]) this.bind(name);
      this.$("select").addEventListener("input", () => this.change({ step: 0 }));
      this.steps(1800, { step: 0 });
      phone.addEventListener("change", () => this.draw());
    }

    move(by) {
      this.change({ step: Math.max(0, Math.min(this.blocks, this.view.step + by)) });
      return this.view.step < this.blocks;
    }

    get blocks() {
      return Math.ceil(this.data.scores.length / this.view.size);
    }

    /** What is stored after so many blocks, and the factor of the last one. */
    after(step, stale = this.view.stale) {
      const { size, hidden } = this.view;
      const { tokens, scores, values } = this.data;
      const keys = tokens.map((token, i) => ({ token, score: hidden && i < size ? -Infinity : scores[i], value: values[i] }));
      if (stale) keys.push(this.data.stale);
      let [largest, total, seen, kept] = [-Infinity, 0, 0, 1];
      for (let block = 0; block < step; block++) {
        const some = keys.slice(block * size, (block + 1) * size);
        const next = Math.max(largest, ...some.map(({ score }) => score));
        const base = next === -Infinity ? 0 : next; // a row fully masked so far has no maximum
        kept = Math.exp(largest - base);
        const weights = some.map(({ score }) => Math.exp(score - base));
        total = total * kept + weights.reduce((sum, weight) => sum + weight, 0);
        seen = seen * kept + weights.reduce((sum, weight, i) => sum + weight * some[i].value, 0);
        largest = next;
      }
      return { largest, total, seen, kept, result: total ? seen / total : 0, keys };
    }

    get state() {
      const { largest, total, seen, kept, result } = this.after(this.view.step);
      return { ...this.view, blocks: this.blocks, largest, total, seen, kept, result };
    }

    /** A key in its cell: its token, its score, and its weight once it has been processed. */
    cell({ token, score }, i, left, top) {
      const { step, size } = this.view;
      const { largest } = this.after(step);
      const [x, y] = [left + CELL / 2, top + 28 + CELL / 2];
      const seen = i < step * size;
      const half = Math.max(0.75, (CELL / 2 - 2) * Math.sqrt(Math.exp(score - (largest === -Infinity ? 0 : largest))));
      const square = () => rect("fill", (x - half).toFixed(1), (y - half).toFixed(1), (2 * half).toFixed(1));
      const drawn = !seen ? "" : score === -Infinity ? dot(x, y) : square();
      const kind = seen && i >= (step - 1) * size ? "block" : "axis";
      return middle(x, top + 9, token) + middle(x, top + 22, number(score)) + rect(kind, left + 1, top + 28, CELL - 2, CELL) + drawn;
    }

    /** The keys in a row, on a phone in two, and the drawing's size. */
    row(keys) {
      const across = phone.matches ? Math.ceil(keys.length / 2) : keys.length;
      const cells = keys.map((key, i) => this.cell(key, i, (i % across) * CELL, Math.floor(i / across) * ROW));
      return [cells, across * CELL, Math.ceil(keys.length / across) * ROW];
    }

    /** The block table above the pool's pages, on a phone in two rows, and the drawing's size. */
    pool(keys) {
      const { page, pool, tables } = this.data;
      const [table, read] = [tables[this.view.table], this.view.step - 1];
      const [across, pitch] = [phone.matches ? pool.length / 2 : pool.length, page * CELL + GAP];
      const place = (number) => [GAP + (number % across) * pitch, 60 + Math.floor(number / across) * (ROW + 26)];
      const drawn = pool.flatMap((others, number) => {
        const [[left, top], entry] = [place(number), table.indexOf(number)];
        const slots = Array.from({ length: page }, (_, slot) => {
          const [i, x] = [entry * page + slot, left + slot * CELL];
          if (keys[i]) return this.cell(keys[i], i, x, top);
          const other = entry < 0 && others[slot];
          const drawn = other ? middle(x + CELL / 2, top + 22, other) + dot(x + CELL / 2, top + 28 + CELL / 2) : "";
          return drawn + rect("grid", x + 1, top + 28, CELL - 2, CELL);
        });
        return [middle(left + (page * CELL) / 2, top - 7, `page ${number}`), ...slots];
      });
      const entries = table.map((number, i) => rect(i === read ? "block" : "axis", 92 + i * 34, 1, 30, 22) + middle(107 + i * 34, 16, number));
      if (read >= 0) {
        const [x, y] = [place(table[read])[0], place(table[read])[1] + 28 + CELL / 2];
        entries.push(`<path class="block" d="M${107 + read * 34} 23V34H${x - 11}V${y}H${x - 6}"/><path class="mark" d="M${x} ${y}l-7 -4v8z"/>`);
      }
      return [[middle(52, 16, "block table"), ...entries, ...drawn], GAP + across * pitch, place(pool.length - 1)[1] + ROW];
    }

    draw() {
      const { step, size, hidden, stale } = this.view;
      const [now, last] = [this.after(step), this.after(this.blocks, false)];
      this.$("select").value = this.view[this.$("select").name];
      this.$("[type=checkbox]").checked = hidden || stale;
      this.dim("#back", step === 0);
      this.dim("#next", step === this.blocks);
      const [drawn, width, height] = this.data.page ? this.pool(now.keys) : this.row(now.keys);
      const count = now.keys.length;
      this.$("#keys").setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.$("#keys").innerHTML = drawn.join("");
      this.scaleText();
      this.$("#keys").ariaLabel = `Weights of ${Math.min(count, step * size)} of ${count} keys, relative to the largest score so far`;
      const row = (name, cell) => `<tr><th scope="row">${name}</th><td>${cell(now)}</td><td>${cell(last)}</td></tr>`;
      this.$("thead").innerHTML = `<tr><td></td><th scope="col">after ${step} of ${this.blocks} ${this.unit}s</th><th scope="col">softmax of all keys</th></tr>`;
      this.$("tbody").innerHTML = [
        row("maximum m", ({ largest }) => four(largest)),
        row("sum l", ({ total }) => four(total)),
        row("weighted value o", ({ seen }) => four(seen)),
        row("o / l", ({ total, result }) => (total ? four(result) : "–")),
      ].join("");
      const before = this.after(Math.max(0, step - 1));
      const grew = step > 1 && now.largest > before.largest && before.largest > -Infinity;
      const [l, added] = [four(before.total), four(now.total - before.total * now.kept)];
      const kept = grew
        ? `The maximum rose from ${four(before.largest)} to ${four(now.largest)}, so l = ${l} × e^(${four(before.largest)} − ${four(now.largest)}) + ${added} ≈ ${l} × ${four(now.kept)} + ${added} = ${four(now.total)}, and o is rescaled by the same factor.`
        : step > 1 && before.largest > -Infinity ? `The maximum stayed, so nothing was rescaled: l = ${l} + ${added} = ${four(now.total)}.` : "";
      const { page, tables } = this.data;
      const where = page && step ? `Entry ${step - 1} of the block table is page ${tables[this.view.table][step - 1]}. ` : "";
      const end = stale ? `The free slot was read too: o / l is ${four(now.result)}, not ${four(last.result)}.` : "All keys are processed: o / l is the output.";
      this.say(
        step === 0 ? "No key has been processed: the maximum is −∞."
          : now.largest === -Infinity ? "All keys so far are masked: the maximum is still −∞, and the sum is 0."
            : where + (`${kept} ${step === this.blocks ? end : ""}`.trim() || `The first ${this.unit} sets the maximum.`),
      );
    }
  }
  customElements.define("online-softmax", OnlineSoftmax);
}
