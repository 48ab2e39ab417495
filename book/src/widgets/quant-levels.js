// <quant-levels>: a group of weights, the levels that a scale and a bias give, and the error of each weight.
// Data: {weights, fits: {"min-max levels": {4: [scale, bias], 8: ...}, "least-squares fit": ...}}.
"use strict";

{
  const short = (x) => x.toFixed(Math.max(6, 1 - Math.floor(Math.log10(x || 1)))); // two digits at least
  const [WIDE, TALL] = [360, 44]; // of the drawing, and of its errors above and below their line

  class QuantLevels extends BookWidget {
    constructor() {
      super();
      this.label = "A quantization group: its levels, and each weight's error";
      const [scale, bias] = [-0.0113, 0.0903]; // until the data is there
      this.view = { bits: 4, scale, bias };
    }

    get markup() {
      const fits = Object.keys(this.data.fits).map((name, i) => `<button type="button" id="fit-${i}">${name}</button>`);
      const { list, slider } = BookWidget;
      return `<div class="bar">${list("bits", "Bits", [4, 8], [4, 8])}${fits.join("")}</div>
        <div class="sliders">${slider("scale", "scale", -0.02, 0.02, 0.0001)}${slider("bias", "bias", -0.12, 0.12, 0.0001)}</div>
        <svg id="levels" viewBox="0 0 ${WIDE} ${2 * TALL + 80}" role="img" aria-labelledby="levels-title">
          <title id="levels-title"></title><g></g></svg>
        <style>
          .level { stroke: var(--fg, #000); stroke-opacity: 0.7; }
          .weight { fill: var(--fg, #000); }
          .error { stroke: var(--second); stroke-width: 1.6; }
          .middle { text-anchor: middle; }
          .axis { stroke: var(--fg, #000); stroke-opacity: 0.6; }
        </style>`;
    }

    start() {
      this.names = Object.keys(this.data.fits);
      for (const name of ["scale", "bias"]) this.bind(name);
      this.$("[name=bits]").addEventListener("input", (event) => this.fit(this.fitted, Number(event.target.value)));
      this.names.forEach((name, i) => (this.$(`#fit-${i}`).onclick = () => this.fit(name, this.view.bits)));
      this.fit(this.names[0], 4);
    }

    fit(name, bits) {
      const [scale, bias] = this.data.fits[name][bits];
      this.fitted = name;
      this.change({ bits, scale, bias });
    }

    /** The squared error of the group if each weight takes the nearest level. */
    errors({ bits, scale, bias }) {
      const q = this.data.weights.map((w) => Math.max(0, Math.min(2 ** bits - 1, Math.round((w - bias) / (scale || 1e-9)))));
      return q.map((q, i) => scale * q + bias - this.data.weights[i]);
    }

    get state() {
      const { bits } = this.view;
      const sum = (view) => this.errors(view).reduce((sum, error) => sum + error ** 2, 0);
      const others = this.names.map((name) => sum({ bits, scale: this.data.fits[name][bits][0], bias: this.data.fits[name][bits][1] }));
      return { ...this.view, errors: this.errors(this.view), error: sum(this.view), others };
    }

    draw() {
      const { bits, scale, bias, errors, error, others } = this.state;
      for (const name of ["bits", "scale", "bias"]) this.$(`[name=${name}]`).value = this.view[name];
      for (const name of ["scale", "bias"]) {
        this.$(`#at-${name}`).textContent = BookWidget.number(this.view[name], 4);
      }
      const x = (value) => WIDE / 2 + (value / 0.13) * (WIDE / 2 - 4);
      const half = Math.abs(this.data.fits[this.names[0]][4][0]) / 2; // a 4-bit step, for both widths, so that they compare
      const largest = Math.max(half, ...errors.map(Math.abs));
      const middle = 58 + TALL;
      const levels = Array.from({ length: 2 ** bits }, (_, q) => scale * q + bias).filter((at) => Math.abs(at) < 0.13);
      const ticks = levels.map((at) => `M${x(at).toFixed(1)} 14v14`).join("");
      const dots = this.data.weights.map((w) => `<circle class="weight" cx="${x(w).toFixed(1)}" cy="38" r="1.8"/>`);
      const stems = this.data.weights.map((w, i) => `M${x(w).toFixed(1)} ${middle}v${((-errors[i] / largest) * TALL).toFixed(1)}`);
      const mark = (sign, y) => `<text x="${WIDE}" y="${y}" text-anchor="end">${sign}${BookWidget.number(largest, 4)}</text>`;
      const marks = [-0.1, 0, 0.1].map((at) => `<path class="axis" d="M${x(at)} ${middle + TALL}v5"/><text class="middle" x="${x(at)}" y="${middle + TALL + 18}">${BookWidget.number(at, 1)}</text>`);
      this.$("#levels g").innerHTML = `<text x="0" y="10">levels</text><path class="level" d="${ticks}"/>
        <text x="0" y="42">weights</text>${dots.join("")}
        <text x="0" y="${middle - 4}">error</text>${mark("+", middle - TALL + 4)}${mark("−", middle + TALL - 4)}${marks.join("")}<path class="axis" d="M0 ${middle}H${WIDE}M0 ${middle + TALL}H${WIDE}"/><path class="error" d="${stems.join("")}"/>`;
      this.$("#levels-title").textContent = `${levels.length} levels, and the errors of ${errors.length} weights`;
      const beside = this.names.map((name, i) => `${name} ${short(others[i])}`).join(", ");
      this.say(`Squared error ${short(error)} (${beside}). The largest error of a weight is ${BookWidget.number(Math.max(...errors.map(Math.abs)), 4)}.`);
    }
  }
  customElements.define("quant-levels", QuantLevels);
}
