// <roof-line>: where a step of a model lands under a machine's roofline.
// Data: {models: {name: {layers, hidden, heads, kv_heads, dims, mlp, vocab}}, machines: {name: [bytes/s, FLOP/s]}}.
"use strict";

{
  const [WIDE, HIGH, LEFT, DECADES] = [340, 176, 58, 5]; // the plot: FLOPs per byte from 0.1, FLOP/s up to the peak
  const UNITS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const figure = (x) => x.toLocaleString("en-US", { minimumSignificantDigits: 3, maximumSignificantDigits: 3 });
  const scaled = (x, unit, written = figure) => {
    const [size, prefix] = UNITS.find(([size]) => x >= size) ?? UNITS.at(-1);
    return `${written(x / size)} ${prefix}${unit}`;
  };
  const time = (s) => (s < 1e-3 ? `${figure(s * 1e6)} μs` : s < 1 ? `${figure(s * 1e3)} ms` : `${figure(s)} s`);

  class RoofLine extends BookWidget {
    constructor() {
      super();
      this.label = "The roofline: a step's bytes and FLOPs, and what limits it";
      this.view = { model: 0, machine: 0, batch: 0, length: 0, offset: 256, bits: 32 };
    }

    get markup() {
      const { list, slider } = BookWidget;
      const bits = [32, 16, 8, 4];
      return `<div class="bar">${list("model", "Model", Object.keys(this.data.models))}
          ${list("machine", "Machine", Object.keys(this.data.machines))}${list("bits", "Bits per weight", bits, bits)}</div>
        <div class="sliders">${slider("batch", "Sequences", 0, 9)}${slider("length", "New tokens each", 0, 10)}
          ${slider("offset", "Cached tokens each", 0, 8192, 256)}</div>
        <svg id="plot" viewBox="0 0 ${WIDE + LEFT + 8} ${HIGH + 34}" role="img" aria-labelledby="plot-title">
          <title id="plot-title"></title><g></g></svg>
        <style>
          .roof { fill: none; stroke: var(--links); stroke-width: 2.5; }
          .here { fill: var(--second); stroke: var(--fg, #000); }
        </style>`;
    }

    start() {
      for (const name of Object.keys(this.view)) this.bind(name);
    }

    /** The bytes and FLOPs of a step: what the learner's `traffic` and `flops` count. */
    count({ batch, length, offset, bits }) {
      const c = Object.values(this.data.models)[this.view.model];
      const [queries, keys] = [c.heads * c.dims, c.kv_heads * c.dims];
      const size = bits === 32 ? 4 : 2; // bytes of what is not quantized
      const matrix = (rows, columns) => rows * (bits < 16 ? (columns * bits) / 8 + (2 * columns * size) / 64 : columns * size);
      const layer = matrix(queries + 2 * keys, c.hidden) + matrix(c.hidden, queries);
      const mlp = 2 * matrix(c.mlp, c.hidden) + matrix(c.hidden, c.mlp);
      const vectors = (2 * c.hidden + 2 * c.dims) * size;
      const ends = matrix(batch * length + c.vocab, c.hidden) + c.hidden * size;
      const token = 2 * c.layers * keys * size;
      const cache = batch * (offset + 2 * length) * token;
      const pairs = length * offset + (length * (length + 1)) / 2;
      const each = 2 * c.hidden * (2 * queries + 2 * keys) + 6 * c.hidden * c.mlp;
      const flops = c.layers * batch * (length * each + 4 * queries * pairs) + 2 * batch * c.vocab * c.hidden;
      return { bytes: c.layers * (layer + mlp + vectors) + ends + cache, flops };
    }

    get state() {
      const { batch, length, offset, bits, machine } = this.view;
      const step = { batch: 2 ** batch, length: 2 ** length, offset, bits };
      const { bytes, flops } = this.count(step);
      const [bandwidth, peak] = Object.values(this.data.machines)[machine];
      const seconds = Math.max(bytes / bandwidth, flops / peak);
      const [intensity, ridge] = [flops / bytes, peak / bandwidth];
      return { ...this.view, step, bytes, flops, intensity, ridge, seconds, limit: intensity < ridge ? "memory" : "compute" };
    }

    draw() {
      const { step, bytes, flops, intensity, ridge, seconds, limit, machine } = this.state;
      for (const name of Object.keys(this.view)) this.$(`[name=${name}]`).value = this.view[name];
      for (const [name, value] of Object.entries(step)) {
        if (!this.$(`#at-${name}`)) continue;
        this.$(`#at-${name}`).textContent = value.toLocaleString("en-US");
        this.$(`#${name}`).setAttribute("aria-valuetext", value);
      }
      const [bandwidth, peak] = Object.values(this.data.machines)[machine];
      const x = (intensity) => LEFT + (Math.max(0, Math.min(DECADES, Math.log10(intensity) + 1)) / DECADES) * WIDE;
      const roof = (intensity) => Math.min(peak, intensity * bandwidth);
      const y = (rate) => 18 + (Math.log10(peak / Math.max(rate, roof(0.1))) / Math.log10(peak / roof(0.1))) * (HIGH - 18);
      const ticks = [0.1, 1, 10, 100, 1000, 10000].map((tick) => {
        const anchor = tick === 0.1 ? "start" : tick === 10000 ? "end" : "middle";
        return `<path class="grid" d="M${x(tick)} 18V${HIGH}"/><text x="${x(tick)}" y="${HIGH + 14}" text-anchor="${anchor}">${tick.toLocaleString("en-US")}</text>`;
      });
      for (let rate = 10 ** Math.ceil(Math.log10(roof(0.1))); rate < 0.7 * peak; rate *= 10) {
        ticks.push(`<path class="grid" d="M${LEFT} ${y(rate)}H${LEFT + WIDE}"/>
          <text x="${LEFT - 4}" y="${y(rate) + 4}" text-anchor="end">${scaled(rate, "", Math.round)}</text>`);
      }
      const slope = Math.sqrt(0.1 * ridge); // half of the way up
      this.$("#plot g").innerHTML = `${ticks.join("")}
        <path class="roof" d="M${x(0.1)} ${y(roof(0.1))}L${x(ridge)} ${y(peak)}H${x(10000)}"/>
        <text x="${LEFT - 4}" y="12" text-anchor="end">FLOP/s</text>
        <text x="${WIDE + LEFT}" y="12" text-anchor="end">peak: ${scaled(peak, "FLOP/s")}</text>
        <text x="${x(slope) + 8}" y="${y(roof(slope)) + 10}">${scaled(bandwidth, "B/s")}</text>
        <text x="${LEFT + WIDE / 2}" y="${HIGH + 30}" text-anchor="middle">FLOPs per byte</text>
        <circle class="here" cx="${x(intensity)}" cy="${y(roof(intensity))}" r="6"/>`;
      this.$("#plot-title").textContent = `A step with ${figure(intensity)} FLOPs per byte, on a machine whose ridge is at ${figure(ridge)}`;
      this.say(
        `The step moves ${scaled(bytes, "B")} and performs ${scaled(flops, "FLOPs")}: ${figure(intensity)} FLOPs per byte. ` +
          `The ridge is at ${figure(ridge)}, so the step is ${limit}-bound and takes at least ${time(seconds)}: ` +
          `at most ${Math.round((step.batch * step.length) / seconds).toLocaleString("en-US")} tokens/s.`,
      );
    }
  }
  customElements.define("roof-line", RoofLine);
}
