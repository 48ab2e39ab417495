// <attention-stepper>: one attention head over five tokens, a step at a time.
// Data: {tokens, query, key, value, products}: three vectors for each token, and the dot products of queries and keys.
"use strict";

{
  const STEPS = ["scores", "scaled", "mask", "softmax", "output"];
  const { number, escape, strip } = BookWidget;
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

  /** Every step of attention, each an L x S matrix, the output L x D. */
  const attend = ({ query, value, products }, causal) => {
    const scores = products;
    const scaled = scores.map((row) => row.map((s) => s / Math.sqrt(query[0].length)));
    const mask = scaled.map((row, i) => row.map((s, j) => (causal && j > i ? -Infinity : s)));
    const softmax = mask.map((row) => {
      const exps = row.map((s) => Math.exp(s - Math.max(...row)));
      return exps.map((e) => e / exps.reduce((a, b) => a + b, 0));
    });
    const feature = (d) => value.map((v) => v[d]);
    const output = softmax.map((weights) => value[0].map((_, d) => dot(weights, feature(d))));
    return { scores, scaled, mask, softmax, output };
  };

  class AttentionStepper extends BookWidget {
    constructor() {
      super();
      this.label = "Attention, step by step";
      this.view = { step: 0, row: 4, column: 3, causal: true };
    }

    get markup() {
      const options = this.data.tokens.map((token, i) => `<option value="${i}">${escape(token)}</option>`);
      return `<div class="bar">
          <button type="button" id="back">Back</button><button type="button" id="next">Next</button>
          <label>Query <select name="row" data-number="yes">${options.join("")}</select></label>
          <label><input type="checkbox" name="causal"> causal mask</label>
        </div>
        <ol>${STEPS.map((step) => `<li>${step}</li>`).join("")}</ol>
        <div class="beside cells">
          <div class="scroll" tabindex="0" role="group" id="cells"
            aria-label="Matrix of this step; the arrow keys move the highlighted cell"></div>
          <div class="scroll" tabindex="0" role="group" id="vectors" aria-label="What this step reads"></div>
        </div>
        <p class="mono sum"></p>
        <style>
          ol { display: flex; flex-wrap: wrap; gap: 0.2em 0.6em; margin: 0 0 0.7em; padding: 0; list-style: none; }
          li { position: relative; padding: 0 0.5em; border-bottom: 3px solid transparent; }
          li[aria-current] { border-color: var(--links, #06c); font-weight: 700; }
          li:not(:last-child)::after { content: "→"; position: absolute; right: -0.8em; font-weight: 400; }
          #cells td { cursor: pointer;
            background: color-mix(in srgb, var(--weights) calc(var(--w, 0) * 18%), var(--bg, #fff)); }
          td.bars { padding: 0; }
          #vectors { flex: 1 1 20em; }
          #vectors th:has(+ .bars) { width: 6.5em; }
          #vectors .bars { width: 100%; }
          td.hidden { border-style: dashed; }
          tr.now td { border-color: var(--fg, #000); }
          td.cell { outline: 3px solid var(--links, #06c); outline-offset: -1px; }
          tr.now th::before { content: "▸\\00a0"; }
          .sum { min-height: 3em; margin: 0.6em 0 0; overflow-wrap: anywhere; }
        </style>`;
    }

    start() {
      this.$("#back").onclick = () => this.go(this.view.step - 1);
      this.$("#next").onclick = () => this.go(this.view.step + 1);
      this.bind("row");
      this.bind("causal");
      this.$("#cells").onclick = (event) => {
        const cell = event.target.closest("tbody td");
        if (!cell) return;
        const row = cell.parentNode.rowIndex - (this.view.step === 4 ? 0 : 1);
        const { left, width } = cell.getBoundingClientRect();
        const within = Math.floor((this.columns * (event.clientX - left)) / width);
        this.change({ row, column: this.view.step === 4 ? Math.max(0, within) : cell.cellIndex - 1 });
      };
    }

    go(step) {
      this.change({ step: Math.min(STEPS.length - 1, Math.max(0, step)) });
    }

    onKey({ key, target }) {
      if (target.matches("select, input")) return false;
      if (key === "Home" || key === "End") {
        this.go(key === "Home" ? 0 : STEPS.length - 1);
        return true;
      }
      const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key] || [];
      if (down === undefined || target.id === "vectors") return false; // there, the arrows scroll
      if (target.id === "cells") {
        const within = (at, count) => Math.min(count - 1, Math.max(0, at));
        const { row, column } = this.view;
        this.change({
          row: within(row + down, this.data.tokens.length),
          column: within(this.column + right, this.columns),
        });
      } else if (right) {
        this.go(this.view.step + right);
      }
      return right !== 0 || target.id === "cells";
    }

    get state() {
      const steps = attend(this.data, this.view.causal);
      return { ...this.view, column: this.column, ...steps };
    }

    /** The keys, or the features of the output, of which there may be fewer. */
    get columns() {
      return this.view.step === 4 ? this.data.value[0].length : this.data.tokens.length;
    }

    get column() {
      return Math.min(this.view.column, this.columns - 1);
    }

    draw() {
      const { step, row, causal } = this.view;
      const steps = attend(this.data, causal);
      const name = STEPS[step];
      this.$("select").value = row;
      this.$("[name=causal]").checked = causal;
      this.dim("#back", step === 0);
      this.dim("#next", step === STEPS.length - 1);
      this.shadowRoot.querySelectorAll("li").forEach((item, i) => {
        if (i === step) item.setAttribute("aria-current", "step");
        else item.removeAttribute("aria-current");
      });
      this.$("#cells").innerHTML = name === "output" ? this.strips(steps.output) : this.matrix(steps, name);
      this.$("#vectors").innerHTML = this.vectors(steps, name);
      this.$(".sum").textContent = this.sum(steps, name);
      this.say(this.words(steps, name));
    }

    /** A step's L x S numbers. */
    matrix(steps, name) {
      const { tokens } = this.data;
      const { step, row, causal } = this.view;
      const line = (numbers, i) => {
        const cells = numbers.map((x, j) => {
          const classes = [
            i === row && j === this.column ? "cell" : "",
            causal && (step === 2 || step === 3) && j > i ? "hidden" : "",
          ];
          const shade = name === "softmax" ? ` style="--w:${x.toFixed(3)}"` : "";
          return `<td class="${classes.join(" ")}"${shade}>${x === 0 && name === "softmax" ? "0" : number(x)}</td>`;
        });
        return `<tr${i === row ? ' class="now"' : ""}><th scope="row">${escape(tokens[i])}</th>${cells.join("")}</tr>`;
      };
      return `<table><caption>Queries down, keys across</caption>
        <thead><tr><td style="border:0"></td>${tokens.map((t) => `<th scope="col">${escape(t)}</th>`).join("")}</tr></thead>
        <tbody>${steps[name].map(line).join("")}</tbody></table>`;
    }

    /** Vectors as strips, the row that is followed marked. */
    strips(rows) {
      const largest = Math.max(...rows.flat().map(Math.abs));
      const lines = rows.map(
        (vector, i) => `<tr${i === this.view.row ? ' class="now"' : ""}><th scope="row">${escape(this.data.tokens[i])}</th>
          <td class="bars">${strip(vector, "value", largest, i === this.view.row ? this.column : -1)}</td></tr>`,
      );
      return `<table><caption>One row for each query: ${rows[0].length} numbers</caption>
        <tbody>${lines.join("")}</tbody></table>`;
    }

    /** What this step reads for the highlighted cell. */
    vectors(steps, name) {
      const { tokens, query, key, value } = this.data;
      const { row } = this.view;
      const [asks, offers] = [escape(tokens[row]), escape(tokens[Math.min(this.column, tokens.length - 1)])];
      const table = (caption, lines) => `<table><caption>${caption}</caption><tbody>${lines.join("")}</tbody></table>`;
      const bars = (title, vector, role, largest, lit = -1) =>
        `<tr><th scope="row">${title}</th><td class="bars">${strip(vector, role, largest, lit)}</td></tr>`;
      const numbers = (title, row) =>
        `<tr><th scope="row">${title}</th>${row.map((x) => `<td>${number(x)}</td>`).join("")}</tr>`;
      if (name === "scores") {
        const [q, k] = [query[row], key[this.column]];
        const products = q.map((x, d) => x * k[d]);
        const size = Math.max(...q.concat(k).map(Math.abs));
        return table("The highlighted cell, feature by feature", [
          bars(`query of ${asks}`, q, "query", size),
          bars(`key of ${offers}`, k, "key", size),
          bars("products", products, "weights", Math.max(...products.map(Math.abs))),
        ]);
      }
      if (name === "scaled") return table(`The dot products of ${asks}`, [numbers("", steps.scores[row])]);
      if (name === "mask") {
        const added = steps.mask[row].map((x) => (x === -Infinity ? x : 0));
        return table("A row of scores, and what is added to it", [numbers("scores", steps.scaled[row]), numbers("mask", added)]);
      }
      if (name === "softmax") {
        const exps = steps.mask[row].map(Math.exp);
        return table("The row of scores, and its exponentials", [numbers("scores", steps.mask[row]), numbers("exp", exps)]);
      }
      const weights = steps.softmax[row];
      const largest = Math.max(...value.flatMap((v, i) => v.map((x) => Math.abs(x * weights[i]))));
      const lines = tokens.map((token, i) =>
        bars(`${number(weights[i])} × ${escape(token)}`, value[i].map((x) => x * weights[i]), "value", largest, this.column),
      );
      return table("The values, each times its weight", lines);
    }

    /** The arithmetic of the highlighted cell. */
    sum(steps, name) {
      const { tokens, query, value } = this.data;
      const [i, j] = [this.view.row, this.column];
      const factor = (x, digits) => (x < 0 ? `(${number(x, digits)})` : number(x, digits));
      const products = (a, b, digits) => a.map((x, d) => `${factor(x, digits)}·${factor(b[d])}`).join(" + ");
      if (name === "scores") {
        const count = query[i].length;
        return `q(${tokens[i]}) · k(${tokens[j]}) = the sum of ${count} products = ${number(steps.scores[i][j])}`;
      }
      if (name === "scaled") {
        return `${number(steps.scores[i][j])} / √${query[0].length} = ${number(steps.scaled[i][j], 3)}`;
      }
      if (name === "mask") {
        const added = steps.mask[i][j] === -Infinity ? "(−∞)" : "0";
        return `${number(steps.scaled[i][j], 3)} + ${added} = ${number(steps.mask[i][j], 3)}`;
      }
      if (name === "softmax") {
        const row = steps.mask[i];
        const total = row.reduce((sum, s) => sum + Math.exp(s), 0);
        const terms = row.filter((s) => s > -Infinity).map((s) => `exp(${number(s, 3)})`);
        const parts = `${number(Math.exp(row[j]), 3)} / ${number(total, 3)}`;
        return `exp(${number(row[j], 3)}) / (${terms.join(" + ")}) = ${parts} = ${number(steps.softmax[i][j], 3)}`;
      }
      const used = tokens.map((_, s) => s).filter((s) => steps.softmax[i][s] > 0);
      const weights = used.map((s) => steps.softmax[i][s]);
      const values = used.map((s) => value[s][j]);
      return `feature ${j}: ${products(weights, values, 3)} = ${number(steps.output[i][j], 3)}`;
    }

    words(steps, name) {
      const { tokens, query } = this.data;
      const { row, causal } = this.view;
      const token = `“${tokens[row]}”`;
      const weights = steps.softmax[row];
      const best = weights.indexOf(Math.max(...weights));
      const texts = {
        scores: `The query of ${token} meets each key: a dot product of ${query[0].length} numbers.`,
        scaled: `Every product is divided by the root of D = ${query[0].length}.`,
        mask: causal
          ? `${token} may look at ${row + 1} of ${tokens.length} tokens. To the rest, minus infinity is added.`
          : "Without the mask, every query may look at every key.",
        softmax: `The weights of ${token} sum to 1. The largest, ${number(weights[best])}, goes to “${tokens[best]}”.`,
        output: `The output of ${token} is the sum of the values, each times its weight. The arrow keys move the marked feature.`,
      };
      return `Step ${STEPS.indexOf(name) + 1} of ${STEPS.length}, ${name}. ${texts[name]}`;
    }
  }
  customElements.define("attention-stepper", AttentionStepper);
}
