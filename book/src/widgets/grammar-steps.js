// <grammar-steps>: constrained decoding, step by step: the stacks, and the likely tokens without and with the mask.
// Data: {size, steps: [{text, stacks, allowed, free, masked}]}: stacks of rule names, the lowest first; tokens with their
// probabilities in percent, and in `free` whether the mask allows them; the first of `masked` is chosen.
"use strict";

{
  const [LEFT, WIDE, HIGH] = [84, 120, 22];
  const { escape } = BookWidget;
  const visible = (token) => (token === "the end" ? token : token.replaceAll(" ", "␣"));
  const seen = (token) => escape(visible(token));

  class GrammarSteps extends BookWidget {
    constructor() {
      super();
      this.label = "The tokens that a grammar allows, step by step";
      this.view = { step: 10 };
    }

    get markup() {
      const { slider, stepBar } = BookWidget;
      const chart = (name, title) =>
        `<div><p class="of">${title}</p><svg id="${name}" viewBox="0 0 ${LEFT + WIDE + 56} ${5 * HIGH + 2}" role="img" aria-labelledby="${name}-title"><title id="${name}-title"></title><g></g></svg></div>`;
      return `${stepBar("Token")}
        <div class="sliders">${slider("step", "step", 0, this.last)}</div>
        <p class="text"><code id="text"></code></p>
        <p class="of">Rules on the stack, the lowest first</p><div id="stacks"></div>
        <div class="beside">${chart("free", "Without the mask (hollow: not allowed)")}${chart("masked", "With the mask")}</div>
        <style>
          .text { overflow-wrap: anywhere; }
          .of { margin: 0.3em 0; }
          #stacks { min-height: 2em; }
          #stacks p { margin: 0.2em 0; }
          #stacks b { display: inline-block; margin-right: 2px; padding: 0 0.35em; font-weight: 400; border: 1px solid var(--fg, CanvasText); border-radius: 4px; }
          #stacks b:last-child { border-width: 2px; font-weight: 700; }
          .beside .end { text-anchor: end; font-family: var(--mono-font, monospace); }
          .beside rect { fill: var(--links); stroke: var(--links); }
          .beside .out rect { fill: var(--bg, Canvas); }
        </style>`;
    }

    start() {
      this.bind("step");
      this.steps(1100, { step: 0 });
    }

    /** Whether there is a further step. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(this.last, this.view.step + by)) });
      return this.view.step < this.last;
    }

    get last() {
      return this.data.steps.length - 1;
    }

    get state() {
      const step = Math.min(this.view.step, this.last);
      return { step, ...this.data.steps[step] };
    }

    bars(name, tokens) {
      const rows = tokens.map(([token, percent, allowed = true], i) => {
        const [y, width] = [i * HIGH, (WIDE * percent) / 100];
        return `<g class="${allowed ? "" : "out"}"><text class="end" x="${LEFT - 6}" y="${y + 15}">${seen(token)}</text>
          <rect x="${LEFT}" y="${y + 3}" width="${Math.max(width, 1).toFixed(1)}" height="${HIGH - 7}"/>
          <text x="${(LEFT + Math.max(width, 1) + 5).toFixed(1)}" y="${y + 15}">${percent.toFixed(1)} %</text></g>`;
      });
      this.$(`#${name} g`).innerHTML = rows.join("");
      this.$(`#${name}-title`).textContent = tokens.map(([token, percent]) => `${token} ${percent.toFixed(1)} %`).join(", ");
    }

    draw() {
      const { step, text, stacks, allowed, free, masked } = this.state;
      this.$("[name=step]").value = step;
      this.$("#at-step").textContent = `${step} of ${this.last}`;
      this.dim("#back", step === 0);
      this.dim("#next", step === this.last);
      this.$("#text").textContent = text || "(nothing yet)";
      this.$("#stacks").innerHTML = stacks
        .map((names) => `<p>${names.length ? names.map((name) => `<b>${escape(name)}</b>`).join("") : "empty: the text may end"}</p>`)
        .join("");
      this.bars("free", free);
      this.bars("masked", masked);
      this.say(
        `Step ${step}: ${allowed} of ${this.data.size} tokens ${allowed === 1 ? "is" : "are"} allowed. ` +
          (free[0][0] === masked[0][0]
            ? `The most likely token, ${visible(masked[0][0])}, is among them.`
            : `The most likely token is ${visible(free[0][0])}; the most likely allowed one, ${visible(masked[0][0])}, is chosen.`),
      );
    }
  }
  customElements.define("grammar-steps", GrammarSteps);
}
