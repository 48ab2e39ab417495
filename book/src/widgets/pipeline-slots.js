// <pipeline-slots>: the passes of a training step over stages, one unit of time after another, in the order of 1F1B or
// GPipe; the order that is chosen is at the top. A forward pass takes 1 unit, a backward pass 2. Data: {orders: [names], stages, micro: the largest}.
"use strict";

{
  const [WIDE, LEFT, ROW, HEAD] = [360, 46, 26, 19];
  const { number } = BookWidget;

  class PipelineSlots extends BookWidget {
    constructor() {
      super();
      this.label = "A training step over pipeline stages, one unit of time after another";
      this.view = { order: 0, stages: 3, micro: 4, time: 99 };
    }

    get markup() {
      const { orders, stages, micro } = this.data;
      return `<div class="bar">${BookWidget.list("order", "order", orders)}</div>
        ${BookWidget.stepBar("Next unit")}
        <div class="sliders">${BookWidget.slider("stages", "stages P", 1, stages)}
          ${BookWidget.slider("micro", "micro-batches M", 1, micro)}${BookWidget.slider("time", "time", 0, 100)}</div>
        <svg viewBox="0 0 ${WIDE} ${ROW}" role="img" aria-labelledby="passes">
          <title id="passes"></title><g></g></svg>
        <p class="legend"><span><i class="f"></i> F: forward</span><span><i class="b"></i> B: backward</span><span>right: micro-batches held now</span></p>
        <dl class="figures"></dl>
        <style>
          .f, .b { fill: none; stroke: var(--pass); stroke-width: 1.2; border: 1px solid var(--pass); box-sizing: border-box; }
          .f { --pass: var(--links); }
          .b { --pass: var(--second); border-bottom-width: 4px; }
          .name { font-weight: 700; }
          rect.below { fill: var(--second); }
          .now { stroke: var(--fg, #000); stroke-dasharray: 2 2; }
        </style>`;
    }

    start() {
      for (const name of ["order", "stages", "micro", "time"]) this.bind(name);
      this.steps(600, { time: 0 });
    }

    /** Whether there is a further unit. */
    move(by) {
      const { end } = this.state;
      this.change({ time: Math.max(0, Math.min(end, this.at(end) + by)) });
      return this.at(end) < end;
    }

    at(end) {
      return Math.min(this.view.time, end);
    }

    /** A stage's passes, [forward, micro-batch]: a forward pass while the stage may hold another micro-batch. */
    passes(stage, order) {
      const { stages, micro } = this.view;
      const most = order === 0 ? stages - stage : micro;
      const found = [];
      for (let f = 0, b = 0; b < micro; ) found.push(f < micro && f - b < most ? [true, f++] : [false, b++]);
      return found;
    }

    /** When each pass runs: once its stage is free and its input is there. */
    slots(chosen) {
      const { stages } = this.view;
      const orders = Array.from({ length: stages }, (_, stage) => this.passes(stage, chosen));
      const slots = orders.map(() => []);
      const ends = new Map();
      for (let moved = true; moved; ) {
        moved = false;
        orders.forEach((order, stage) => {
          while (slots[stage].length < order.length) {
            const [forward, m] = order[slots[stage].length];
            const last = stage === stages - 1;
            const needed = forward ? (stage ? `${stage - 1} true ${m}` : "") : last ? `${stage} true ${m}` : `${stage + 1} false ${m}`;
            if (needed && !ends.has(needed)) return;
            const start = Math.max(slots[stage].at(-1)?.end ?? 0, needed ? ends.get(needed) : 0);
            const end = start + (forward ? 1 : 2);
            ends.set(`${stage} ${forward} ${m}`, end);
            slots[stage].push({ forward, m, start, end });
            moved = true;
          }
        });
      }
      return slots;
    }

    get state() {
      return this.measures(this.view.order);
    }

    measures(order) {
      const slots = this.slots(order);
      const end = Math.max(...slots.map((row) => row.at(-1).end));
      const at = this.at(end);
      // Held from the beginning of the forward pass to the end of the backward pass.
      const holds = (row, time) => row.filter((slot) => slot.forward && slot.start < time).length - row.filter((slot) => !slot.forward && slot.end <= time).length;
      const held = slots.map((row) => holds(row, at));
      const most = slots.map((row) => Math.max(...row.map((slot) => holds(row, slot.start + 0.5))));
      const busy = slots.flat().reduce((sum, slot) => sum + slot.end - slot.start, 0);
      const idle = slots.map((row) => Math.max(0, at - row.reduce((sum, slot) => sum + Math.max(0, Math.min(at, slot.end) - slot.start), 0)));
      return { ...this.view, slots, at, end, held, most, idle, bubble: 1 - busy / (end * slots.length) };
    }

    draw() {
      const { at, end, held, most, idle, bubble, stages, micro, order } = this.state;
      this.$("[name=order]").value = order;
      for (const [name, value] of Object.entries({ stages, micro })) {
        this.$(`#${name}`).value = value;
        this.$(`#at-${name}`).textContent = value;
      }
      this.$("#time").max = end;
      this.$("#time").value = at;
      this.$("#at-time").textContent = `${at} of ${end}`;
      this.dim("#back", at === 0);
      this.dim("#next", at === end);
      const unit = (WIDE - LEFT - 16) / end;
      const scale = this.$("svg").getBoundingClientRect().width / WIDE || 1;
      const letter = (0.62 * Math.min(Math.max(11, 11 * scale), 13.5)) / scale; // as wide as `BookWidget.style` draws it
      const x = (time) => (LEFT + time * unit).toFixed(1);
      const high = stages * ROW + HEAD;
      const drawn = ({ slots, held }, top) => slots.map((row, stage) => {
        const y = top + stage * ROW;
        const boxes = row.filter((slot) => slot.start < at).map((slot) => {
          const end = Math.min(at, slot.end);
          const width = ((end - slot.start) * unit - 1).toFixed(1);
          const box = `<rect class="${slot.forward ? "f" : "b"}" x="${x(slot.start)}" y="${y + 1}" width="${width}" height="${ROW - 6}"/>`;
          const bar = slot.forward ? "" : `<rect class="below" x="${x(slot.start)}" y="${y + ROW - 9}" width="${width}" height="4"/>`;
          const name = [`${slot.forward ? "F" : "B"}${slot.m}`, `${slot.m}`].find((text) => width > letter * text.length);
          const named = name ? `<text x="${x((slot.start + end) / 2)}" y="${y + 14}" text-anchor="middle">${name}</text>` : "";
          return box + bar + named;
        });
        return `<text x="0" y="${y + 15}">stage ${stage}</text>${boxes.join("")}<text x="${WIDE}" y="${y + 15}" text-anchor="end">${held[stage]}</text>`;
      });
      const orders = [order, ...this.data.orders.keys()].filter((each, i) => !i || each !== order);
      const rows = orders.map((each, i) => `<text x="0" y="${i * high + 11}" class="name">${this.data.orders[each]}</text>
        ${drawn(this.measures(each), i * high + HEAD).join("")}`);
      const bottom = orders.length * high;
      const ticks = BookWidget.ticks(end, x, bottom);
      this.$("svg").setAttribute("viewBox", `0 0 ${WIDE} ${bottom + 20}`);
      this.$("svg g").innerHTML = `${rows.join("")}${ticks.join("")}<path class="now" d="M${x(at)} 0V${bottom}"/>`;
      this.$("#passes").textContent = `${stages} stages, ${micro} micro-batches, ${orders.map((each) => this.data.orders[each]).join(" and ")}, after ${at} of ${end} units`;
      this.figures([
        ["step", `${end} units`],
        ["bubble", `${number(100 * bubble, 1)} %`],
        ["idle so far, by stage", idle.join(" ")],
        ["held at most, by stage", most.join(" ")],
      ]);
      this.say(
        at === end
          ? `${this.data.orders[order]}: stage 0 holds at most ${most[0]} of ${micro} micro-batches, and ${number(100 * bubble, 1)} % of the time is bubble.`
          : `After ${at} units, the stages hold ${held.join(", ")} micro-batches.`,
      );
    }
  }
  customElements.define("pipeline-slots", PipelineSlots);
}
