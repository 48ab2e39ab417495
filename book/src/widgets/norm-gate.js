// <norm-gate>: what RMSNorm does to a vector, and how much SiLU lets through.
// Data: {tokens, vectors, gates, ups, eps}: day 4's vectors, gates and what stands behind them, by token.
"use strict";

{
  const { number, escape } = BookWidget;
  const silu = (x) => x / (1 + Math.exp(-x));

  class NormGate extends BookWidget {
    constructor() {
      super();
      this.label = "A norm and a gate";
      this.view = { token: 3, power: 0, eps: -5, gate: 1 };
    }

    get markup() {
      const options = this.data.tokens.map((token, i) => `<option value="${i}">${escape(token)}</option>`);
      const slider = (name, title, min, max, step) => `<label for="${name}">${title}</label>
        <input type="range" id="${name}" name="${name}" min="${min}" max="${max}" step="${step}"><output id="at-${name}"></output>`;
      return `<div class="bar"><label>Vector of <select name="token" data-number="yes">${options.join("")}</select></label></div>
        <div class="sliders">${slider("power", "times", -4, 2, 1)}${slider("eps", "eps", -8, -1, 1)}
          ${slider("gate", "gate", -10, 6, 0.5)}</div>
        <div class="scroll cells" tabindex="0" role="group" aria-label="The vector, its norm and the gate">
          <table><caption></caption><tbody></tbody></table></div>
        <style>
          td { min-width: 0; }
          td.pass { padding: 2px; text-align: left; }
          .pass i { display: block; height: 1.2em; border: 2px solid var(--stream); box-sizing: border-box; }
          .pass i.up { background: var(--stream); }
          @container (max-width: 430px) { .cells tbody th { white-space: normal; } }
        </style>`;
    }

    start() {
      for (const name of Object.keys(this.view)) this.bind(name);
      this.$("[name=token]").addEventListener("input", () => this.change({ gate: this.data.gates[this.view.token] }));
    }

    get state() {
      const { token, power, eps, gate } = this.view;
      const vector = this.data.vectors[token].map((x) => x * 10 ** power);
      const meanSquare = vector.reduce((sum, x) => sum + x * x, 0) / vector.length;
      const normed = vector.map((x) => x / Math.sqrt(meanSquare + 10 ** eps));
      const opened = silu(gate);
      return { ...this.view, vector, rms: Math.sqrt(meanSquare), normed, opened, passed: opened * this.data.ups[token] };
    }

    draw() {
      const { token, power, eps, gate, vector, rms, normed, opened, passed } = this.state;
      const shown = { power: String(10 ** power), eps: (10 ** eps).toFixed(-eps), gate: number(gate, 1) };
      this.$("[name=token]").value = token;
      for (const [name, text] of Object.entries(shown)) {
        this.$(`#${name}`).value = this.view[name];
        this.$(`#${name}`).setAttribute("aria-valuetext", text);
        this.$(`#at-${name}`).textContent = text;
      }
      const row = (title, numbers, digits) =>
        `<tr><th scope="row">${title}</th>${numbers.map((x) => `<td>${number(x, digits)}</td>`).join("")}</tr>`;
      const up = this.data.ups[token];
      const bar = (x) => `<i class="${x > 0 ? "up" : ""}" style="width:${Math.min(100, 8 * Math.abs(x)).toFixed(1)}%"></i>`;
      this.$("caption").textContent = `${this.data.tokens[token]}, times ${shown.power}: RMS ${number(rms, rms < 0.1 ? 6 : 2)}`;
      this.$("tbody").innerHTML = `${row("x", vector, power < -1 ? 6 : 2)}${row("norm(x)", normed, 4)}
        <tr><th scope="row">up</th><td class="pass" colspan="3">${bar(up)}</td><td>${number(up, 3)}</td></tr>
        <tr><th scope="row">silu(gate) · up</th><td class="pass" colspan="3">${bar(passed)}</td>
          <td>${number(passed, 3)}</td></tr>`;
      const size = Math.sqrt(normed.reduce((sum, x) => sum + x * x, 0) / normed.length);
      this.say(
        `The norm's result has RMS ${number(size, 3)}${size < 0.99 ? ": eps is no longer small beside the mean square" : ""}. ` +
          `silu(${shown.gate}) is ${number(opened, 3)}, so ${number(up, 1)} becomes ${number(passed, 3)}.`,
      );
    }
  }
  customElements.define("norm-gate", NormGate);
}
