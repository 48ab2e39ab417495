// <ring-steps>: chunks of four ranks travel around a ring, or wait forever, because all ranks call in the same order.
// Data: {start: [[value]] by rank and chunk, orders: [{name, stuck?: [what each rank waits for]}],
// steps: [{moves: [[from, to, chunk, value]], have: [[value]]}]}: what the solution has sent on simulated ranks.
"use strict";

{
  const { escape } = BookWidget;

  class RingSteps extends BookWidget {
    constructor() {
      super();
      this.label = "A reduce-scatter, then an all-gather, of four ranks on a ring";
      this.view = { order: 0, step: 1 };
    }

    get markup() {
      const { list, stepBar } = BookWidget;
      const { start, orders } = this.data;
      const head = start[0].map((_, chunk) => `<th scope="col">chunk ${chunk}</th>`).join("");
      return `<div class="bar">${list("order", "Order", orders.map(({ name }) => name))}</div>
        ${stepBar("Next step")}
        <p id="what"></p>
        <div class="scroll cells"><table><thead><tr><td></td>${head}</tr></thead><tbody></tbody></table></div>
        <p class="legend"><span><i class="sent"></i> sent in this step</span><span><i class="new"></i> changed in this step</span>
          <span><i class="whole"></i> complete sum</span></p><ul></ul>
        <style>
          tbody td { border-width: 2px; }
          :is(td, i).sent { border-style: dashed; border-color: var(--fg, CanvasText); }
          :is(td, i).new { border-color: var(--links); box-shadow: inset 0 0 0 1px var(--links); font-weight: 700; }
          :is(td, i).whole { background: color-mix(in srgb, var(--links) 18%, transparent); }
          #what { font-weight: 700; margin: 0.4em 0; }
          ul { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 18em), 1fr)); list-style: none; margin: 0.5em 0 0;
            padding: 0; min-height: 3.2em; }
          li { font-family: var(--mono-font, monospace); font-size: 0.9em; margin: 0.1em 0; }
          @container (max-width: 268px) { .cells td { min-width: 0; } .cells th { padding-inline: 0; font-size: 0.78em; } }
        </style>`;
    }

    start() {
      const select = this.$("[name=order]");
      select.addEventListener("input", () => this.change({ order: Number(select.value), step: 0 }));
      this.steps(1200, { step: 0 });
    }

    get state() {
      const { start, orders, steps } = this.data;
      const order = Math.min(this.view.order, orders.length - 1);
      const stuck = orders[order].stuck ?? null;
      const last = stuck ? 1 : steps.length;
      const step = Math.min(this.view.step, last);
      const moved = step && !stuck ? steps[step - 1] : { moves: [], have: start };
      return { order, step, last, stuck: step ? stuck : null, ...moved, done: step === last };
    }

    /** Whether there is a further step. */
    move(by) {
      const { step, last } = this.state;
      this.change({ step: Math.max(0, Math.min(last, step + by)) });
      return !this.state.done;
    }

    draw() {
      const { order, step, stuck, moves, have, done } = this.state;
      const half = this.data.steps.length / 2;
      const whole = this.data.steps.at(-1).have[0];
      this.$("[name=order]").value = order;
      this.dim("#back", step === 0);
      this.dim("#next", done);
      const phase = step <= half ? `Reduce-scatter, step ${step} of ${half}` : `All-gather, step ${step - half} of ${half}`;
      this.$("#what").textContent = stuck ? "Deadlock: no rank can continue" : step ? phase : "Each rank has its own numbers";
      const kind = (rank, chunk) => {
        const is = [];
        if (moves.some(([, to, of]) => to === rank && of === chunk)) is.push("new");
        if (moves.some(([from, , of]) => from === rank && of === chunk)) is.push("sent");
        if (have[rank][chunk] === whole[chunk]) is.push("whole");
        return is.join(" ");
      };
      this.$("tbody").innerHTML = have
        .map((row, rank) => {
          const cells = row.map((value, chunk) => `<td class="${kind(rank, chunk)}">${value}</td>`).join("");
          return `<tr><th scope="row">rank ${rank}</th>${cells}</tr>`;
        })
        .join("");
      const lines = stuck ?? moves.map(([from, to, chunk, value]) => `rank ${from} → rank ${to}: chunk ${chunk}, ${value}`);
      this.$("ul").innerHTML = lines.map((line) => `<li>${escape(line)}</li>`).join("");
      if (stuck) this.say("Every rank waits for another one.");
      else if (!step) this.say("Nothing has been sent.");
      else if (step === half) this.say("Each rank has the complete sum of one chunk.");
      else if (done) this.say("Every rank has the complete sum.");
      else this.say("Each rank sends one chunk and receives one: first the even ranks send, then the odd ones.");
    }
  }
  customElements.define("ring-steps", RingSteps);
}
