// <scheduler-replay>: one load, recorded from the course's scheduler under many settings: two policies, step by step.
// Data: {names, comes, settings: {name: [values]}, runs: {"0,1": number} by the chosen values' numbers, recorded:
// [{states, tokens}], fixed}: a request's letters, one per step, as in the timeline (P prefills and yields a token), and
// each step's tokens; a step takes `fixed` plus its tokens. With several, the reader chooses one.
"use strict";

{
  const ROW = 16;
  const { number } = BookWidget;
  const panel = (which) => `<p class="name" id="name-${which}"></p>
    <svg id="${which}" class="run" role="img" aria-labelledby="title-${which}"><title id="title-${which}"></title><g></g></svg>
    <dl class="figures" id="figures-${which}"></dl>`;

  class SchedulerReplay extends BookWidget {
    constructor() {
      super();
      this.label = "Two policies of a scheduler, step by step";
      this.view = { policy: 0, other: 1, slots: 1, budget: 1, pages: 0, step: 12 };
    }

    get markup() {
      const { policy, ...shared } = this.data.settings;
      const lists = Object.entries(shared).map(([name, values]) => BookWidget.list(name, name, values));
      const fixed = [this.data.fixed].flat();
      this.view.fixed = fixed[0];
      if (fixed.length > 1) lists.push(BookWidget.list("fixed", "fixed cost of a step", fixed, fixed));
      return `<div class="bar">${BookWidget.list("policy", "policy", policy)}${BookWidget.list("other", "compared with", policy)}${lists.join("")}</div>
        ${BookWidget.stepBar("Next step")}
        <div class="sliders">${BookWidget.slider("step", "step", 0, 100)}</div>
        ${panel("policy")}${panel("other")}
        <p class="legend"><span><i class="p"></i> prefills</span><span><i class="d"></i> decodes</span><span><i class="w"></i> waits</span>${shared.pages ? "<span>✕ is preempted</span>" : ""}</p>
        <style>
          .run text { font-size: 12px; }
          .name { margin: 0.8em 0 0.2em; font-weight: 700; }
          dl.figures { gap: 0.2em 1.6em; margin: 0.2em 0 0; padding: 0; border: 0; }
          .p { fill: var(--links); background: var(--links); }
          .d { fill: var(--bg, #fff); stroke: var(--links); background: var(--bg, #fff); }
          .w { fill: var(--rules, GrayText); background: var(--rules, GrayText); }
          .legend i { border-color: var(--links); }
          .legend .w { width: 0.25em; height: 0.25em; border: 0; vertical-align: 0.25em; }
          .now { stroke: var(--logits); stroke-width: 1.5; }
        </style>`;
    }

    start() {
      for (const name of [...Object.keys(this.data.settings), "other", "fixed", "step"]) this.bind(name);
      this.steps(250, { step: 0 });
    }

    /** A row has the same height at every width, so the drawings follow the width. */
    scaleText() {
      if (this.width !== this.$("#policy").clientWidth) this.draw();
      super.scaleText();
    }

    /** Whether there is a further step. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(this.run("policy").tokens.length, this.at + by)) });
      return this.at < this.run("policy").tokens.length;
    }

    /** The run of the policy chosen in this list, with the other settings. */
    run(list) {
      const chosen = Object.keys(this.data.settings).map((name) => this.view[name === "policy" ? list : name]);
      return this.data.recorded[this.data.runs[chosen.join()]];
    }

    get at() {
      return Math.min(this.view.step, this.run("policy").tokens.length);
    }

    /** The time before each step and after the last one. */
    clock(run) {
      return run.tokens.reduce((clock, tokens) => [...clock, clock.at(-1) + this.view.fixed + tokens], [0]);
    }

    /** Each request's times of its tokens, of those within the first steps. */
    times(run, clock, steps) {
      return run.states.map((states) => {
        const found = [];
        for (let step = 0; step < steps; step++) if ("Pdf".includes(states[step])) found.push(clock[step + 1]);
        return found;
      });
    }

    /** What a run has done after so many steps. */
    measures(run, at) {
      const clock = this.clock(run);
      const times = this.times(run, clock, at);
      const firsts = times.map((each, i) => (each.length ? each[0] - clock[this.data.comes[i]] : null));
      const gaps = times.flatMap((each) => each.slice(1).map((time, i) => time - each[i]));
      const count = times.reduce((sum, each) => sum + each.length, 0);
      return { at, steps: run.tokens.length, now: clock[at], firsts, longest: Math.max(0, ...gaps), tokens: count, rate: at ? (100 * count) / clock[at] : 0, preempted: run.states.join("").split("x").length - 1 };
    }

    /** The other run is shown up to the same time; at the end, both are shown whole. */
    get state() {
      const [run, other] = [this.run("policy"), this.run("other")];
      const own = this.measures(run, this.at);
      const begun = this.clock(other).findLastIndex((time) => time <= own.now);
      return { ...this.view, ...own, compared: this.measures(other, own.at === own.steps ? other.tokens.length : begun) };
    }

    draw() {
      const { compared, ...own } = this.state;
      for (const list of this.shadowRoot.querySelectorAll("select")) list.value = this.view[list.name];
      this.$("#step").max = own.steps;
      this.$("#step").value = own.at;
      this.$("#at-step").textContent = `${own.at} of ${own.steps}`;
      this.dim("#back", own.at === 0);
      this.dim("#next", own.at === own.steps);
      this.width = this.$("#policy").clientWidth;
      this.longest = Math.max(...this.data.recorded.map((run) => this.clock(run).at(-1)));
      const cursor = Math.max(own.now, compared.now); // the time of both drawings
      this.drawRun("policy", own, cursor);
      this.drawRun("other", compared, cursor);
      const name = (list) => this.data.settings.policy[this.view[list]];
      const ended = ({ now, preempted }) => `ends at time ${now}${preempted ? `, with ${preempted} preemption${preempted > 1 ? "s" : ""}` : ""}`;
      this.say(
        own.at === own.steps
          ? `${name("policy")} ${ended(own)}; ${name("other")} ${ended(compared)}.`
          : `At time ${own.now}: ${own.tokens} tokens with ${name("policy")}, ${compared.tokens} with ${name("other")}.`,
      );
    }

    drawRun(list, { at, steps, firsts, longest, tokens, rate, now }, cursor) {
      const { names, settings } = this.data;
      const [run, wide] = [this.run(list), this.width || 340];
      const clock = this.clock(run);
      const left = 14 + 6 * Math.max(...names.map((name) => name.length));
      const x = (time) => left + (time / this.longest) * (wide - left - 14);
      const bottom = names.length * ROW + 4;
      const rows = run.states.map((states, i) => {
        const y = i * ROW + 2;
        const first = states.search(/[pPf]/); // a request of one token ends with its prefill
        const cells = [...states].slice(0, at).map((state, step) => {
          const [left, right] = [x(clock[step]), x(clock[step + 1])];
          const box = `x="${(left + 0.5).toFixed(1)}" width="${Math.max(right - left - 1, 1).toFixed(1)}"`;
          if ("pP".includes(state) || step === first) return `<rect class="p" ${box} y="${y}" height="12"/>`;
          if ("df".includes(state)) return `<rect class="d" ${box} y="${y + 2.5}" height="7"/>`;
          if (state === "x") return `<text x="${((left + right) / 2).toFixed(1)}" y="${y + 10}" text-anchor="middle">✕</text>`;
          return state === "w" ? `<circle class="w" cx="${((left + right) / 2).toFixed(1)}" cy="${y + 6}" r="1.2"/>` : "";
        });
        return `<text x="2" y="${y + 10}">${names[i]}</text>${cells.join("")}`;
      });
      const line = `<path class="now" d="M${x(cursor).toFixed(1)} 0V${bottom + 4}"/>`;
      const ticks = BookWidget.ticks(this.longest, (time) => x(time).toFixed(1), bottom);
      this.$(`#${list}`).setAttribute("viewBox", `0 0 ${wide} ${bottom + 18}`);
      this.$(`#${list} g`).innerHTML = rows.join("") + ticks.join("") + line;
      this.$(`#title-${list}`).textContent = `${names.length} requests after ${at} of ${steps} steps`;
      this.$(`#name-${list}`).textContent = settings.policy[this.view[list]];
      const known = firsts.filter((first) => first !== null).sort((a, b) => a - b);
      const figures = {
        time: now,
        tokens,
        "median TTFT": known.length ? known[Math.floor((known.length - 1) / 2)] : 0,
        "max TTFT": known.at(-1) ?? 0,
        "max ITL": longest,
        "tokens per 100 units": number(rate, 1),
      };
      this.$(`#figures-${list}`).innerHTML = Object.entries(figures).map(([term, figure]) => `<div><dt>${term}</dt><dd>${figure}</dd></div>`).join("");
    }
  }
  customElements.define("scheduler-replay", SchedulerReplay);
}
