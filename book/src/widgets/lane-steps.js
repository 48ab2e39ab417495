// <lane-steps>: a row of packed words times x, in SIMD lanes: a load, eight digits, the scale, the horizontal sum.
// Data: {words, x, scale, total, added, blocks}: the words of block 0, its x in the row's order, each lane's total over
// all blocks, and the part of the biases.
"use strict";

{
  const { number } = BookWidget;
  const [WIDE, LEFT, CELL, ROW, TOP] = [360, 49, 15, 19, 18];
  const DIGITS = 8;
  const grouped = (integer) => integer.toLocaleString("en-GB");

  class LaneSteps extends BookWidget {
    constructor() {
      super();
      this.label = "Row 0 in eight lanes, step by step";
      this.view = { step: 3 };
    }

    get markup() {
      const { length } = this.data.words;
      return `${BookWidget.stepBar("Next step")}
        <svg id="lanes" viewBox="0 0 ${WIDE} ${TOP + length * ROW + 2}" role="img" aria-labelledby="lanes-title"><title id="lanes-title"></title><g></g></svg>
        <dl class="figures"></dl>
        <style>
          text { font-variant-numeric: tabular-nums; }
          .box { fill: none; stroke: var(--fg, #000); stroke-opacity: 0.65; stroke-width: 0.6; }
          .now { fill: color-mix(in srgb, var(--links, #06c) 22%, var(--bg, Canvas)); stroke: var(--links, #06c); stroke-width: 1.6; }
          .folded { fill: none; stroke: var(--links, #06c); stroke-width: 1.6; }
        </style>`;
    }

    start() {
      this.steps(1000, { step: 0 });
    }

    get last() {
      return DIGITS + 3 + Math.log2(this.data.words.length);
    }

    /** Whether there is a further step. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(this.last, this.view.step + by)) });
      return this.view.step < this.last;
    }

    get state() {
      const { step } = this.view;
      const { words, x, scale, total, added, blocks } = this.data;
      const lanes = words.length;
      const digits = Math.max(0, Math.min(DIGITS, step - 1));
      const at = step >= 2 && step < DIGITS + 2 ? step - 2 : -1; // the digit of this step
      const q = words.map((word) => Array.from({ length: DIGITS }, (_, digit) => (word >>> (4 * digit)) & 15));
      let sums = q.map((row, lane) => row.slice(0, digits).reduce((sum, each, digit) => sum + each * x[DIGITS * lane + digit], 0));
      if (step >= DIGITS + 2) sums = sums.map((sum) => sum * scale);
      if (step >= DIGITS + 3) sums = [...total];
      let held = lanes; // lanes whose sums still count
      for (let fold = step - DIGITS - 3; fold > 0; fold--) {
        held /= 2;
        sums = sums.map((sum, lane) => (lane < held ? sum + sums[lane + held] : sum));
      }
      const weights = step >= DIGITS + 3 ? blocks * lanes * DIGITS : lanes * digits;
      return { step, digits, at, q, sums, held, weights, operations: (4 * weights) / lanes, y: step === this.last ? sums[0] + added : null };
    }

    draw() {
      const { step, at, q, sums, held, weights, operations, y } = this.state;
      const { x, scale, added, blocks } = this.data;
      const lanes = q.length;
      this.dim("#back", step === 0);
      this.dim("#next", step === this.last);
      const text = (x0, y0, words, anchor = "start") => `<text x="${x0}" y="${y0}" text-anchor="${anchor}" dominant-baseline="central">${words}</text>`;
      const right = LEFT + DIGITS * CELL;
      const scaled = step >= DIGITS + 2;
      const heads = [text(0, 8, "digit"), text(right + 13, 8, at < 0 ? "" : "q", "middle"), text(WIDE - 4, 8, scaled ? "total" : "sum", "end"), text(WIDE - 67, 8, at < 0 ? "" : "x", "end")];
      for (let digit = 0; digit < DIGITS; digit++) heads.push(text(right - (digit + 0.5) * CELL, 8, digit, "middle"));
      const rows = q.map((row, lane) => {
        const top = TOP + lane * ROW;
        const base = top + (ROW - 3) / 2;
        const cells = row.map((each, digit) => {
          const left = right - (digit + 1) * CELL;
          const box = `<rect class="${digit === at || step === 1 ? "now" : "box"}" x="${left}" y="${top}" width="${CELL}" height="${ROW - 3}"/>`;
          return step && step < DIGITS + 3 ? box + text(left + CELL / 2, base, each.toString(16), "middle") : box;
        });
        const factor = at < 0 ? "" : text(right + 13, base, row[at], "middle") + text(right + 27, base, `x[${DIGITS * lane + at}]`) + text(WIDE - 67, base, number(x[DIGITS * lane + at], 3), "end");
        const fresh = step > 1 && (step <= DIGITS + 3 || lane < held);
        const sum = lane < (step > DIGITS + 3 ? 2 : 1) * held ? `<rect class="${fresh ? "now" : "box"}" x="${WIDE - 62}" y="${top}" width="61" height="${ROW - 3}"/>${text(WIDE - 5, base, number(sums[lane], 3), "end")}` : "";
        return text(0, base, `lane ${lane}`) + cells.join("") + factor + sum;
      });
      const middle = (lane) => TOP + lane * ROW + (ROW - 3) / 2;
      const folds = step > DIGITS + 3 ? Array.from({ length: held }, (_, lane) => `<path class="folded" d="M${WIDE - 62} ${middle(lane + held)}H${WIDE - 74 - 9 * lane}V${middle(lane)}H${WIDE - 62}"/>`) : [];
      this.$("#lanes g").innerHTML = [...heads, ...rows, ...folds].join("");
      this.$("#lanes-title").textContent = `Eight lanes after step ${step} of ${this.last}`;
      this.figures([
        ["weights processed", grouped(weights)],
        ["SIMD operations", grouped(operations)],
        ["one weight at a time", grouped(operations * lanes)],
      ]);
      const folded = step - DIGITS - 3;
      if (step === 0) this.say("No word is loaded, and the sums of all lanes are 0.");
      else if (step === 1) this.say("One load fills a register with eight adjacent words.");
      else if (at >= 0) this.say(`Digit ${at}: a shift, a mask, a conversion and a multiply-add, each for eight weights. Lane 0 adds ${q[0][at]} × ${number(x[at], 3)}.`);
      else if (step === DIGITS + 2) this.say(`The block is complete: a multiplication by its scale, ${number(scale, 5)}, gives what it adds to the row's total.`);
      else if (folded === 0) this.say(`The other ${blocks - 1} blocks of the row are added in the same way. Each lane has a total of ${blocks} words.`);
      else {
        const sum = `Horizontal sum, ${folded} of 3: lane${{ 4: "s 4 to 7 are added to lanes 0 to 3", 2: "s 2 and 3 are added to lanes 0 and 1", 1: " 1 is added to lane 0" }[held]}.`;
        this.say(y === null ? sum : `${sum} Adding the bias part, ${number(added, 3)}, gives y[0] = ${number(y, 3)}.`);
      }
    }
  }
  customElements.define("lane-steps", LaneSteps);
}
