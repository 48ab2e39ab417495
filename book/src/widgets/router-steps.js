// <router-steps>: three conversations over two replicas, under both policies; a button kills a replica. The policy that is
// chosen is at the top.
// Data: {names, policies, first, more, restart, runs: [{calm: attempts, kills: [[attempts]]}]} by policy, replica killed and
// second. An attempt is [conversation, turn, replica, from, first token or -1, to, cached blocks, answered]: times are in
// quarters of a second, a prompt has `first` + turn * `more` blocks of 16 tokens.
"use strict";

{
  const [WIDE, LEFT, ROW, HEAD] = [360, 18, 30, 16];
  const { escape } = BookWidget;

  class RouterSteps extends BookWidget {
    constructor() {
      super();
      this.label = "Three conversations and two replicas, second by second";
      this.view = { policy: 0, second: 99, victim: -1, killed: 0 };
    }

    get markup() {
      const { policies, names } = this.data;
      const kill = [1, 2].map((n) => `<button type="button" id="kill-${n}">Kill replica ${n}</button>`).join("");
      return `<div class="bar">${BookWidget.list("policy", "policy", policies)}</div>
        ${BookWidget.stepBar("Next second")}
        <div class="sliders">${BookWidget.slider("second", "second", 0, 99)}</div>
        <div class="bar">${kill}<button type="button" id="undo">Undo the kill</button></div>
        <svg viewBox="0 0 ${LEFT + WIDE} ${2 * (names.length * ROW + HEAD) + 24}" role="img" aria-labelledby="turns">
          <title id="turns"></title><g></g></svg>
        <p class="legend"><span><i class="r0 p"></i> replica 1 prefills</span><span><i class="r0"></i> decodes</span><span><i class="r1 p"></i> replica 2 prefills</span><span><i class="r1"></i> decodes</span><span>┃ kill, ⊗ its requests</span></p>
        <dl class="figures"></dl>
        <style>
          .r0 { --role: var(--links, #06c); } .r1 { --role: var(--second); }
          rect { fill: var(--bg, #fff); stroke: var(--role); stroke-width: 1.4; }
          rect.p { fill: var(--role); }
          .x { fill: var(--bg, #fff); stroke: var(--fg, #000); stroke-width: 2; }
          .name { font-weight: 700; }
          .now { stroke: var(--fg, #000); stroke-dasharray: 2 2; }
          .legend i { border: 2px solid var(--role); }
          .legend .p { background: var(--role); }
        </style>`;
    }

    start() {
      this.bind("policy");
      this.$("#second").addEventListener("input", ({ target }) => this.move(Number(target.value) - this.at));
      this.steps(500, { second: 0 });
      for (const victim of [0, 1]) this.$(`#kill-${victim + 1}`).onclick = () => this.kill(victim);
      this.$("#undo").onclick = () => this.change({ victim: -1 });
      const all = this.data.runs.flatMap(({ calm, kills }) => [calm, ...kills.flat()]);
      this.longest = Math.max(...all.flat().map((attempt) => attempt[5])) / 4;
    }

    kill(victim) {
      if (this.view.victim >= 0 || this.at < 1 || this.at > this.data.runs[0].kills[0].length) return;
      this.change({ victim, killed: this.at });
    }

    get run() {
      return this.under(this.view.policy);
    }

    under(policy) {
      const { victim, killed } = this.view;
      const { calm, kills } = this.data.runs[policy];
      return victim < 0 ? calm : kills[victim][killed - 1];
    }

    get end() {
      return Math.ceil(Math.max(...[0, 1].flatMap((policy) => this.under(policy).map((attempt) => attempt[5]))) / 4);
    }

    get at() {
      return Math.min(this.view.second, this.end);
    }

    /** Whether there is a further second. */
    move(by) {
      const second = Math.max(0, Math.min(this.end, this.at + by));
      this.change({ second, victim: second < this.view.killed ? -1 : this.view.victim });
      return this.at < this.end;
    }

    get state() {
      const { run, at, end } = this;
      const { victim, killed } = this.view;
      const now = 4 * at;
      const begun = run.filter(([, , , from]) => from <= now);
      const over = begun.filter(([, , , , , to]) => to <= now);
      const blocks = ([, turn]) => this.data.first + turn * this.data.more;
      const sum = (values) => values.reduce((a, b) => a + b, 0);
      const failed = over.filter((attempt) => !attempt[7]);
      const down = victim >= 0 && at >= killed && now < 4 * killed + this.data.restart;
      return { ...this.view, at, end, down: down ? victim : -1,
        prompt: 16 * sum(begun.map(blocks)), cached: 16 * sum(begun.map((attempt) => attempt[6])),
        answered: over.length - failed.length, retried: failed.filter((attempt) => attempt[4] < 0).length,
        errors: failed.filter((attempt) => attempt[4] >= 0).length,
        running: [0, 1].map((r) => begun.filter((attempt) => attempt[2] === r && attempt[5] > now).length) };
    }

    draw() {
      const { policy, at, end, victim, killed, down, prompt, cached, answered, retried, errors, running } = this.state;
      this.$("[name=policy]").value = policy;
      this.$("#second").max = end;
      this.$("#second").value = at;
      this.$("#at-second").textContent = `${at} of ${end}`;
      this.dim("#back", at === 0);
      this.dim("#next", at === end);
      for (const n of [1, 2]) this.dim(`#kill-${n}`, victim >= 0 || at < 1 || at > this.data.runs[0].kills[0].length);
      this.dim("#undo", victim < 0);
      const x = (quarters) => LEFT + (Math.min(quarters / 4, at) / this.longest) * (WIDE - 14);
      const high = this.data.names.length * ROW + HEAD;
      const bottom = 2 * high + 8;
      const marks = victim < 0 || at < killed ? [] : [`<path class="x" d="M${x(4 * killed).toFixed(1)} 0V${bottom}"/>`];
      const bars = (other, top) => this.under(other).filter((attempt) => attempt[3] < 4 * at).map(([conversation, turn, replica, from, first, to, , whole]) => {
        const y = top + conversation * ROW;
        const box = (begin, until, kind) => until > begin && begin < 4 * at ? `<rect class="r${replica} ${kind}" x="${x(begin).toFixed(1)}" y="${y + 12}" width="${(x(until) - x(begin)).toFixed(1)}" height="11"/>` : "";
        const [cx, cy] = [x(to), y + 17.5];
        if (!whole && to <= 4 * at) marks.push(`<circle class="x" cx="${cx}" cy="${cy}" r="7"/><path class="x" d="M${cx - 3} ${cy - 3}l6 6m0-6l-6 6"/>`);
        const shown = `<text x="${(x(from) + 1).toFixed(1)}" y="${y + 8}">${replica + 1}</text>`;
        return `${shown}${box(from, first < 0 ? to : first, "p")}${first < 0 ? "" : box(first, to, "")}`;
      });
      const drawn = [policy, 1 - policy].flatMap((other, i) => [
        `<text x="0" y="${i * high + 11}" class="name">${escape(this.data.policies[other])}</text>`,
        ...this.data.names.map((name, row) => `<text x="0" y="${i * high + HEAD + row * ROW + 22}">${escape(name)}</text>`),
        ...bars(other, i * high + HEAD),
      ]);
      const scale = (time) => (LEFT + (time / this.longest) * (WIDE - 14)).toFixed(1);
      this.$("svg g").innerHTML = `${drawn.join("")}${marks.join("")}${BookWidget.ticks(this.longest, scale, bottom, " s").join("")}<path class="now" d="M${scale(at)} 0V${bottom}"/>`;
      this.$("#turns").textContent = `The turns of ${this.data.names.length} conversations after ${at} of ${end} seconds`;
      this.figures([
        ["replica 1", down === 0 ? "dead" : `${running[0]} running`],
        ["replica 2", down === 1 ? "dead" : `${running[1]} running`],
        ["answered", answered],
        ["prompt tokens", prompt],
        ["prefilled", prompt - cached],
        ["retried", retried],
        ["error events", errors],
      ]);
      const rest = `${prompt - cached} of ${prompt} prompt tokens were prefilled.`;
      if (victim >= 0) this.say(`Replica ${victim + 1} was killed after ${killed} s: ${retried} retried, ${errors} ended with an error event. ${rest}`);
      else this.say(`After ${at} of ${end} s, ${answered} turns are answered. ${rest}`);
    }
  }
  customElements.define("router-steps", RouterSteps);
}
