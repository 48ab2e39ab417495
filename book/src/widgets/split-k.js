// <split-k>: a quantized matmul split into parts, on a GPU that runs a limited number of threadgroups at once.
// Data: {sums: blocks x outputs, inputs: of each block, rows: outputs of a threadgroup, packed: KiB of W}.
"use strict";

{
  const { number } = BookWidget;
  const [WIDE, HIGH, HALF] = [320, 14, 16]; // of the drawing, of a block of 256 inputs, and of its bars up or down
  const list = (items) => items.map(String).join(items.length > 2 ? ", " : " and ");

  class SplitK extends BookWidget {
    constructor() {
      super();
      this.label = "Split-K, iteration by iteration";
      this.view = { parts: 2, slots: 96, tokens: 5, step: 1 };
    }

    get markup() {
      const { slider } = BookWidget;
      return `<div class="sliders">${slider("parts", "parts", 1, 4)}${slider("slots", "threadgroups at once", 16, 128, 16)}${slider("tokens", "tokens", 1, 8)}</div>
        ${BookWidget.stepBar("Next iteration")}
        <div class="beside"><svg id="work" role="img" aria-labelledby="work-title"><title id="work-title"></title><g></g></svg>
        <div class="aside"><p class="legend"><span>column: a threadgroup, 8 outputs</span><span><i class="now"></i> multiplied now</span><span><i class="done"></i> multiplied before</span><span><i class="wait"></i> not yet</span><span><i class="bar-key"></i> a sum for dog</span></p>
        <dl class="figures"></dl></div></div>
        <style>
          .now { fill: var(--links, #06c); } .wait { fill: none; }
          .done { fill: color-mix(in srgb, var(--links, #06c) 30%, var(--bg, Canvas)); }
          .now, .done, .wait { stroke: var(--fg, #000); stroke-opacity: 0.6; stroke-width: 0.6; }
          .sums { fill: var(--stream); }
          .legend .now { background: var(--links, #06c); } .legend .bar-key { background: var(--stream); border: 0; }
          .legend .done { background: color-mix(in srgb, var(--links, #06c) 30%, var(--bg, Canvas)); }
          .legend .bar-key { width: 0.35em; margin: 0 0.275em; }
        </style>`;
    }

    start() {
      for (const name of ["parts", "slots", "tokens"]) this.bind(name);
      this.steps(1200, { step: 0 });
    }

    /** The blocks of each part: ceil(blocks / parts) of them, so the last parts may get fewer, or none. */
    get division() {
      const blocks = this.data.sums.map((_, block) => block);
      const each = Math.ceil(blocks.length / this.view.parts);
      return Array.from({ length: this.view.parts }, (_, part) => blocks.slice(part * each, (part + 1) * each));
    }

    /** When each threadgroup starts, part by part: in order, each as soon as one that runs has finished. */
    get starts() {
      const free = Array(this.view.slots).fill(0);
      return this.division.map((blocks) =>
        Array.from({ length: this.columns }, () => {
          const slot = free.indexOf(Math.min(...free));
          free[slot] += blocks.length;
          return free[slot] - blocks.length;
        }),
      );
    }

    get columns() {
      return this.data.sums[0].length / this.data.rows;
    }

    get state() {
      const { division, starts, columns } = this;
      const { parts, slots, tokens } = this.view;
      const outputs = this.data.sums[0].length;
      const iterations = Math.max(...division.map((blocks, part) => Math.max(...starts[part]) + blocks.length));
      const step = Math.min(this.view.step, iterations + 1);
      const at = Math.min(step, iterations);
      const sums = division.map((blocks, part) =>
        Array.from({ length: outputs }, (_, o) =>
          blocks.slice(0, Math.max(0, at - starts[part][Math.floor(o / this.data.rows)])).reduce((sum, block) => sum + this.data.sums[block][o], 0),
        ),
      );
      const y = Array.from({ length: outputs }, (_, o) => sums.reduce((sum, part) => sum + part[o], 0));
      const running = starts.flatMap((each, part) => each.filter((start) => start < step && step <= start + division[part].length)).length;
      return { ...this.view, step, iterations, division, starts, sums, y, added: step > iterations, running,
        threadgroups: parts * columns, traffic: (2 * parts * tokens * outputs * 4) / 1024 };
    }

    /** Whether there is a further step. */
    move(by) {
      const { step, iterations } = this.state;
      this.change({ step: Math.max(0, Math.min(iterations + 1, step + by)) });
      return this.view.step <= iterations;
    }

    draw() {
      const { parts, slots, tokens, step, iterations, division, starts, sums, y, added, running, threadgroups, traffic } = this.state;
      for (const [name, value] of Object.entries({ parts, slots, tokens })) {
        this.$(`#${name}`).value = value;
        this.$(`#at-${name}`).textContent = value;
      }
      this.dim("#back", step === 0);
      this.dim("#next", added);
      const total = this.data.sums[0].map((_, o) => this.data.sums.reduce((sum, block) => sum + block[o], 0));
      const largest = Math.max(...[total, ...this.data.sums].flat().map(Math.abs));
      const wide = WIDE / this.columns;
      const bars = (values, middle) => {
        const side = WIDE / values.length;
        const one = (x, o) => `M${(o * side).toFixed(2)} ${middle}h${(0.8 * side).toFixed(2)}v${((-HALF * x) / largest).toFixed(2)}h${(-0.8 * side).toFixed(2)}z`;
        return `<path class="axis" d="M0 ${middle}H${WIDE}"/><path class="sums" d="${values.map(one).join("")}"/>`;
      };
      const drawn = [];
      let top = 0;
      const heading = (text) => drawn.push(`<text x="0" y="${(top += 13) - 3}">${text}</text>`);
      division.forEach((blocks, part) => {
        const inputs = blocks.length && [256 * blocks[0], 256 * blocks.at(-1) + this.data.inputs[blocks.at(-1)] - 1];
        heading(inputs ? `part ${part}: inputs ${inputs.join(" to ")}` : `part ${part}: no inputs, writes zeros`);
        blocks.forEach((block, i) => {
          const high = (HIGH * this.data.inputs[block]) / 256;
          starts[part].forEach((start, column) => {
            const kind = start + i + 1 === step ? "now" : start + i < step ? "done" : "wait";
            drawn.push(`<rect class="${kind}" x="${column * wide + 0.6}" y="${top}" width="${wide - 1.2}" height="${high}"/>`);
          });
          top += high;
        });
        drawn.push(bars(sums[part], top + HALF + 2));
        top += 2 * HALF + 6;
      });
      heading(added ? "y: the sum of the parts" : "y: not computed yet");
      if (added) drawn.push(bars(y, top + HALF));
      const svg = this.$("#work");
      svg.setAttribute("viewBox", `-0.5 -0.5 ${WIDE + 1} ${top + 2 * HALF + 2}`);
      this.$("#work g").innerHTML = drawn.join("");
      this.$("#work-title").textContent = `${parts} × ${this.columns} threadgroups after step ${step} of ${iterations + 1}`;
      this.scaleText();
      this.figures([
        ["threadgroups", `${parts} × ${this.columns} = ${threadgroups}`],
        ["iterations in all", iterations],
        ["busy in this one", `${running} of ${slots}`],
        ["partial sums, written + read", `${number(traffic, 0)} KiB`],
        ["packed W", `${this.data.packed} KiB`],
      ]);
      if (step === 0) this.say("No threadgroup has started.");
      else if (added) {
        const each = sums.map((part) => number(part[0], 3)).join(" + ").replaceAll("+ −", "− ");
        this.say(`The second kernel adds the parts of all 256 outputs: output 0 is ${parts > 1 ? `${each} = ` : ""}${number(y[0], 3)}.`);
      } else {
        const blocks = division.flatMap((each, part) => each.filter((_, i) => starts[part].some((start) => start + i + 1 === step)));
        const zeros = division.some((each) => !each.length) ? ` Part ${parts - 1} has no block, and writes zeros.` : "";
        this.say(`Iteration ${step} of ${iterations}: ${running} of ${slots} threadgroup slots are busy, with block${blocks.length > 1 ? "s" : ""} ${list(blocks)}.${zeros}`);
      }
    }
  }
  customElements.define("split-k", SplitK);
}
