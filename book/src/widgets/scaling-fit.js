// <scaling-fit>: a scaling law fitted to the runs that the reader includes, and the interval of its extrapolation.
// Data: {sizes, losses, grid, fits: {"012": {law: [E, A, alpha], loss, low, high}}, level}: one fit per choice of runs.
"use strict";

{
  const [LEFT, RIGHT, TOP, BOTTOM] = [34, 382, 14, 190];
  const { number } = BookWidget;
  const short = (n) => (n >= 1e6 ? `${Number((n / 1e6).toPrecision(3))} M` : `${Math.round(n / 1e3)} k`);

  class ScalingFit extends BookWidget {
    constructor() {
      super();
      this.label = "A scaling law fitted to some of the recorded runs";
      this.view = { at: 0 };
    }

    get markup() {
      const boxes = this.data.sizes.map(
        (size, i) => `<label><input type="checkbox" name="run${i}"> ${short(size)}</label>`,
      );
      return `<fieldset class="bar"><legend>Runs to fit, by parameters</legend>${boxes.join("")}</fieldset>
        <div class="sliders">${BookWidget.slider("at", "model size", 0, this.data.grid.length - 1)}</div>
        <svg id="plot" viewBox="0 0 400 228" role="img" aria-labelledby="plot-title"><title id="plot-title"></title><g></g></svg>
        <p class="legend"><span><i class="dot-in"></i> run, fitted</span><span><i class="dot-out"></i> run, left out</span>
          <span><i class="dot-law"></i> law, at the model size</span><span><i class="band"></i> interval</span></p>
        <p class="figures mono"></p>
        <style>
          .band { fill: color-mix(in srgb, var(--links) 25%, transparent); background: color-mix(in srgb, var(--links) 25%, transparent); }
          .law { fill: none; stroke: var(--links); stroke-width: 2; }
          .dot-law { fill: var(--links); background: var(--links); stroke: var(--links); }
          .here { stroke: var(--fg, #000); stroke-dasharray: 4 3; }
          .dot-in { fill: var(--second); background: var(--second); stroke: var(--second); }
          .dot-out { fill: var(--bg, #fff); stroke: var(--second); stroke-width: 1.5; border: 1.5px solid var(--second); }
          .legend i { border-radius: 50%; }
          .figures { margin: 0.4em 0 0; }
        </style>`;
    }

    start() {
      this.data.sizes.forEach((_, i) => {
        this.view[`run${i}`] = true;
      });
      this.view.at = this.data.grid.length - 1;
      for (const name of Object.keys(this.view)) this.bind(name);
    }

    get state() {
      const chosen = this.data.sizes.flatMap((_, i) => (this.view[`run${i}`] ? [i] : []));
      const fit = this.data.fits[chosen.join("")] ?? null;
      const at = this.view.at;
      const found = fit && { law: fit.law, loss: fit.loss[at], low: fit.low[at], high: fit.high[at] };
      return { chosen, size: this.data.grid[at], fit: found };
    }

    draw() {
      const { sizes, losses, grid, fits, level } = this.data;
      const { chosen, size, fit } = this.state;
      for (const [name, value] of Object.entries(this.view)) {
        const control = this.$(`[name=${name}]`);
        if (control.type === "checkbox") control.checked = value;
        else control.value = value;
      }
      this.$("#at-at").textContent = short(size);
      const lines = fits[chosen.join("")];
      const [low, high] = [Math.min(...losses) * 0.6, Math.max(...losses) * 1.08];
      const end = Math.max(grid.at(-1), 10 ** Math.round(Math.log10(grid.at(-1)))); // a power of ten, if one is near
      const x = (n) => LEFT + ((RIGHT - LEFT) * Math.log(n / grid[0])) / Math.log(end / grid[0]);
      const y = (loss) => BOTTOM - ((BOTTOM - TOP) * (Math.min(high, Math.max(low, loss)) - low)) / (high - low);
      const point = (n, loss) => `${x(n).toFixed(1)} ${y(loss).toFixed(1)}`;
      const marks = [`<path class="axis" d="M${LEFT} ${BOTTOM}H${RIGHT}"/>`];
      for (let loss = Math.ceil(low); loss <= high; loss++) {
        marks.push(`<path class="grid" d="M${LEFT} ${y(loss).toFixed(1)}H${RIGHT}"/><text x="${LEFT - 5}" y="${(y(loss) + 3).toFixed(1)}" text-anchor="end">${loss}</text>`);
      }
      for (let power = 3; power < 10; power++) {
        for (const n of [1, 2, 5].map((digit) => digit * 10 ** power)) {
          if (n >= grid[0] && n <= end) marks.push(`<path class="axis" d="M${x(n).toFixed(1)} ${BOTTOM}v4"/><text x="${x(n).toFixed(1)}" y="${BOTTOM + 15}" text-anchor="middle">${short(n)}</text>`);
        }
      }
      const curves = lines
        ? `<path class="band" d="M${grid.map((n, i) => point(n, lines.high[i])).join("L")}L${grid.map((n, i) => point(n, lines.low[i])).reverse().join("L")}Z"/>
          <path class="law" d="M${grid.map((n, i) => point(n, lines.loss[i])).join("L")}"/>`
        : "";
      const dots = sizes.map((n, i) => `<circle cx="${x(n).toFixed(1)}" cy="${y(losses[i]).toFixed(1)}" r="4.5" class="${chosen.includes(i) ? "dot-in" : "dot-out"}"/>`);
      this.$("#plot g").innerHTML = `${marks.join("")}${curves}<path class="here" d="M${x(size).toFixed(1)} ${TOP}V${BOTTOM}"/>${dots.join("")}${fit ? `<circle cx="${x(size).toFixed(1)}" cy="${y(fit.loss).toFixed(1)}" r="3.5" class="dot-law"/>` : ""}
        <text x="0" y="9">held-out loss</text><text x="${RIGHT}" y="${BOTTOM + 35}" text-anchor="end">parameters</text>`;
      const percent = Math.round(level * 100);
      if (!fit) {
        this.$("#plot-title").textContent = "No law: fewer than three runs are chosen";
        this.$(".figures").textContent = "E – · A – · alpha –";
        this.say("A law with three unknowns needs at least three runs.");
        return;
      }
      const [E, A, alpha] = fit.law;
      this.$("#plot-title").textContent = `The law fitted to ${chosen.length} runs: a loss of ${number(fit.loss)} at ${short(size)} parameters`;
      this.$(".figures").textContent = `E ${number(E)} · A ${Number(A.toPrecision(3))} · alpha ${number(alpha)}`;
      this.say(
        `Fitted to ${chosen.length} runs, the law gives a loss of ${number(fit.loss)} for ${short(size)} parameters; ` +
          `the ${percent} % interval is ${number(fit.low)} to ${number(fit.high)}, ${number(fit.high - fit.low)} wide.` +
          (E < 0.005 ? " E is at its bound of 0: these runs do not determine it. No resampled law has a smaller E, so the law is near the interval's lower edge." : ""),
      );
    }
  }
  customElements.define("scaling-fit", ScalingFit);
}
