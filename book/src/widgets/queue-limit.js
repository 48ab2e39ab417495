// <queue-limit>: clients of a server whose queue has a limit, recorded in virtual time; a rejected one returns later.
// Data: {first, slots, settings: {name: [values]}, runs: [[[{tries: [[time, Retry-After]], admitted, tokens: [times]}]]]}
// by the numbers of both settings, the arrivals first: client i arrives at `first` + i times the seconds between two.
"use strict";

{
  const [WIDE, LEFT, ROW] = [360, 22, 13];
  const { number } = BookWidget;
  const middle = (sorted) => (sorted.length ? sorted[Math.floor((sorted.length - 1) / 2)] : 0);

  class QueueLimit extends BookWidget {
    constructor() {
      super();
      this.label = "Clients of a server with a limited queue, second by second";
      this.view = { arrivals: 0, limit: 2, second: 18 };
    }

    get markup() {
      const [[arrivals, seconds], [limit, limits]] = Object.entries(this.data.settings);
      const every = BookWidget.list("arrivals", arrivals, seconds.map((s) => `${s} s`));
      const rows = this.data.runs[0][0].length;
      return `<div class="bar">${every}${BookWidget.list("limit", limit, limits)}</div>
        ${BookWidget.stepBar("Next second")}
        <div class="sliders">${BookWidget.slider("second", "time", 0, 100)}</div>
        <svg viewBox="0 0 ${LEFT + WIDE} ${rows * ROW + 18}" role="img" aria-labelledby="clients">
          <title id="clients"></title><g></g></svg>
        <p class="legend"><span>✕ is rejected</span><span><i class="away"></i> waits outside</span><span><i class="w"></i> queued</span><span><i class="p"></i> runs</span></p>
        <dl class="figures"></dl>
        <style>
          .p { fill: var(--links); background: var(--links); }
          .w { fill: none; stroke: var(--second); background: var(--bg, #fff); }
          .x { stroke: var(--logits); stroke-width: 1.6; }
          .away { stroke: var(--fg); stroke-opacity: 0.75; stroke-dasharray: 1.5 2.5; }
          .now { stroke: var(--fg, #000); stroke-dasharray: 2 2; }
          .legend .w { border: 1px solid var(--second); }
          .legend .away { height: 0; border-top: 2px dotted currentColor; vertical-align: 0.25em; }
        </style>`;
    }

    start() {
      for (const name of ["arrivals", "limit", "second"]) this.bind(name);
      this.steps(400, { second: 0 });
      this.longest = Math.max(...this.data.runs.flat().map((run) => this.end(run)));
    }

    /** Whether there is a further second. */
    move(by) {
      this.change({ second: Math.max(0, Math.min(this.end(this.run), this.at + by)) });
      return this.at < this.end(this.run);
    }

    get run() {
      return this.data.runs[this.view.arrivals][this.view.limit];
    }

    /** The full second at which the run ends: all clients have all their tokens. */
    end(run) {
      return Math.ceil(Math.max(...run.map((client) => client.tokens.at(-1))));
    }

    get at() {
      return Math.min(this.view.second, this.end(this.run));
    }

    arrives(client) {
      return this.data.first + client * Object.values(this.data.settings)[0][this.view.arrivals];
    }

    /** A step takes a second, and the first one yields a token, so a client runs from a second before its first token. */
    get state() {
      const { run, at } = this;
      const inside = run.map(({ admitted, tokens }) => admitted <= at && tokens.at(-1) > at);
      const runs = run.map(({ tokens }, i) => inside[i] && tokens[0] - 1 <= at);
      const begun = run.flatMap(({ tokens }, i) => (tokens[0] <= at ? [i] : []));
      const sorted = (values) => values.map((x) => Math.round(10 * x) / 10).sort((a, b) => a - b);
      const rejections = run.flatMap(({ tries }, i) => tries.filter(([time]) => time <= at).map(([time, after]) => [time, i + 1, after]));
      return { ...this.view, at, end: this.end(run), running: runs.filter(Boolean).length, queued: inside.filter((yes, i) => yes && !runs[i]).length,
        outside: run.filter(({ admitted }, i) => this.arrives(i) <= at && admitted > at).length,
        served: run.filter(({ tokens }) => tokens.at(-1) <= at).length, rejections: rejections.sort((a, b) => a[0] - b[0]),
        ttft: sorted(begun.map((i) => run[i].tokens[0] - run[i].admitted)), waits: sorted(begun.map((i) => run[i].tokens[0] - this.arrives(i))) };
    }

    draw() {
      const { at, end, running, queued, outside, served, rejections, ttft, waits } = this.state;
      for (const name of ["arrivals", "limit"]) this.$(`[name=${name}]`).value = this.view[name];
      this.$("#second").max = end;
      this.$("#second").value = at;
      this.$("#at-second").textContent = `${at} of ${end} s`;
      this.dim("#back", at === 0);
      this.dim("#next", at === end);
      const x = (time, most = at) => (LEFT + (Math.min(time, most) / this.longest) * (WIDE - 14)).toFixed(1);
      const bottom = this.run.length * ROW + 4;
      const ticks = BookWidget.ticks(this.longest, (time) => x(time, this.longest), bottom, " s");
      const rows = this.run.map(({ tries, admitted, tokens }, i) => {
        const y = i * ROW + 8;
        const box = (from, to, kind, half) => from < at ? `<rect class="${kind}" x="${x(from)}" y="${y - half}" width="${Math.max(0, x(to) - x(from)).toFixed(1)}" height="${2 * half}"/>` : "";
        const crosses = tries.filter(([time]) => time <= at).map(([time]) => `<path class="x" d="M${x(time) - 2.5} ${y - 2.5}l5 5m0-5l-5 5"/>`);
        const away = this.arrives(i) < at && tries.length ? `<path class="away" d="M${x(this.arrives(i))} ${y}H${x(admitted)}"/>` : "";
        return `<text x="0" y="${y + 3}">${i + 1}</text>${away}${box(admitted, tokens[0] - 1, "w", 2.5)}${box(tokens[0] - 1, tokens.at(-1), "p", 4.5)}${crosses.join("")}`;
      });
      this.$("svg g").innerHTML = `${rows.join("")}${ticks.join("")}<path class="now" d="M${x(at)} 0V${bottom}"/>`;
      this.$("#clients").textContent = `${rows.length} clients after ${at} of ${end} seconds`;
      const seconds = (values) => `${number(middle(values), 1)} / ${number(values.at(-1) ?? 0, 1)} s`;
      this.figures([
        ["running", running],
        ["queued", queued],
        ["waiting outside", outside],
        ["served", served],
        ["rejections", rejections.length],
        ["TTFT, median / max", seconds(ttft)],
        ["since the first attempt", seconds(waits)],
      ]);
      const last = rejections.at(-1);
      this.say(
        at === end
          ? `All clients are served after ${end} s and ${rejections.length} rejections.`
          : last
            ? `The last rejection: client ${last[1]} at ${number(last[0], 1)} s, with “Retry-After: ${last[2]}”.`
            : `After ${at} s, no client has been rejected.`,
      );
    }
  }
  customElements.define("queue-limit", QueueLimit);
}
