// <fleet-load>: a fleet on a simulated clock, run in the page: requests per second and replicas, queue and latencies.
// Data: {jobs: [[arrival at one request per second, prompt tokens, output tokens]], cost: [base, prefilled, decoding,
// cached], slots, budget, rates: [least, most], replicas: [least, most]}. The scheduler is week 3's: `shared_prefill`,
// first come, first served; the router takes the replica with the fewest requests.
"use strict";

{
  const [WIDE, LEFT, TALL, LOW] = [360, 52, 110, 56];
  const { number } = BookWidget;
  const rank = (values, percent) => [...values].sort((a, b) => a - b)[Math.ceil((percent * values.length) / 100) - 1];

  /** The chunks of a step, as [request, tokens]: decoding requests first, then half of the rest to the oldest prompt. */
  function chunksOf(running, budget) {
    const left = (one) => one.prompt + one.output - one.computed;
    const decodes = (one) => one.output > 0 && left(one) === 1;
    const chunks = running.filter(decodes).slice(0, budget).map((one) => [one, 1]);
    const [oldest, ...others] = running.filter((one) => !decodes(one));
    let room = budget - chunks.length;
    if (!oldest || !room) return chunks;
    let free = room - Math.min(left(oldest), Math.ceil(room / 2));
    for (const one of others.sort((a, b) => left(a) - left(b))) {
      const count = Math.min(left(one), free);
      if (count) chunks.push([one, count]);
      [free, room] = [free - count, room - count];
    }
    return [...chunks, [oldest, Math.min(left(oldest), room)]];
  }

  /** Serve the jobs: each one's arrival, first and last token, how long replicas compute, and the queue over time. */
  function simulate({ jobs, cost, slots, budget }, rate, count) {
    const found = jobs.map(([at, prompt, most]) => ({ at: at / rate, prompt, most, output: 0, computed: 0 }));
    const fleet = Array.from({ length: count }, () => ({ waiting: [], running: [], end: Infinity, chunks: [] }));
    const queue = [];
    let [next, busy] = [0, 0];
    for (;;) {
      const now = Math.min(found[next]?.at ?? Infinity, ...fleet.map((one) => one.end));
      if (now === Infinity) return { found, busy, queue };
      for (const replica of fleet.filter((one) => one.end === now)) {
        for (const [one, tokens] of replica.chunks) {
          one.computed += tokens;
          if (one.computed < one.prompt + one.output) continue;
          one.output += 1;
          one.first ??= now;
          if (one.output === one.most) {
            one.end = now;
            replica.running.splice(replica.running.indexOf(one), 1);
          }
        }
        replica.end = Infinity;
      }
      for (; found[next]?.at === now; next++) {
        const load = (one) => one.waiting.length + one.running.length;
        fleet.reduce((best, one) => (load(one) < load(best) ? one : best)).waiting.push(found[next]);
      }
      for (const replica of fleet.filter((one) => one.end === Infinity && one.waiting.length + one.running.length)) {
        while (replica.waiting.length && replica.running.length < slots) replica.running.push(replica.waiting.shift());
        replica.chunks = chunksOf(replica.running, budget);
        let seconds = cost[0];
        for (const [one, tokens] of replica.chunks) {
          const decodes = tokens === 1 && one.computed >= one.prompt;
          seconds += (decodes ? cost[2] : cost[1] * tokens) + cost[3] * one.computed;
        }
        busy += seconds;
        replica.end = now + seconds;
      }
      queue.push([now, found.slice(0, next).filter((one) => one.first === undefined).length]);
    }
  }

  class FleetLoad extends BookWidget {
    constructor() {
      super();
      this.label = "A fleet on a simulated clock: load, queue and latency";
      this.view = { rate: 40, replicas: 4 };
    }

    get markup() {
      const { rates, replicas } = this.data;
      return `<div class="sliders">${BookWidget.slider("rate", "requests per second", ...rates)}${BookWidget.slider("replicas", "replicas", ...replicas)}</div>
        <svg viewBox="0 0 ${WIDE} ${TALL + LOW + 46}" role="img" aria-labelledby="drawn"><title id="drawn"></title><g></g></svg>
        <dl class="figures"></dl>
        <style>
          .one { fill: var(--links); }
          .p95 { stroke: var(--logits); stroke-width: 1.6; stroke-dasharray: 5 3; }
          .queue { fill: none; stroke: var(--second); stroke-width: 1.6; }
        </style>`;
    }

    start() {
      this.bind("rate");
      this.bind("replicas");
    }

    get state() {
      const { rate, replicas } = this.view;
      const { found, busy, queue } = simulate(this.data, rate, replicas);
      const ttft = found.map((one) => one.first - one.at);
      const latency = found.map((one) => one.end - one.at);
      const last = Math.max(...found.map((one) => one.end));
      const [t50, t95, l50, l95] = [rank(ttft, 50), rank(ttft, 95), rank(latency, 50), rank(latency, 95)];
      return { rate, replicas, t50, t95, l50, l95, last, queue, points: found.map((one, i) => [one.at, ttft[i]]),
        use: busy / (replicas * last), longest: Math.max(...queue.map(([, waiting]) => waiting)) };
    }

    draw() {
      const { rate, replicas, t50, t95, l50, l95, last, queue, points, use, longest } = this.state;
      for (const name of ["rate", "replicas"]) {
        this.$(`#${name}`).value = this.view[name];
        this.$(`#at-${name}`).textContent = this.view[name];
      }
      const most = Math.max(...points.map(([, time]) => time));
      const x = (time) => (LEFT + (time / last) * (WIDE - LEFT - 14)).toFixed(1);
      const y = (time) => (18 + TALL * (1 - time / most)).toFixed(1);
      const [top, bottom] = [TALL + 44, TALL + 44 + LOW - 16];
      const level = (count) => (bottom - (count / Math.max(1, longest)) * (bottom - top)).toFixed(1);
      const dots = points.map(([at, time]) => `<circle class="one" cx="${x(at)}" cy="${y(time)}" r="2.2"/>`);
      const steps = queue.map(([at, count], i) => `${i ? `H${x(at)}` : `M${x(at)} ${level(0)}`}V${level(count)}`);
      const ms = (seconds) => (seconds < 1 ? `${number(1000 * seconds, 0)} ms` : `${number(seconds)} s`);
      const label = (text, at, anchor = "end") => `<text x="${LEFT - 5}" y="${at}" text-anchor="${anchor}">${text}</text>`;
      this.$("svg g").innerHTML = `<text x="0" y="11">TTFT of each request, by its arrival</text>
        ${label(ms(most), 22)}${label("0", 18 + TALL + 4)}<path class="axis" d="M${LEFT} 18V${18 + TALL}H${WIDE - 14}"/>
        ${dots.join("")}<path class="p95" d="M${LEFT} ${y(t95)}H${WIDE - 14}"/><text x="${WIDE - 14}" y="${Math.max(11, y(t95) - 4)}" text-anchor="end">p95</text>
        <text x="0" y="${top - 8}">requests without a first token</text>${label(longest, top + 8)}
        <path class="queue" d="${steps.join("")}"/>${BookWidget.ticks(last, x, bottom, " s").join("")}`;
      this.$("#drawn").textContent = `${points.length} requests, ${rate} per second, on ${replicas} replicas`;
      this.figures([
        ["utilization", `${number(100 * use, 0)} %`],
        ["longest queue", longest],
        ["TTFT p50 / p95", `${ms(t50)} / ${ms(t95)}`],
        ["latency p50 / p95", `${ms(l50)} / ${ms(l95)}`],
      ]);
      this.say(`${rate} requests per second on ${replicas} replica${replicas > 1 ? "s" : ""}: p95 TTFT ${ms(t95)}, at ${number(100 * use, 0)} % utilization.`);
    }
  }
  customElements.define("fleet-load", FleetLoad);
}
