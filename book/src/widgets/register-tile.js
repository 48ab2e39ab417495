// <register-tile>: the tile of the quantized matmul, input by input: what is loaded, and what stays in registers.
// Data: {x: tokens x inputs, panel: inputs x rows of W, of, kinds: {processor: {lanes, registers, tile}}}: the inputs are
// the first of `of`, and `tile` is the number of tokens for which the solution's kernel is compiled.
"use strict";

{
  const [CELL, LINE] = [9, 16]; // pixels; floats in a cache line
  const { number } = BookWidget;
  const many = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

  class RegisterTile extends BookWidget {
    constructor() {
      super();
      this.label = "A register tile, input by input";
      this.view = { kind: 0, tokens: 6, registers: 2, step: 1 };
    }

    get markup() {
      const { list, slider } = BookWidget;
      const [tokens, inputs, rows] = [this.data.x.length, this.data.panel.length, this.data.panel[0].length];
      const [left, top] = [inputs * CELL + 16, inputs * CELL + 34];
      Object.assign(this, { left, top });
      return `<div class="bar">${list("kind", "Registers", Object.keys(this.data.kinds))}</div>
        <div class="sliders">${slider("tokens", "tokens per tile", 1, tokens)}${slider("registers", "registers of rows per tile", 1, 2)}</div>
        ${BookWidget.stepBar("Next input")}
        <div class="scroll" tabindex="0" role="group" aria-label="The tile"><svg id="tile" viewBox="0 0 ${left + rows * CELL + 2} ${top + tokens * CELL + 2}" role="img" aria-labelledby="tile-title">
          <title id="tile-title"></title>
          <text x="${left}" y="10">panel: ${inputs} of ${this.data.of} inputs by ${rows} rows of W</text>
          <text x="1" y="${top - 6}">x, by token</text><text x="${left}" y="${top - 6}" id="name"></text><g></g></svg></div>
        <p class="legend"><span><i class="loaded"></i> loaded now</span><span><i class="line"></i> cache lines touched</span><span><i class="kept"></i> a register of sums</span><span><i class="spilled"></i> without a register</span></p>
        <div class="scroll" tabindex="0" role="group" aria-label="Loads and multiply-adds">
          <table><thead><tr><td></td><th scope="col">loads: panel + x</th><th scope="col">multiply-adds</th><th scope="col">loads each</th></tr></thead><tbody></tbody></table></div>
        <style>
          #tile { min-width: 32em; margin-bottom: 0.4em; }
          .x { --role: var(--query); } .w { --role: var(--key); } .y { --role: var(--value); }
          .loaded, .kept, .spilled, .all { fill: none; stroke: var(--fg, #000); }
          .loaded { stroke-width: 2; } .kept, .spilled { stroke-width: 0.6; } .all { stroke-width: 0.4; }
          .spilled { stroke-width: 1.2; stroke-dasharray: 2 2; }
          .line { fill: var(--line); fill-opacity: 0.6; }
          .legend .loaded { border-width: 2px; } .legend .spilled { border-style: dashed; }
          .legend .line { border: 0; background: var(--line); }
        </style>`;
    }

    start() {
      for (const name of ["kind", "tokens", "registers"]) this.bind(name);
      this.$("[name=kind]").addEventListener("input", () => this.change({ tokens: this.kind.tile, registers: 2 }));
      this.steps(800, { step: 0 });
    }

    /** Whether there is a further input. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(this.data.panel.length, this.view.step + by)) });
      return this.view.step < this.data.panel.length;
    }

    get kind() {
      return Object.values(this.data.kinds)[this.view.kind];
    }

    /** What a tile of so many tokens does in so many inputs: an instruction loads or multiplies a whole register. */
    counts(tokens, inputs) {
      const { registers } = this.view;
      return { panel: registers * inputs, x: tokens * inputs, products: tokens * registers * inputs };
    }

    /** All tiles of the product, the last tokens in a smaller one. */
    get whole() {
      const { tokens, registers } = this.view;
      const [all, inputs] = [this.data.x.length, this.data.panel.length];
      const panels = Math.ceil(this.data.panel[0].length / (registers * this.kind.lanes));
      const sum = { panel: 0, x: 0, products: 0 };
      for (let first = 0; first < all; first += tokens) {
        const one = this.counts(Math.min(tokens, all - first), inputs);
        for (const name of Object.keys(sum)) sum[name] += panels * one[name];
      }
      return sum;
    }

    get state() {
      const { tokens, registers, step } = this.view;
      const { lanes, registers: limit } = this.kind;
      const width = registers * lanes;
      const used = tokens * registers + registers + 1;
      const sums = this.data.x.slice(0, tokens).map((row) =>
        this.data.panel[0].slice(0, width).map((_, o) => row.slice(0, step).reduce((sum, value, i) => sum + value * this.data.panel[i][o], 0)),
      );
      const lines = (inputs) => Math.ceil((inputs * width) / LINE); // the panel has no gaps
      const fresh = step && { panel: lines(step) - lines(step - 1), x: step % LINE === 1 ? tokens : 0 };
      return { ...this.view, width, used, limit, spilled: Math.max(0, used - limit), sums, fresh,
        lines: { panel: lines(step), x: step && tokens * Math.ceil(step / LINE) },
        now: this.counts(tokens, step && 1), sofar: this.counts(tokens, step), whole: this.whole };
    }

    draw() {
      const { kind, tokens, registers, step, width, used, limit, spilled, sums, lines, fresh, now, sofar, whole } = this.state;
      const { x, panel } = this.data;
      const { left, top } = this;
      const { lanes } = this.kind;
      const [at, inputs, rows] = [step - 1, panel.length, panel[0].length];
      this.$("[name=kind]").value = kind;
      for (const [name, value] of Object.entries({ tokens, registers })) {
        this.$(`#${name}`).value = value;
        this.$(`#at-${name}`).textContent = value;
      }
      this.dim("#back", step === 0);
      this.dim("#next", step === inputs);
      const box = (name, column, row, wide, high, [x0, y0]) =>
        `<rect class="${name}" x="${x0 + column * CELL}" y="${y0 + row * CELL}" width="${wide * CELL}" height="${high * CELL}"/>`;
      const largest = (values) => Math.max(...values.flat().map(Math.abs)) || 1;
      const squares = (values, role, most, [x0, y0]) =>
        `<g class="${role}">${values.map((row, i) => row.map((value, j) => {
          if (!value) return "";
          const side = Math.max(1.5, (CELL - 1.5) * Math.sqrt(Math.min(1, Math.abs(value) / most)));
          const [cx, cy] = [x0 + (j + 0.5) * CELL - side / 2, y0 + (i + 0.5) * CELL - side / 2].map((p) => p.toFixed(1));
          return `<rect x="${cx}" y="${cy}" width="${side.toFixed(1)}" height="${side.toFixed(1)}" class="${value > 0 ? "fill" : "hollow"}"/>`;
        }).join("")).join("")}</g>`;
      const [A, B, C] = [[1, top], [left, 16], [left, top]];
      const touched = Math.min(inputs, (lines.panel * LINE) / width);
      const drawn = [
        step ? box("line", 0, 0, inputs, tokens, A) + box("line", 0, 0, width, touched, B) : "",
        box("all", 0, 0, inputs, x.length, A), box("all", 0, 0, rows, inputs, B), box("all", 0, 0, rows, x.length, C),
        squares(x, "x", largest(x), A), squares(panel, "w", largest(panel), B), squares(sums, "y", largest(sums), C),
      ];
      for (let i = 0; i < tokens * registers; i++) {
        const lost = i >= tokens * registers - spilled;
        drawn.push(box(lost ? "spilled" : "kept", (i % registers) * lanes, Math.floor(i / registers), lanes, 1, C));
      }
      if (step) {
        drawn.push(box("loaded", at, 0, 1, tokens, A));
        for (let r = 0; r < registers; r++) drawn.push(box("loaded", r * lanes, at, lanes, 1, B));
      }
      this.$("#tile g").innerHTML = drawn.join("");
      this.$("#name").textContent = `sums of the tile: ${tokens} × ${width}`;
      this.$("#tile-title").textContent = `A tile of ${many(tokens, "token")} and ${width} rows after ${step} of ${inputs} inputs`;
      const row = (name, { panel, x, products }) =>
        `<tr><th scope="row">${name}</th><td>${panel} + ${x}</td><td>${products}</td><td>${products ? number((panel + x) / products) : ""}</td></tr>`;
      this.$("tbody").innerHTML = row("this input", now) + row(many(step, "input"), sofar) + row(`${x.length} × ${rows}`, whole);
      const room = `Registers: ${tokens * registers} for sums, ${registers} for the panel and 1 for x make ${used} of ${limit}.`;
      const full = spilled
        ? ` That is ${spilled} too many: the compiler keeps at least ${many(spilled, "register")} in memory, which adds loads and stores that are not counted here.`
        : "";
      const step_said = step
        ? `Input ${at}: ${many(now.panel + now.x, "load")} feed ${many(now.products, "multiply-add")} of ${lanes} lanes, and touch ${many(fresh.panel + fresh.x, "new cache line")}.`
        : "No input has been processed: all sums are 0.";
      this.say(`${step_said} ${room}${full}`);
    }
  }
  customElements.define("register-tile", RegisterTile);
}
