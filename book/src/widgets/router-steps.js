// <router-steps>: three conversations over two replicas, under both policies; a button kills a replica. The policy that is
// chosen is at the top. Requests that run at once have lanes of their replica: as many as its load.
// Data: {names, policies, first, more, restart, runs: [{calm: attempts, kills: [[attempts]]}]} by policy, replica killed and
// second. An attempt is [conversation, turn, replica, from, first token or -1, to, cached blocks, answered]: times are in
// quarters of a second, a prompt has `first` + turn * `more` blocks of 16 tokens.
"use strict";

{
  const [WIDE, LEFT, ROW, HEAD, GAP] = [320, 58, 16, 16, 5];
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
        <svg viewBox="0 0 ${LEFT + WIDE} ${2 * this.high(names.length) + 24}" role="img" aria-labelledby="turns">
          <title id="turns"></title><defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V6"/></pattern></defs><g></g></svg>
        <p class="legend">${[...names].map((name, i) => `<span><i class="r${i} p"></i> ${escape(name)} prefills</span><span><i class="r${i}"></i> decodes</span>`).join("")}<span><i class="dead"></i> dead</span><span>⊗ ended by the kill</span></p>
        <dl class="figures"></dl>
        <style>
          .r0 { --role: var(--links, #06c); } .r1 { --role: var(--second); } .r2 { --role: var(--third); }
          rect { fill: var(--bg, #fff); stroke: var(--role); stroke-width: 1.4; }
          rect.p { fill: var(--role); }
          .x { fill: var(--bg, #fff); stroke: var(--fg, #000); stroke-width: 2; }
          .name { font-weight: 700; }
          .turn { dominant-baseline: central; }
          .inside { text-anchor: middle; }
          #hatch path { stroke: var(--fg, #000); opacity: 0.55; }
          rect.dead { fill: url(#hatch); stroke: none; }
          rect.ground { stroke: none; }
          i.dead { border: 0; background: repeating-linear-gradient(45deg, transparent 0 3px, var(--line) 3px 5px); }
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

    /** The height of one policy: two replicas with a lane for each user. */
    high(users) {
      return HEAD + 2 * (users * ROW + GAP);
    }

    /** Each attempt with its lane on its replica: the lowest that is free when it begins. */
    static lanes(attempts) {
      const placed = [];
      for (const attempt of attempts) {
        const [, , replica, from] = attempt;
        const taken = placed.filter(([other]) => other[2] === replica && other[5] > from).map(([, lane]) => lane);
        placed.push([attempt, [0, 1, 2].find((lane) => !taken.includes(lane))]);
      }
      return placed;
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
      const users = this.data.names.length;
      const high = this.high(users);
      const bottom = 2 * high;
      const top = (i, replica) => i * high + HEAD + replica * (users * ROW + GAP);
      const shown = victim >= 0 && at >= killed;
      const marks = [];
      const blocks = (other, i) => RouterSteps.lanes(this.under(other)).filter(([attempt]) => attempt[3] < 4 * at).map(([[user, turn, replica, from, first, to, , whole], lane]) => {
        const y = top(i, replica) + lane * ROW;
        const box = (begin, until, kind) => until > begin && begin < 4 * at ? `<rect class="r${user} ${kind}" x="${x(begin).toFixed(1)}" y="${y + 1}" width="${(x(until) - x(begin)).toFixed(1)}" height="${ROW - 3}"/>` : "";
        const ended = !whole && to <= 4 * at;
        if (ended) marks.push(`<circle class="x" cx="${x(to)}" cy="${y + 7.5}" r="6"/><path class="x" d="M${x(to) - 2.5} ${y + 5}l5 5m0-5l-5 5"/>`);
        const [begin, until] = [x(first < 0 ? to : first), x(to)];
        const inside = until - begin > 17;
        const ground = ended ? `<rect class="ground" x="${until.toFixed(1)}" y="${y + 1}" width="26" height="${ROW - 3}"/>` : "";
        const name = `${ground}<text class="turn${inside ? " inside" : ""}" x="${(inside ? (begin + until) / 2 : until + (ended ? 8 : 2)).toFixed(1)}" y="${y + 7.5}">${escape(this.data.names[user])}${turn + 1}</text>`;
        return `${box(from, first < 0 ? to : first, "p")}${first < 0 ? "" : box(first, to, "")}${name}`;
      });
      const drawn = [policy, 1 - policy].flatMap((other, i) => [
        `<text x="0" y="${i * high + 11}" class="name">${escape(this.data.policies[other])}</text>`,
        ...[0, 1].map((replica) => `<text x="${LEFT - 6}" y="${top(i, replica) + (users * ROW) / 2 + 4}" text-anchor="end">replica ${replica + 1}</text><path class="axis" d="M${LEFT} ${top(i, replica) + users * ROW + 1}H${LEFT + WIDE}"/>`),
        shown ? `<rect class="dead" x="${x(4 * killed).toFixed(1)}" y="${top(i, victim)}" width="${(x(4 * killed + this.data.restart) - x(4 * killed)).toFixed(1)}" height="${users * ROW}"/>` : "",
        ...blocks(other, i),
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
