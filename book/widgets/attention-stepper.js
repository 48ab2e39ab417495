// <attention-stepper>: one attention head over five tokens, a step at a time.
// Data: {tokens, query, key, value}, the last three one row for each token.
"use strict";

{
  const STEPS = ["scores", "scaled", "mask", "softmax", "output"];
  const { number, escape } = BookWidget;
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

  /** Every step of attention, each an L x S matrix, the output L x D. */
  const attend = ({ query, key, value }, causal) => {
    const scores = query.map((q) => key.map((k) => dot(q, k)));
    const scaled = scores.map((row) => row.map((s) => s / Math.sqrt(query[0].length)));
    const mask = scaled.map((row, i) => row.map((s, j) => (causal && j > i ? -Infinity : s)));
    const softmax = mask.map((row) => {
      const exps = row.map((s) => Math.exp(s - Math.max(...row)));
      return exps.map((e) => e / exps.reduce((a, b) => a + b, 0));
    });
    const output = softmax.map((weights) =>
      value[0].map((_, d) =>
        dot(
          weights,
          value.map((v) => v[d]),
        ),
      ),
    );
    return { scores, scaled, mask, softmax, output };
  };

  class AttentionStepper extends BookWidget {
    constructor() {
      super();
      this.label = "Attention, step by step";
      this.view = { step: 0, row: 2, column: 1, causal: true };
    }

    get markup() {
      const options = this.data.tokens.map((token, i) => `<option value="${i}">${escape(token)}</option>`);
      return `<div class="bar">
          <button type="button" id="back">Back</button><button type="button" id="next">Next</button>
          <label>Query <select name="row" data-number="yes">${options.join("")}</select></label>
          <label><input type="checkbox" name="causal"> causal mask</label>
        </div>
        <ol>${STEPS.map((step) => `<li>${step}</li>`).join("")}</ol>
        <div class="tables">
          <div class="scroll" tabindex="0" role="group" id="cells"
            aria-label="Matrix of this step; the arrow keys move the highlighted cell"></div>
          <div class="scroll" tabindex="0" role="group" id="vectors" aria-label="What this step reads"></div>
        </div>
        <p class="mono sum"></p>
        <style>
          ol { display: flex; flex-wrap: wrap; gap: 0.2em 0.6em; margin: 0 0 0.7em; padding: 0; list-style: none; }
          .tables { display: flex; flex-wrap: wrap; gap: 1em 3em; }
          li { padding: 0 0.5em; border-bottom: 3px solid transparent; }
          li[aria-current] { border-color: var(--links, #06c); font-weight: 600; }
          li + li::before { content: "→ "; margin-left: -1.1em; font-weight: 400; }
          #cells td { cursor: pointer;
            background: color-mix(in srgb, var(--links, #06c) calc(var(--w, 0) * 24%), var(--bg, #fff)); }
          td.hidden { border-style: dashed; }
          tr.now td, td.used { border-color: var(--fg, #000); }
          td.cell { outline: 3px solid var(--links, #06c); outline-offset: -1px; }
          tr.now th::before { content: "▸ "; }
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
        if (cell) this.change({ row: cell.parentNode.rowIndex - 1, column: cell.cellIndex - 1 });
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
      const heads = name === "output" ? this.data.value[0].map((_, d) => `feature ${d}`) : this.data.tokens;
      const columns = heads.map((head) => `<th scope="col">${escape(head)}</th>`);
      const line = (numbers, i) => {
        const cells = numbers.map((x, j) => {
          const classes = [
            i === row && j === this.column ? "cell" : "",
            causal && step > 1 && step < 4 && j > i ? "hidden" : "",
          ];
          const shade = name === "softmax" ? ` style="--w:${x.toFixed(3)}"` : "";
          return `<td class="${classes.join(" ")}"${shade}>${x === 0 && name === "softmax" ? "0" : number(x)}</td>`;
        });
        const token = escape(this.data.tokens[i]);
        return `<tr${i === row ? ' class="now"' : ""}><th scope="row">${token}</th>${cells.join("")}</tr>`;
      };
      const caption = name === "output" ? "One row for each query" : "One row for each query, one column for each key";
      this.$("#cells").innerHTML = `<table><caption>${caption}</caption>
        <thead><tr><td style="border:0"></td>${columns.join("")}</tr></thead>
        <tbody>${steps[name].map(line).join("")}</tbody></table>`;
      this.$("#vectors").innerHTML = this.vectors(name);
      this.$(".sum").textContent = this.sum(steps, name);
      this.say(this.words(steps, name));
    }

    /** The query and the keys, or the values; those that the highlighted cell is made of have a border. */
    vectors(name) {
      const { tokens, query, key, value } = this.data;
      const line = (title, numbers, used) => {
        const cells = numbers.map((x, d) => `<td${used(d) ? ' class="used"' : ""}>${number(x)}</td>`);
        return `<tr><th scope="row">${escape(title)}</th>${cells.join("")}</tr>`;
      };
      if (name === "output") {
        const rows = tokens.map((token, i) => line(token, value[i], (d) => d === this.column));
        return `<table><caption>The values</caption><tbody>${rows.join("")}</tbody></table>`;
      }
      const rows = tokens.map((token, i) => line(token, key[i], () => i === this.column));
      const asking = line(tokens[this.view.row], query[this.view.row], () => true);
      return `<table><caption>The query</caption><tbody>${asking}</tbody></table>
        <table><caption>The keys</caption><tbody>${rows.join("")}</tbody></table>`;
    }

    /** The arithmetic of the highlighted cell. */
    sum(steps, name) {
      const { tokens, query, key, value } = this.data;
      const [i, j] = [this.view.row, this.column];
      const factor = (x, digits) => (x < 0 ? `(${number(x, digits)})` : number(x, digits));
      const products = (a, b, digits) => a.map((x, d) => `${factor(x, digits)}·${factor(b[d])}`).join(" + ");
      if (name === "scores") {
        return `q(${tokens[i]}) · k(${tokens[j]}) = ${products(query[i], key[j])} = ${number(steps.scores[i][j], 3)}`;
      }
      if (name === "scaled") {
        return `${number(steps.scores[i][j], 3)} / √${query[0].length} = ${number(steps.scaled[i][j], 3)}`;
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
      return `${products(
        weights,
        used.map((s) => value[s][j]),
        3,
      )} = ${number(steps.output[i][j], 3)}`;
    }

    words(steps, name) {
      const { tokens, query } = this.data;
      const { row, causal } = this.view;
      const token = `“${tokens[row]}”`;
      const weights = steps.softmax[row];
      const output = steps.output[row].map((x) => number(x));
      const best = weights.indexOf(Math.max(...weights));
      const texts = {
        scores: `The query of ${token} meets each key: a dot product of ${query[0].length} numbers.`,
        scaled: `Every score is divided by the root of D = ${query[0].length}. This is the table above.`,
        mask: causal
          ? `${token} may look at ${row + 1} of ${tokens.length} tokens. To the rest, minus infinity is added.`
          : "Without the mask, every query may look at every key.",
        softmax: `The weights of ${token} sum to 1. The largest, ${number(weights[best])}, goes to “${tokens[best]}”.`,
        output: `The output of ${token} is the weighted sum of the values: ${output.join(", ")}.`,
      };
      return `Step ${STEPS.indexOf(name) + 1} of ${STEPS.length}, ${name}. ${texts[name]}`;
    }
  }
  customElements.define("attention-stepper", AttentionStepper);
}
