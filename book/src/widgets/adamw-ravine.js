// <adamw-ravine>: AdamW and gradient descent step by step in a ravine, the loss half the sum of curvature times square.
// Data: {start, curvature, steps, choices: {name: [values]}, chosen: {name: number of the value}}.
"use strict";

{
  const [HALF_WIDE, HALF_HIGH, UNIT, EPS] = [5, 2.2, 36, 1e-8];
  const TITLES = { rate: "learning rate", beta1: "β₁", beta2: "β₂", decay: "weight decay λ" };
  const { number } = BookWidget;

  class AdamwRavine extends BookWidget {
    constructor() {
      super();
      this.label = "AdamW and gradient descent in a ravine";
    }

    get markup() {
      const { choices, chosen, steps } = this.data;
      this.view = { ...chosen, step: 10 };
      const sliders = Object.entries(TITLES).map(([name, title]) => BookWidget.slider(name, title, 0, choices[name].length - 1));
      return `<div class="bar">${BookWidget.list("scale", "Loss multiplied by", choices.scale)}</div>
        <div class="sliders">${sliders.join("")}${BookWidget.slider("step", "step", 0, steps)}</div>
        ${BookWidget.stepBar("Next step")}
        <div class="beside"><div><svg id="map" viewBox="${-HALF_WIDE * UNIT} ${-HALF_HIGH * UNIT} ${2 * HALF_WIDE * UNIT} ${2 * HALF_HIGH * UNIT}" role="img" aria-labelledby="map-title">
          <title id="map-title"></title><g></g></svg>
        <p class="legend"><span><i class="a"></i> AdamW</span><span><i class="d"></i> gradient descent</span><span>+ the minimum</span></p></div>
        <div class="scroll"><table><thead><tr><td></td><th scope="col">across</th><th scope="col">along</th></tr></thead><tbody></tbody></table></div></div>
        <style>
          #map { overflow: hidden; border: 1px solid var(--line); }
          #map ellipse { fill: none; stroke: var(--fg, #000); stroke-opacity: 0.6; }
          #map text { font-size: 14px; }
          .adam, .descent { fill: none; stroke-width: 1.5; }
          .adam { stroke: var(--links); }
          .descent { stroke: var(--second); stroke-dasharray: 4 3; }
          circle.a { fill: var(--links); }
          rect.d { fill: var(--bg, Canvas); stroke: var(--second); }
          .legend i { border-color: var(--second); }
          .legend .a { border-color: var(--links); border-radius: 50%; background: var(--links); }
        </style>`;
    }

    start() {
      for (const name of [...Object.keys(TITLES), "scale", "step"]) this.bind(name);
      this.steps(200, { step: 0 });
    }

    /** Whether there is a further step. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(this.data.steps, this.view.step + by)) });
      return this.view.step < this.data.steps;
    }

    value(name) {
      return this.data.choices[name][this.view[name]];
    }

    /** Both paths up to the step, and AdamW's numbers of its last step, for each of the two coordinates. */
    get state() {
      const { start, curvature } = this.data;
      const [rate, beta1, beta2, decay, scale] = ["rate", "beta1", "beta2", "decay", "scale"].map((name) => this.value(name));
      const [adam, descent] = [[start], [start]];
      let [m, v, gradient, mean, root] = [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0]];
      for (let t = 1; t <= this.view.step; t++) {
        const [at, there] = [adam.at(-1), descent.at(-1)];
        gradient = at.map((x, i) => scale * curvature[i] * x);
        m = m.map((old, i) => beta1 * old + (1 - beta1) * gradient[i]);
        v = v.map((old, i) => beta2 * old + (1 - beta2) * gradient[i] ** 2);
        mean = m.map((x) => x / (1 - beta1 ** t));
        root = v.map((x) => Math.sqrt(x / (1 - beta2 ** t)));
        adam.push(at.map((x, i) => x - rate * (mean[i] / (root[i] + EPS) + decay * x)));
        descent.push(there.map((x, i) => x - rate * (scale * curvature[i] * x + decay * x)));
      }
      const height = (at) => (scale * at.reduce((sum, x, i) => sum + curvature[i] * x * x, 0)) / 2;
      return { ...this.view, adam, descent, gradient, mean, root, losses: [height(adam.at(-1)), height(descent.at(-1))] };
    }

    draw() {
      const { adam, descent, gradient, mean, root, losses, step } = this.state;
      for (const name of Object.keys(this.view)) this.$(`[name=${name}]`).value = this.view[name];
      for (const name of Object.keys(TITLES)) this.$(`#at-${name}`).textContent = this.value(name);
      this.$("#at-step").textContent = step;
      this.dim("#back", step === 0);
      this.dim("#next", step === this.data.steps);
      const at = (x, limit) => Math.max(-50 * limit, Math.min(50 * limit, x || 0));
      const place = ([x, y]) => [at(x, HALF_WIDE) * UNIT, -at(y, HALF_HIGH) * UNIT].map((n) => n.toFixed(1));
      const line = (path, kind) => `<polyline class="${kind}" points="${path.map((p) => place(p).join()).join(" ")}"/>`;
      const rings = [0.5, 2, 6, 14, 26].map((height) => {
        const [a, b] = this.data.curvature.map((c) => UNIT * Math.sqrt((2 * height) / c));
        return `<ellipse rx="${a.toFixed(1)}" ry="${b.toFixed(1)}"/>`;
      });
      const squares = descent.map((p) => {
        const [x, y] = place(p).map(Number);
        return `<rect class="d" x="${x - 3}" y="${y - 3}" width="6" height="6"/>`;
      });
      const discs = adam.map((p) => `<circle class="a" cx="${place(p)[0]}" cy="${place(p)[1]}" r="3"/>`);
      this.$("#map g").innerHTML =
        rings.join("") + '<text x="0" y="5" text-anchor="middle">+</text>' + line(descent, "descent") + squares.join("") + line(adam, "adam") + discs.join("");
      const moved = step ? adam.at(-1).map((x, i) => x - adam.at(-2)[i]) : [0, 0];
      const short = (x) => (Math.abs(x) >= 1e4 ? x.toExponential(1) : number(x, 3));
      const rows = Object.entries({ gradient, "m, corrected": mean, "√v, corrected": root, "last step": moved }).map(
        // The steep direction first.
        ([name, [along, across]]) => `<tr><th scope="row">${name}</th><td>${short(across)}</td><td>${short(along)}</td></tr>`,
      );
      this.$("tbody").innerHTML = rows.join("");
      const where = (p) => `(${short(p[0])}, ${short(p[1])})`;
      this.$("#map-title").textContent = `After ${step} steps, AdamW is at ${where(adam.at(-1))} and gradient descent at ${where(descent.at(-1))}`;
      this.say(
        step
          ? `After ${step} step${step > 1 ? "s" : ""}, the loss is ${short(losses[0])} with AdamW and ${short(losses[1])} with gradient descent.`
          : `Both start at ${where(adam[0])}, where the loss is ${short(losses[0])}.`,
      );
    }
  }
  customElements.define("adamw-ravine", AdamwRavine);
}
