// <scheduler-replay>: one load, recorded from the course's scheduler under many settings: two policies, step by step.
// Data: {names, comes, settings: {name: [values]}, runs: {"0,1": number} by the chosen values' numbers, recorded:
// [{states, stays, tokens}], fixed}: a request's letters, one per step, as in the timeline (P prefills and yields a
// token), its stays in the batch, [slot, first step, last step], and each step's tokens; a step takes `fixed` plus its
// tokens. With several, the reader chooses one.
"use strict";

{
  const [ROW, LEFT] = [19, 46];
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
        <p class="legend"><span><i class="p"></i> prefills</span><span><i class="d"></i> decodes</span><span><i class="e"></i> empty slot</span>${shared.budget ? '<span><i class="w">·</i> in the batch, but over the budget</span>' : ""}${shared.pages ? "<span>✕ is preempted</span>" : ""}</p>
        <style>
          .run text { font-size: 12px; }
          .name { margin: 0.8em 0 0.2em; font-weight: 700; }
          dl.figures { gap: 0.2em 1.6em; margin: 0.2em 0 0; padding: 0; border: 0; }
          .run .in { fill: var(--bg, #fff); }
          .p { fill: var(--links); stroke: var(--links); background: var(--links); }
          .d { fill: var(--bg, #fff); stroke: var(--links); background: var(--bg, #fff); }
          .q { fill: color-mix(in srgb, var(--fg) 18%, var(--bg)); }
          .e, .w { fill: none; stroke: var(--rules, GrayText); stroke-dasharray: 1 2; }
          .legend i { border-color: var(--links); }
          .legend :is(.e, .w) { border: 1px dotted var(--rules); line-height: 0.7; text-align: center; }
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
      return { at, steps: run.tokens.length, now: clock[at], firsts, longest: Math.max(0, ...gaps), tokens: count, rate: at ? (100 * count) / clock[at] : 0, preempted: run.states.join("").split("x").length - 1, empty: this.slots * at - this.held(run, at).size };
    }

    get slots() {
      return this.data.settings.slots?.[this.view.slots] ?? this.data.names.length;
    }

    /** The slots that requests have within the first steps: {"slot,step": request}. */
    held(run, steps) {
      const found = new Map();
      run.stays.forEach((stays, i) => stays.forEach(([slot, from, to]) => {
        for (let step = from; step <= to && step < steps; step++) found.set(`${slot},${step}`, i);
      }));
      return found;
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

    drawRun(list, { at, steps, firsts, longest, tokens, rate, now, empty }, cursor) {
      const { names, settings } = this.data;
      const [run, wide] = [this.run(list), this.width || 340];
      const [clock, held] = [this.clock(run), this.held(run, at)];
      const x = (time) => LEFT + (time / this.longest) * (wide - LEFT - 14);
      const bottom = (this.slots + Boolean(settings.slots)) * ROW + 2; // without a choice, each request has a slot
      /** A block from a step to before another one, with the first of these words that is narrow enough. */
      const block = (kind, row, from, to, ...words) => {
        const [left, right] = [x(clock[from]) + 0.5, x(clock[to]) - 0.5];
        const word = words.find((each) => each.length * 6.2 + 1.2 < right - left) ?? "";
        return `<rect class="${kind}" x="${left.toFixed(1)}" width="${Math.max(right - left, 1).toFixed(1)}" y="${row * ROW + 2}" height="${ROW - 4}" rx="2"/>
          <text class="${kind === "p" ? "in" : ""}" x="${((left + right) / 2).toFixed(1)}" y="${row * ROW + 13.5}" text-anchor="middle">${word}</text>`;
      };
      const name = (row, words) => `<text x="${LEFT - 6}" y="${row * ROW + 13.5}" text-anchor="end">${words}</text>`;
      const rows = settings.slots ? [name(this.slots, "queue")] : [];
      for (let slot = 0; slot < this.slots; slot++) {
        rows.push(name(slot, `slot ${slot + 1}`));
        for (let step = 0; step < at; step++) {
          const i = held.get(`${slot},${step}`);
          const state = run.states[i]?.[step];
          const filled = "pP".includes(state) || step === run.states[i]?.search(/[pPf]/); // a request of one token ends with its prefill
          if (state === undefined) rows.push(block("e", slot, step, step + 1));
          else if ("xw".includes(state)) rows.push(block("w", slot, step, step + 1, state === "x" ? "✕" : "·"));
          else rows.push(block(filled ? "p" : "d", slot, step, step + 1, names[i]));
        }
      }
      const holds = (i, step) => run.stays[i].some(([, from, to]) => from <= step && step <= to);
      const queue = (step) => names.filter((_, i) => "wx".includes(run.states[i][step]) && !holds(i, step));
      for (let from = 0, to; from < at; from = to) {
        const waiting = queue(from);
        for (to = from + 1; to < at && queue(to).join() === waiting.join(); ) to++;
        if (waiting.length) rows.push(block("q", this.slots, from, to, waiting.join(""), String(waiting.length)));
      }
      const line = `<path class="now" d="M${x(cursor).toFixed(1)} 0V${bottom + 4}"/>`;
      const ticks = BookWidget.ticks(this.longest, (time) => x(time).toFixed(1), bottom);
      this.$(`#${list}`).setAttribute("viewBox", `0 0 ${wide} ${bottom + 18}`);
      this.$(`#${list} g`).innerHTML = rows.join("") + ticks.join("") + line;
      this.$(`#title-${list}`).textContent = `${names.length} requests after ${at} of ${steps} steps`;
      this.$(`#name-${list}`).textContent = settings.policy[this.view[list]];
      const known = firsts.filter((first) => first !== null).sort((a, b) => a - b);
      const figures = {
        time: now,
        steps: at,
        tokens,
        ...(settings.slots && { "empty slot-steps": empty }),
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
