// <rope-scaling>: the angles that each RoPE pair saw in training, and those of a longer sequence, under each scaling.
// Data: {dims, base, trained}.
"use strict";

{
  const [WIDE, HIGH] = [330, 150];
  const KINDS = ["none", "interpolation", "NTK-aware", "YaRN"];
  const { number } = BookWidget;

  class RopeScaling extends BookWidget {
    constructor() {
      super();
      this.label = "RoPE beyond the training length: the angles of each pair";
      this.view = { kind: "none", factor: 3, pair: 12 };
    }

    get markup() {
      const kinds = KINDS.map((kind) => `<label><input type="radio" name="kind" value="${kind}"> ${kind}</label>`);
      const { slider } = BookWidget;
      return `<div class="bar"><fieldset><legend>Scaling</legend>${kinds.join("")}</fieldset></div>
        <div class="sliders">${slider("factor", "times the training length", 0, 5)}${slider("pair", "pair", 0, this.data.dims / 2 - 1)}</div>
        <svg id="pairs" viewBox="0 -14 ${WIDE} ${HIGH + 36}" role="img" aria-labelledby="pairs-title"><title id="pairs-title"></title><g></g></svg>
        <p class="legend"><span><i class="known"></i> turns made in training</span><span><i class="new"></i> new angles</span>
          <span><i class="again"></i> angles seen before</span></p>
        <style>
          .known { fill: var(--links); background: var(--links); }
          .new { fill: var(--second); background: var(--second); }
          .again { fill: var(--bg, #fff); stroke: var(--links); background: var(--bg, #fff); }
          .legend i { border-color: var(--links); }
          .axis { fill: none; stroke: var(--fg, #000); stroke-opacity: 0.6; stroke-dasharray: 2 3; }
        </style>`;
    }

    start() {
      for (const name of Object.keys(this.view)) this.bind(name);
    }

    /** Each pair's frequency, in radians per position, as the learner's functions compute them. */
    frequencies(kind, factor) {
      const { dims, base, trained } = this.data;
      const pairs = Array.from({ length: dims / 2 }, (_, i) => i);
      const plain = (base) => pairs.map((i) => base ** ((-2 * i) / dims));
      if (kind === "NTK-aware") return plain(base * factor ** (dims / (dims - 2)));
      const kept = plain(base);
      if (kind === "interpolation") return kept.map((x) => x / factor);
      if (kind === "none") return kept;
      const pair = (turns) => (dims * Math.log(trained / (2 * Math.PI * turns))) / (2 * Math.log(base));
      const [low, high] = [Math.max(Math.floor(pair(32)), 0), Math.min(Math.ceil(pair(1)), dims - 1)];
      return kept.map((x, i) => {
        const share = Math.max(0, Math.min(1, (i - low) / Math.max(high - low, 0.001)));
        return x * (1 - share) + (x / factor) * share;
      });
    }

    get state() {
      const factor = 2 ** this.view.factor;
      const turns = (frequencies, length) => frequencies.map((x) => (x * length) / (2 * Math.PI));
      const before = turns(this.frequencies("none", 1), this.data.trained);
      const frequencies = this.frequencies(this.view.kind, factor);
      const after = turns(frequencies, this.data.trained * factor);
      const unseen = after.map((x, i) => before[i] < 1 && x > before[i] * (1 + 1e-6));
      return { ...this.view, times: factor, frequencies, before, after, unseen };
    }

    draw() {
      const { kind, times, frequencies, before, after, unseen, pair } = this.state;
      for (const input of this.shadowRoot.querySelectorAll("[name=kind]")) input.checked = input.value === kind;
      this.$("#factor").value = this.view.factor;
      this.$("#pair").value = pair;
      this.$("#at-factor").textContent = `${times}`;
      this.$("#factor").setAttribute("aria-valuetext", String(times));
      this.$("#at-pair").textContent = `${pair}`;
      const step = WIDE / before.length;
      const y = (turns) => HIGH - (HIGH * Math.max(0, Math.log10(Math.max(turns, 1e-9)) + 5)) / 8.5; // 10^-5 to 10^3.5 turns
      const bars = before.map((known, i) => {
        const [x, width] = [(i * step + 1).toFixed(1), (step - 2).toFixed(1)];
        const top = y(after[i]);
        const more = after[i] > known * (1 + 1e-6);
        const beyond = more ? `<rect class="${unseen[i] ? "new" : "again"}" x="${x}" width="${width}" y="${top.toFixed(1)}" height="${(y(known) - top).toFixed(1)}"/>` : "";
        return `<rect class="known" x="${x}" width="${width}" y="${y(Math.min(known, after[i])).toFixed(1)}" height="${(HIGH - y(Math.min(known, after[i]))).toFixed(1)}"/>${beyond}`;
      });
      this.$("#pairs g").innerHTML = `${bars.join("")}<path class="axis" d="M0 ${y(1).toFixed(1)}H${WIDE}"/>
        <text x="${WIDE}" y="${(y(1) - 4).toFixed(1)}" text-anchor="end">a full turn</text>
        <path class="mark" d="M${((pair + 0.5) * step).toFixed(1)} ${HIGH + 1}l-4 7h8z"/><text x="${WIDE}" y="-4" text-anchor="end">turns, on a log scale</text>
        <text x="0" y="${HIGH + 19}">pair 0, the fastest</text><text x="${WIDE}" y="${HIGH + 19}" text-anchor="end">pair ${before.length - 1}</text>`;
      const count = unseen.filter(Boolean).length;
      this.$("#pairs-title").textContent = `${count} of ${before.length} pairs have angles that they did not have in training`;
      const slower = this.frequencies("none", 1)[pair] / frequencies[pair];
      this.say(
        `${count} of ${before.length} pairs reach new angles. Pair ${pair} made ${before[pair].toPrecision(3)} turns in training and makes ` +
          `${after[pair].toPrecision(3)} now; its frequency is divided by ${number(slower)}. ` +
          `Adjacent tokens differ by ${number(1 / slower)} of their difference in training.`,
      );
    }
  }
  customElements.define("rope-scaling", RopeScaling);
}
