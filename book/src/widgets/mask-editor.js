// <mask-editor>: a causal and a padding mask, and single keys that the reader hides; the weights of the same scores.
// Data: {tokens, scores}: queries x keys.
"use strict";

{
  const [CELL, LEFT, TOP] = [38, 38, 18];
  const { number, escape } = BookWidget;
  const FULL = ["zeros if all are hidden", "−∞ in the softmax", "−10⁹ in the softmax"];

  class MaskEditor extends BookWidget {
    constructor() {
      super();
      this.label = "A mask, and the weights of one head";
      this.view = { causal: true, padding: 2, side: 0, full: 0, row: 3, column: 3, changed: [] };
    }

    get markup() {
      const { list, slider } = BookWidget;
      const group = "The mask; arrow keys choose a query and a key, and Space hides or shows the key";
      return `<div class="bar"><label><input type="checkbox" name="causal"> causal</label>
          ${list("side", "Padding", ["left", "right"])}${list("full", "Hidden keys", FULL)}</div>
        <div class="sliders">${slider("padding", "tokens of padding", 0, this.data.tokens.length)}</div>
        <div class="beside"><div id="cells" role="group" tabindex="0" aria-label="${group}"><p>Mask: click a cell to hide or show its key.</p><svg id="mask" aria-hidden="true"></svg></div>
        <div><p>Weights; a shaded row is fully masked.</p><svg id="weights" aria-hidden="true"></svg></div></div>
        <dl class="figures"></dl>
        <style>
          svg { max-width: 21em; }
          #mask { cursor: pointer; --role: var(--fg, #000); } #weights { --role: var(--weights); }
          .now { fill: none; stroke: var(--links); stroke-width: 2.5; }
          .full { fill: color-mix(in srgb, var(--logits) 16%, var(--bg, #fff)); }
        </style>`;
    }

    start() {
      for (const name of ["causal", "side", "full", "padding"]) this.bind(name);
      this.$("#mask").onclick = ({ clientX, clientY }) => {
        const box = this.$("#mask").getBoundingClientRect();
        const scale = this.$("#mask").viewBox.baseVal.width / box.width;
        const [column, row] = [((clientX - box.x) * scale - LEFT) / CELL, ((clientY - box.y) * scale - TOP) / CELL].map(Math.floor);
        if (Math.min(row, column) >= 0 && Math.max(row, column) < this.data.tokens.length) this.toggle(row, column);
      };
    }

    /** In the mask, the arrow keys choose a query and a key. */
    onKey({ key, target }) {
      const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key] ?? [0, 0];
      if (target.id !== "cells" || !(down || right || key === " " || key === "Enter")) return false;
      const within = (at) => Math.max(0, Math.min(this.data.tokens.length - 1, at));
      const [row, column] = [within(this.view.row + down), within(this.view.column + right)];
      if (down || right) this.change({ row, column });
      else this.toggle(row, column);
      return true;
    }

    toggle(row, column) {
      const cell = row * this.data.tokens.length + column;
      const { changed } = this.view;
      this.change({ row, column, changed: changed.includes(cell) ? changed.filter((each) => each !== cell) : [...changed, cell] });
    }

    /** Whether a position is padding. */
    padded(j) {
      const { padding, side } = this.view;
      return side ? j >= this.data.tokens.length - padding : j < padding;
    }

    get state() {
      const { causal, full, changed } = this.view;
      const hidden = this.data.scores.map((scores, i) => scores.map((_, j) => ((causal && j > i) || this.padded(j)) !== changed.includes(i * scores.length + j)));
      const weights = this.data.scores.map((scores, i) => {
        if (!full && hidden[i].every(Boolean)) return scores.map(() => 0);
        // In float32, −10⁹ plus a score is −10⁹.
        const masked = scores.map((score, j) => (!hidden[i][j] ? score : full === 2 ? Math.fround(score - 1e9) : -Infinity));
        const exp = masked.map((score) => Math.exp(score - Math.max(...masked)));
        const sum = exp.reduce((sum, x) => sum + x, 0);
        return exp.map((x) => x / sum);
      });
      return { ...this.view, hidden, weights, seen: hidden.map((row) => row.filter((hides) => !hides).length) };
    }

    draw() {
      const { causal, padding, side, full, row, column, hidden, weights, seen } = this.state;
      for (const [name, value] of Object.entries({ side, full, padding })) this.$(`[name=${name}]`).value = value;
      this.$("[name=causal]").checked = causal;
      this.$("#at-padding").textContent = padding;
      const names = this.data.tokens.map((token, j) => (this.padded(j) ? "–" : token));
      const size = names.length;
      const grid = (id, inside) => {
        const [x, y] = [(j) => LEFT + j * CELL, (i) => TOP + i * CELL];
        const labels = names.map((name, i) => `<text x="${x(i) + CELL / 2}" y="12" text-anchor="middle">${escape(name)}</text><text x="${LEFT - 5}" y="${y(i) + 22}" text-anchor="end">${escape(name)}</text>`);
        const rows = hidden.map((keys, i) => {
          const full = seen[i] ? "" : `<rect class="full" x="${LEFT}" y="${y(i)}" width="${size * CELL}" height="${CELL}"/>`;
          return full + keys.map((hides, j) => `<rect class="grid" x="${x(j)}" y="${y(i)}" width="${CELL}" height="${CELL}"/>${inside(i, j, hides, x(j) + CELL / 2, y(i))}`).join("");
        });
        const now = `<rect class="now" x="${x(column)}" y="${y(row)}" width="${CELL}" height="${CELL}"/>`;
        this.$(id).setAttribute("viewBox", `0 0 ${LEFT + size * CELL + 2} ${TOP + size * CELL + 2}`);
        this.$(id).innerHTML = [...labels, ...rows, now].join("");
      };
      const square = (x, y, side) => `<rect class="fill" x="${x - side / 2}" y="${y - side / 2}" width="${side}" height="${side}"/>`;
      grid("#mask", (i, j, hides, x, y) => (hides ? `<circle class="dot" cx="${x}" cy="${y + CELL / 2}" r="2"/>` : square(x, y + CELL / 2, 20)));
      grid("#weights", (i, j, hides, x, y) => {
        const weight = weights[i][j];
        return `${weight > 0.001 ? square(x, y + 13, 20 * Math.sqrt(weight)) : ""}<text x="${x}" y="${y + 34}" text-anchor="middle">${weight >= 0 ? number(weight) : "NaN"}</text>`;
      });
      this.scaleText();
      const count = seen.filter((keys) => !keys).length;
      this.figures([["keys that each query sees", seen.join(", ")], ["fully masked rows", count]]);
      const sum = weights[row].reduce((sum, weight) => sum + weight, 0);
      const weight = weights[row][column];
      this.say(`Query ${row}, ${names[row]}, key ${column}, ${names[column]}: ${hidden[row][column] ? "hidden" : "visible"}, weight ${weight >= 0 ? number(weight) : "NaN"}. The row ${seen[row] ? "" : "is fully masked and "}sums to ${sum >= 0 ? number(sum) : "NaN"}.`);
    }
  }
  customElements.define("mask-editor", MaskEditor);
}
