// <online-softmax>: a query's scores arrive in blocks; the running maximum, sum and weighted value after each.
// Data: {tokens, scores, values}: of one query and head, each key's score and one feature of its value.
"use strict";

{
  const [CELL, ROW] = [36, 66];
  const phone = matchMedia("(max-width: 500px)"); // the keys take two rows, in place of one
  const { number, escape } = BookWidget;

  class OnlineSoftmax extends BookWidget {
    constructor() {
      super();
      this.label = "Online softmax, block by block";
      this.view = { step: 2, size: 4, hidden: false };
    }

    get markup() {
      return `<div class="bar">
          <button type="button" id="back">Back</button><button type="button" id="next">Next block</button>
          ${BookWidget.list("size", "Keys per block", [1, 2, 4, 6], [1, 2, 4, 6])}
          <label><input type="checkbox" name="hidden"> mask the first block</label>
        </div>
        <div class="scroll" tabindex="0" role="group" aria-label="The keys, their scores and weights">
          <p>Each key's score; the square's area is its weight relative to the largest score so far, and a dot is masked.</p>
          <svg id="keys" role="img" aria-labelledby="keys-title">
            <title id="keys-title"></title><g></g></svg></div>
        <div class="scroll" tabindex="0" role="group" aria-label="The three running numbers">
          <table><thead></thead><tbody></tbody></table></div>
        <style>
          #keys { margin-bottom: 0.6em; }
          .block { fill: none; stroke: var(--fg, #000); stroke-width: 1.5; }
          .axis { fill: none; stroke: var(--fg, #000); stroke-opacity: 0.6; }
          .fill { --role: var(--weights); }
        </style>`;
    }

    start() {
      for (const name of ["size", "hidden"]) this.bind(name);
      this.$("[name=size]").addEventListener("input", () => this.change({ step: 0 }));
      this.$("#back").onclick = () => this.move(-1);
      this.$("#next").onclick = () => this.move(1);
      phone.addEventListener("change", () => this.draw());
    }

    onKey(event) {
      const by = BookWidget.arrow(event);
      if (by) this.move(by);
      return by !== 0;
    }

    move(by) {
      this.change({ step: Math.max(0, Math.min(this.blocks, this.view.step + by)) });
    }

    get blocks() {
      return Math.ceil(this.data.scores.length / this.view.size);
    }

    /** What is stored after so many blocks, and the factor of the last one. */
    after(step) {
      const { size, hidden } = this.view;
      const scores = this.data.scores.map((score, i) => (hidden && i < size ? -Infinity : score));
      let [largest, total, seen, kept] = [-Infinity, 0, 0, 1];
      for (let block = 0; block < step; block++) {
        const some = scores.slice(block * size, (block + 1) * size);
        const next = Math.max(largest, ...some);
        const base = next === -Infinity ? 0 : next; // a row fully masked so far has no maximum
        kept = Math.exp(largest - base);
        const weights = some.map((score) => Math.exp(score - base));
        total = total * kept + weights.reduce((sum, weight) => sum + weight, 0);
        seen = seen * kept + weights.reduce((sum, weight, i) => sum + weight * this.data.values[block * size + i], 0);
        largest = next;
      }
      return { largest, total, seen, kept, result: total ? seen / total : 0, scores };
    }

    get state() {
      const { largest, total, seen, kept, result } = this.after(this.view.step);
      return { ...this.view, blocks: this.blocks, largest, total, seen, kept, result };
    }

    draw() {
      const { step, size, hidden } = this.view;
      const [now, last] = [this.after(step), this.after(this.blocks)];
      this.$("[name=size]").value = size;
      this.$("[name=hidden]").checked = hidden;
      this.dim("#back", step === 0);
      this.dim("#next", step === this.blocks);
      const count = this.data.tokens.length;
      const across = phone.matches ? Math.ceil(count / 2) : count;
      const cells = this.data.tokens.map((token, i) => {
        const [left, top] = [(i % across) * CELL, Math.floor(i / across) * ROW];
        const x = left + CELL / 2;
        const text = `<text x="${x}" y="${top + 9}" text-anchor="middle">${escape(token)}</text><text x="${x}" y="${top + 20}" text-anchor="middle">${number(now.scores[i], 2)}</text>`;
        const base = now.largest === -Infinity ? 0 : now.largest;
        const seen = i < step * size;
        const side = Math.max(1.5, (CELL - 4) * Math.sqrt(Math.exp(now.scores[i] - base)));
        const masked = `<circle class="dot" cx="${x}" cy="${top + 25 + CELL / 2}" r="1.5"/>`;
        const drawn = !seen ? "" : now.scores[i] === -Infinity ? masked : `<rect class="fill" x="${(x - side / 2).toFixed(1)}" y="${(top + 25 + (CELL - side) / 2).toFixed(1)}" width="${side.toFixed(1)}" height="${side.toFixed(1)}"/>`;
        const kind = seen && i >= (step - 1) * size ? "block" : "axis";
        return `${text}<rect class="${kind}" x="${left + 1}" y="${top + 25}" width="${CELL - 2}" height="${CELL}"/>${drawn}`;
      });
      this.$("#keys").setAttribute("viewBox", `0 0 ${across * CELL} ${Math.ceil(count / across) * ROW}`);
      this.$("#keys g").innerHTML = cells.join("");
      this.scaleText();
      this.$("#keys-title").textContent = `Weights of ${Math.min(count, step * size)} of ${count} keys, relative to the largest score so far`;
      const [head, ...rows] = [
        ["", `after ${step} of ${this.blocks} blocks`, "softmax of all keys"],
        ...["maximum m", "sum l", "weighted value o", "o / l"].map((name, i) => {
          const cell = ({ largest, total, seen, result }) => (i === 3 && !total ? "–" : number([largest, total, seen, result][i], 4));
          return [name, cell(now), cell(last)];
        }),
      ];
      this.$("thead").innerHTML = `<tr><td></td>${head.slice(1).map((name) => `<th scope="col">${name}</th>`).join("")}</tr>`;
      this.$("tbody").innerHTML = rows.map(([name, ...cells]) => `<tr><th scope="row">${name}</th>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`).join("");
      const before = this.after(Math.max(0, step - 1));
      const grew = step > 1 && now.largest > before.largest && before.largest > -Infinity;
      const added = now.total - before.total * now.kept;
      const kept = grew
        ? `The maximum rose from ${number(before.largest)} to ${number(now.largest)}, so l = ${number(before.total, 4)} × e^(${number(before.largest)} − ${number(now.largest)}) + ${number(added, 4)} = ${number(before.total, 4)} × ${number(now.kept, 4)} + ${number(added, 4)} = ${number(now.total, 4)}, and o is rescaled by the same factor.`
        : step > 1 && before.largest > -Infinity ? `The maximum stayed, so nothing was rescaled: l = ${number(before.total, 4)} + ${number(added, 4)} = ${number(now.total, 4)}.` : "";
      this.say(
        step === 0 ? "No key has been processed: the maximum is −∞."
          : now.largest === -Infinity ? "All keys so far are masked: the maximum is still −∞, and the sum is 0."
            : `${kept} ${step === this.blocks ? "All keys are processed: o / l is the output." : ""}`.trim() || "The first block sets the maximum.",
      );
    }
  }
  customElements.define("online-softmax", OnlineSoftmax);
}
