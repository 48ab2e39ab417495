// <fused-layouts>: one token's fused queries, keys and values, as they are stored and as a split takes them.
// Data: {heads, kv, vectors}: H, H_kv, and the first features of each vector, queries, then keys, then values.
"use strict";

{
  const [WIDE, CELL, TOP] = [36, 12, 34];
  const LAYOUTS = ["blocks", "interleaved"];
  const ROLES = { q: "query", k: "key", v: "value" };

  class FusedLayouts extends BookWidget {
    constructor() {
      super();
      this.label = "A fused projection, stored in one order and split in another";
      this.view = { stored: 1, split: 0 };
    }

    get markup() {
      const { list } = BookWidget;
      const width = this.data.vectors.length * WIDE;
      return `<div class="bar">${list("stored", "The weight's layout", LAYOUTS)}${list("split", "Your code assumes", LAYOUTS)}</div>
        <svg id="vectors" viewBox="0 0 ${width} ${TOP + this.data.vectors[0].length * CELL + 66}" role="img"></svg>
        <dl class="figures"></dl>
        <style>
          .wrong { fill: color-mix(in srgb, var(--logits) 18%, var(--bg, #fff)); stroke: var(--logits); }
          .query { --role: var(--query); } .key { --role: var(--key); } .value { --role: var(--value); }
        </style>`;
    }

    start() {
      for (const name of ["stored", "split"]) this.bind(name);
    }

    /** The names of the vectors in a layout's order. */
    names(layout) {
      const { heads, kv } = this.data;
      const each = (kind, count, first = 0) => Array.from({ length: count }, (_, i) => `${kind}${first + i}`);
      if (!layout) return [...each("q", heads), ...each("k", kv), ...each("v", kv)];
      return each("", kv).flatMap((_, group) => [...each("q", heads / kv, (group * heads) / kv), `k${group}`, `v${group}`]);
    }

    get state() {
      const { stored, split } = this.view;
      const [actual, taken] = [this.names(stored), this.names(split)];
      const rows = taken.map((name) => actual.indexOf(name)); // with one feature a head: the weight in the split's layout
      return { ...this.view, actual, taken, rows, right: actual.filter((name, i) => name === taken[i]).length };
    }

    draw() {
      const { stored, split, actual, taken, rows, right } = this.state;
      for (const list of this.shadowRoot.querySelectorAll("select")) list.value = this.view[list.name];
      const order = this.names(0);
      const largest = Math.max(...this.data.vectors.flat().map(Math.abs));
      const low = TOP + this.data.vectors[0].length * CELL + 10;
      const text = (x, y, words) => `<text x="${x}" y="${y}" text-anchor="middle">${words}</text>`;
      const drawn = actual.map((name, i) => {
        const [x, vector] = [i * WIDE + WIDE / 2, this.data.vectors[order.indexOf(name)]];
        const squares = vector.map((value, j) => {
          const side = Math.max(1.5, (CELL - 1.5) * Math.sqrt(Math.abs(value) / largest));
          const at = TOP + (j + 0.5) * CELL - side / 2;
          return `<rect class="${value > 0 ? "fill" : "hollow"}" x="${(x - side / 2).toFixed(1)}" y="${at.toFixed(1)}" width="${side.toFixed(1)}" height="${side.toFixed(1)}"/>`;
        });
        const same = name === taken[i];
        return `${text(x, TOP - 6, name)}<g class="${ROLES[name[0]]}">${squares.join("")}</g>
          <rect class="${same ? "axis" : "wrong"}" x="${x - WIDE / 2 + 2}" y="${low + 16}" width="${WIDE - 4}" height="36" rx="3"/>${text(x, low + 31, taken[i])}${text(x, low + 46, same ? "✓" : "✗")}`;
      });
      const width = this.data.vectors.length * WIDE;
      this.$("#vectors").innerHTML = text(width / 2, 12, `stored: ${LAYOUTS[stored]}`) + text(width / 2, low + 9, `split as: ${LAYOUTS[split]}`) + drawn.join("");
      this.$("#vectors").ariaLabel = `Stored: ${actual.join(", ")}. Split as: ${taken.join(", ")}.`;
      this.scaleText();
      this.figures([["vectors taken for what they are", `${right} of ${actual.length}`], ["permutation that converts the weight, one row per vector", `(${rows.join(", ")})`]]);
      const wrong = taken.flatMap((name, i) => (name[0] === "q" && actual[i] !== name ? [`${name} is ${actual[i]}`] : []));
      const alike = right === actual.length ? "All vectors are what the code takes them for." : `Of the code's queries, ${new Intl.ListFormat("en-GB").format(wrong)}; the shape is the same.`;
      this.say(alike);
    }
  }
  customElements.define("fused-layouts", FusedLayouts);
}
