// <scheduler-replay>: one load, recorded from the course's scheduler under many settings, step by step.
// Data: {names, comes, settings: {name: [values]}, runs: {"0,1": number} by the chosen values' numbers, recorded:
// [{states, tokens}], fixed}: a request's letters, one per step, as in the timeline (P prefills and yields a token), and
// each step's tokens; a step takes `fixed` plus its tokens.
"use strict";

{
  const [WIDE, ROW, LEFT] = [360, 18, 22];
  const { number } = BookWidget;

  class SchedulerReplay extends BookWidget {
    constructor() {
      super();
      this.label = "A scheduler's run, step by step";
      this.view = { policy: 0, slots: 1, budget: 1, pages: 0, step: 12 };
    }

    get markup() {
      const lists = Object.entries(this.data.settings).map(([name, values]) => BookWidget.list(name, name, values));
      return `<div class="bar">${lists.join("")}</div>
        ${BookWidget.stepBar("Next step")}
        <div class="sliders">${BookWidget.slider("step", "step", 0, 100)}</div>
        <svg id="run" viewBox="0 0 ${LEFT + WIDE} ${this.data.names.length * ROW + 20}" role="img" aria-labelledby="run-title">
          <title id="run-title"></title><g></g></svg>
        <p class="legend"><span><i class="p"></i> prefills</span><span><i class="d"></i> decodes</span><span><i class="w"></i> waits</span>${this.data.settings.pages ? "<span>✕ is preempted</span>" : ""}</p>
        <dl class="figures"></dl>
        <style>
          #run { width: 100%; }
          .p { fill: var(--query); background: var(--query); }
          .d { fill: var(--bg, #fff); stroke: var(--query); background: var(--bg, #fff); }
          .w { fill: var(--rules, GrayText); background: var(--rules, GrayText); }
          .legend { display: flex; flex-wrap: wrap; gap: 0.2em 1.4em; margin: 0.3em 0; }
          .legend i { display: inline-block; width: 0.8em; height: 0.8em; border: 1px solid var(--query); }
          .legend .w { width: 0.25em; height: 0.25em; border: 0; vertical-align: 0.25em; }
          .now { stroke: var(--fg, #000); stroke-dasharray: 2 2; }
        </style>`;
    }

    start() {
      for (const name of [...Object.keys(this.data.settings), "step"]) this.bind(name);
      this.steps(250, { step: 0 });
      this.longest = Math.max(...this.data.recorded.map((run) => this.clock(run).at(-1)));
    }

    /** Whether there is a further step. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(this.run.tokens.length, this.at + by)) });
      return this.at < this.run.tokens.length;
    }

    get run() {
      const chosen = Object.keys(this.data.settings).map((name) => this.view[name]);
      return this.data.recorded[this.data.runs[chosen.join()]];
    }

    get at() {
      return Math.min(this.view.step, this.run.tokens.length);
    }

    /** The time before each step and after the last one. */
    clock(run) {
      return run.tokens.reduce((clock, tokens) => [...clock, clock.at(-1) + this.data.fixed + tokens], [0]);
    }

    /** Each request's times of its tokens, of those within the first steps. */
    times(run, clock, steps) {
      return run.states.map((states) => {
        const found = [];
        for (let step = 0; step < steps; step++) if ("Pdf".includes(states[step])) found.push(clock[step + 1]);
        return found;
      });
    }

    get state() {
      const run = this.run;
      const clock = this.clock(run);
      const times = this.times(run, clock, this.at);
      const arrived = this.data.comes.map((step) => clock[step]);
      const firsts = times.map((each, i) => (each.length ? each[0] - arrived[i] : null));
      const gaps = times.flatMap((each) => each.slice(1).map((time, i) => time - each[i]));
      const count = times.reduce((sum, each) => sum + each.length, 0);
      return { ...this.view, at: this.at, steps: run.tokens.length, now: clock[this.at], firsts, longest: Math.max(0, ...gaps), tokens: count, rate: this.at ? (100 * count) / clock[this.at] : 0, preempted: run.states.join("").split("x").length - 1 };
    }

    draw() {
      const { at, steps, firsts, longest, tokens, rate, now, preempted } = this.state;
      for (const name of Object.keys(this.data.settings)) this.$(`[name=${name}]`).value = this.view[name];
      this.$("#step").max = steps;
      this.$("#step").value = at;
      this.$("#at-step").textContent = `${at} of ${steps}`;
      this.dim("#back", at === 0);
      this.dim("#next", at === steps);
      const clock = this.clock(this.run);
      const x = (time) => LEFT + (time / this.longest) * (WIDE - 14);
      const bottom = this.data.names.length * ROW + 4;
      const rows = this.run.states.map((states, i) => {
        const y = i * ROW + 4;
        const cells = [...states].slice(0, at).map((state, step) => {
          const [left, right] = [x(clock[step]), x(clock[step + 1])];
          const box = `x="${(left + 0.5).toFixed(1)}" width="${Math.max(right - left - 1, 1).toFixed(1)}"`;
          if ("pP".includes(state)) return `<rect class="p" ${box} y="${y}" height="12"/>`;
          if ("df".includes(state)) return `<rect class="d" ${box} y="${y + 3}" height="6"/>`;
          if (state === "x") return `<text x="${((left + right) / 2).toFixed(1)}" y="${y + 10}" text-anchor="middle">✕</text>`;
          return state === "w" ? `<circle class="w" cx="${((left + right) / 2).toFixed(1)}" cy="${y + 6}" r="1"/>` : "";
        });
        return `<text x="2" y="${y + 10}">${this.data.names[i]}</text>${cells.join("")}`;
      });
      const line = `<path class="now" d="M${x(clock[at]).toFixed(1)} 0V${bottom}"/>`;
      const ticks = BookWidget.ticks(this.longest, (time) => x(time).toFixed(1), bottom);
      this.$("#run g").innerHTML = rows.join("") + ticks.join("") + line;
      this.$("#run-title").textContent = `${this.data.names.length} requests after ${at} of ${steps} steps`;
      const known = firsts.filter((first) => first !== null).sort((a, b) => a - b);
      const median = known.length ? known[Math.floor((known.length - 1) / 2)] : 0;
      this.figures([
        ["time", now],
        ["tokens", tokens],
        ["median TTFT", median],
        ["max TTFT", known.at(-1) ?? 0],
        ["max ITL", longest],
        ["tokens per 100 units", number(rate, 1)],
      ]);
      this.say(
        at === steps
          ? `All requests are finished after ${steps} steps, at time ${now}${preempted ? `, with ${preempted} preemption${preempted > 1 ? "s" : ""}` : ""}.`
          : `Step ${at}: ${at ? `${this.run.tokens[at - 1]} tokens were processed.` : "no request has been processed."}`,
      );
    }
  }
  customElements.define("scheduler-replay", SchedulerReplay);
}
