// <bootstrap-mean>: the bootstrap of the difference between two models' accuracies, resample by resample.
// Data: {names, right: [[0 or 1 for each item] for each model], draws: [text, text]}: the items of all resamples, a
// character for each draw; the second text is for the second model if it has its own items.
"use strict";

{
  const [LEFT, CELL, TALL, WIDE] = [8, 8, 60, 340];
  const { number, escape } = BookWidget;
  const percent = (x) => (Math.round(1000 * x) > 0 ? "+" : "") + number(100 * x, 1);

  class BootstrapMean extends BookWidget {
    constructor() {
      super();
      this.label = "The bootstrap of a difference, resample by resample";
      this.view = { kind: "paired", step: 1 };
    }

    get markup() {
      const radio = (value, text) => `<label><input type="radio" name="kind" value="${value}"> ${text}</label>`;
      return `<div class="bar"><fieldset><legend>Items</legend>${radio("paired", "the same for both models")}${radio("unpaired", "other ones for each")}</fieldset></div>
        ${BookWidget.stepBar("Draw a resample")}
        <div class="sliders">${BookWidget.slider("step", "resamples", 0, this.resamples)}</div>
        <svg id="boot" role="img" aria-labelledby="boot-title"><title id="boot-title"></title><g></g></svg>
        <p class="legend"><span><i class="bar-of"></i> right</span><span><i class="hollow-of"></i> wrong</span><span>taller: drawn more often</span><span>- - - no difference</span></p><dl class="figures"></dl>
        <style>
          .middle { text-anchor: middle; }
          .bar-of, .new { fill: var(--links, #06c); background: var(--links, #06c); }
          .bar-of { opacity: 0.75; }
          .hollow-of { fill: var(--bg, #fff); stroke: var(--links, #06c); }
          .zero { stroke: var(--fg, #000); stroke-dasharray: 4 3; }
          .ends { stroke: var(--fg, #000); stroke-width: 2; fill: none; }
          .legend i { border-color: var(--links, #06c); }
        </style>`;
    }

    get items() {
      return this.data.right[0].length;
    }

    get resamples() {
      return this.data.draws[0].length / this.items;
    }

    start() {
      this.bind("kind");
      this.bind("step");
      this.steps(120, { step: 0 });
    }

    /** Whether there is a further step. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(this.resamples, this.view.step + by)) });
      return this.view.step < this.resamples;
    }

    /** The items that a resample draws for a model. */
    drawn(model, resample) {
      const text = this.data.draws[this.view.kind === "paired" ? 0 : model];
      return [...text.slice(resample * this.items, (resample + 1) * this.items)].map((c) => c.charCodeAt(0) - 48);
    }

    mean(model, resample) {
      return this.drawn(model, resample).reduce((sum, i) => sum + this.data.right[model][i], 0) / this.items;
    }

    /** A quantile, interpolated linearly between the sorted numbers. */
    quantile(sorted, share) {
      const at = share * (sorted.length - 1);
      const [low, high] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]];
      return low + (at - Math.floor(at)) * (high - low);
    }

    get state() {
      const { step } = this.view;
      const differences = Array.from({ length: step }, (_, r) => this.mean(0, r) - this.mean(1, r));
      const sorted = [...differences].sort((a, b) => a - b);
      const ends = step ? [this.quantile(sorted, 0.025), this.quantile(sorted, 0.975)] : [];
      const counts = [0, 1].map((model) => {
        const found = Array(this.items).fill(0);
        if (step) for (const i of this.drawn(model, step - 1)) found[i]++;
        return found;
      });
      return { ...this.view, differences, low: ends[0] ?? null, high: ends[1] ?? null, counts };
    }

    draw() {
      const { kind, step, differences, low, high, counts } = this.state;
      for (const input of this.shadowRoot.querySelectorAll("[name=kind]")) input.checked = input.value === kind;
      this.$("[name=step]").value = step;
      this.$("#at-step").textContent = step;
      this.dim("#back", step === 0);
      this.dim("#next", step === this.resamples);
      const rows = this.data.names.map((name, model) => {
        const base = 48 + 52 * model;
        const cells = counts[model].map((count, i) => {
          const height = 3 + 6 * Math.min(count, 5);
          const kind = this.data.right[model][i] ? "bar-of" : "hollow-of";
          return `<rect class="${kind}" x="${LEFT + i * CELL + 1}" y="${base - (count ? height : 1)}" width="${CELL - 2}" height="${count ? height : 1}"/>`;
        });
        return `<text x="${LEFT}" y="${base - 36}">${escape(name)}</text>${cells.join("")}`;
      });
      // One bar for each possible difference, k of n items, from -n/2 to n/2.
      const [half, base] = [this.items / 2, 126 + TALL];
      const x = (difference) => LEFT + (WIDE - 2 * LEFT) * ((difference * this.items + half) / this.items);
      const bins = new Map();
      for (const difference of differences) {
        const key = Math.round(difference * this.items);
        bins.set(key, (bins.get(key) ?? 0) + 1);
      }
      const most = Math.max(8, ...bins.values());
      const last = step ? Math.round(differences[step - 1] * this.items) : null;
      const bars = [...bins].map(([key, count]) => {
        const height = (TALL * count) / most;
        return `<rect class="${key === last ? "new" : "bar-of"}" x="${(x(key / this.items) - 3.2).toFixed(1)}" y="${(base - height).toFixed(1)}" width="6.4" height="${height.toFixed(1)}"/>`;
      });
      const marks = [-0.4, -0.2, 0, 0.2, 0.4].map((d) => `<text class="middle" x="${x(d).toFixed(1)}" y="${base + 26}">${percent(d)}</text>`);
      const ends = step ? `<path class="ends" d="M${x(low).toFixed(1)} ${base + 4}v8M${x(low).toFixed(1)} ${base + 8}H${x(high).toFixed(1)}M${x(high).toFixed(1)} ${base + 4}v8"/>` : "";
      this.$("#boot").setAttribute("viewBox", `0 0 ${WIDE} ${base + 30}`);
      this.$("#boot g").innerHTML = `${rows.join("")}${bars.join("")}<path class="zero" d="M${x(0)} ${base - TALL}V${base}"/>
        <path class="ends" d="M${LEFT} ${base}H${WIDE - LEFT}" style="stroke-width:1"/>${ends}${marks.join("")}`;
      const said = step ? `${percent(low)} to ${percent(high)} points` : "none yet";
      this.$("#boot-title").textContent = `Differences of ${step} resamples; 95 % interval ${said}`;
      this.figures([
        ["last difference", step ? percent(differences[step - 1]) : "–"],
        ["95 % interval", step ? `${percent(low)} to ${percent(high)}` : "–"],
      ]);
      this.say(
        step
          ? `${step} resample${step > 1 ? "s" : ""}, ${kind === "paired" ? "the same items for both models" : "other items for each model"}: 95 % of the differences are between ${percent(low)} and ${percent(high)} points, ${number(100 * (high - low), 1)} points wide.`
          : "No item has been drawn yet.",
      );
    }
  }
  customElements.define("bootstrap-mean", BootstrapMean);
}
