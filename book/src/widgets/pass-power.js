// <pass-power>: agents with runs of several cases: pass@k and pass^k, as k grows.
// Data: {agents: [{name, runs: [[0 or 1 for each run] for each case], at, every, interval}]}; `at` and `every` begin at k = 1.
"use strict";

{
  const [LEFT, CELL, TALL] = [34, 15, 110];
  const percent = (x) => `${Math.round(100 * x)} %`;

  class PassPower extends BookWidget {
    constructor() {
      super();
      this.label = "pass@k and pass^k of three agents";
      this.view = { agent: 1, k: 3 };
    }

    get markup() {
      const { list, slider, stepBar } = BookWidget;
      const times = this.data.agents[0].at.length;
      return `<div class="bar">${list("agent", "Agent", this.data.agents.map(({ name }) => name))}</div>
        ${stepBar("One more run")}
        <div class="sliders">${slider("k", "k, runs", 1, times)}</div>
        <div class="beside"><div><svg id="runs" role="img" aria-labelledby="runs-title"><title id="runs-title"></title><g></g></svg>
        <p class="legend"><span><i class="solved"></i> solved</span><span><i></i> not solved</span></p></div>
        <svg id="curve" role="img" aria-labelledby="curve-title"><title id="curve-title"></title><g></g></svg></div>
        <dl class="figures"></dl>
        <style>
          #runs, #curve { margin: 0.4em 0; }
          .solved { fill: var(--links); background: var(--links); stroke: var(--links); }
          .not { fill: var(--bg, Canvas); stroke: var(--links); }
          .curve { fill: none; stroke: var(--links); stroke-width: 2; }
          .below { stroke-dasharray: 5 3; }
          .at { fill: var(--links); }
          .legend i { border-color: var(--links); }
        </style>`;
    }

    start() {
      this.$("[name=agent]").addEventListener("input", ({ target }) => this.change({ agent: Number(target.value) }));
      this.bind("k");
      this.steps(900, { k: 1 });
    }

    /** Whether there is a further step. */
    move(by) {
      this.change({ k: Math.max(1, Math.min(this.last, this.view.k + by)) });
      return this.view.k < this.last;
    }

    get last() {
      return this.data.agents[0].at.length;
    }

    get state() {
      const { runs, at, every, interval, name } = this.data.agents[this.view.agent];
      const { k } = this.view;
      return { name, k, runs, interval, first: at[0], at: at[k - 1], every: every[k - 1], curves: [at, every] };
    }

    draw() {
      const { name, k, runs, interval, first, at, every, curves } = this.state;
      this.$("[name=agent]").value = this.view.agent;
      this.$("[name=k]").value = k;
      this.$("#at-k").textContent = k;
      this.dim("#back", k === 1);
      this.dim("#next", k === this.last);
      const cells = runs.flatMap((row, i) =>
        row.map((solved, j) => `<rect x="${LEFT + i * (CELL + 6)}" y="${j * CELL + 1}" width="${CELL - 3}" height="${CELL - 3}" class="${solved ? "solved" : "not"}"/>`),
      );
      const wide = LEFT + runs.length * (CELL + 6);
      this.$("#runs").setAttribute("viewBox", `0 0 ${wide} ${this.last * CELL + 18}`);
      this.$("#runs-title").textContent = `Runs of ${name}: a column for each of ${runs.length} cases, a square for each run`;
      this.$("#runs g").innerHTML = `${cells.join("")}<text x="${LEFT}" y="${this.last * CELL + 14}">a case in each column, its runs below each other</text>`;
      const x = (i) => LEFT + 12 + (i * (wide - LEFT - 70)) / (this.last - 1);
      const y = (share) => 8 + TALL * (1 - share);
      const lines = curves.map((curve, which) => `<polyline class="curve${which ? " below" : ""}" points="${curve.map((share, i) => `${x(i).toFixed(1)},${y(share).toFixed(1)}`).join(" ")}"/>`);
      const marks = [at, every].map((share) => `<circle class="at" cx="${x(k - 1).toFixed(1)}" cy="${y(share).toFixed(1)}" r="4"/>`);
      const shift = curves[0].at(-1) - curves[1].at(-1) < 0.12 ? 7 : 0;
      const names = ["pass@k", "pass^k"].map((text, which) => `<text x="${x(this.last - 1) + 8}" y="${(y(curves[which].at(-1)) + 4 + (which ? shift : -shift)).toFixed(1)}">${text}</text>`);
      const scale = [0, 0.5, 1].map((share) => `<path class="axis" d="M${LEFT} ${y(share)}h4"/><text x="${LEFT - 4}" y="${y(share) + 4}" text-anchor="end">${100 * share} %</text>`);
      const numbers = curves[0].map((_, i) => `<text x="${x(i).toFixed(1)}" y="${TALL + 24}" text-anchor="middle">${i + 1}</text>`);
      this.$("#curve").setAttribute("viewBox", `0 0 ${wide} ${TALL + 30}`);
      this.$("#curve-title").textContent = `pass@k rises from ${percent(first)} to ${percent(curves[0].at(-1))}, pass^k falls to ${percent(curves[1].at(-1))}`;
      this.$("#curve g").innerHTML = [...scale, ...lines, ...marks, ...names, ...numbers].join("");
      this.figures([
        ["pass@1", `${percent(first)}, ${percent(interval[0])} to ${percent(interval[1])}`],
        ...(k > 1 ? [[`pass@${k}`, percent(at)]] : []),
        [`pass^${k}`, percent(every)],
      ]);
      this.scaleText();
      this.say(`${name}, k = ${k}: at least one of ${k} runs succeeds in ${percent(at)} of the cases, all of them in ${percent(every)}.`);
    }
  }
  customElements.define("pass-power", PassPower);
}
