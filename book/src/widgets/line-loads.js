// <line-loads>: the cache lines that the threads of a SIMD-group touch, load by load.
// Data: {threads, line}: how many threads, and how many elements of 4 bytes a cache line has.
"use strict";

{
  const [CELL, LEFT] = [16, 46];
  const span = (count) => Array.from({ length: count }, (_, i) => i);
  const many = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

  class LineLoads extends BookWidget {
    constructor() {
      super();
      this.label = "Cache lines of a SIMD-group, load by load";
      this.view = { kind: 0, each: 4, first: 0, thread: 1, step: 1 };
    }

    get markup() {
      const { list, slider } = BookWidget;
      const { threads, line } = this.data;
      const kinds = [`element ${threads}i + t`, "element n · t + i"];
      return `<div class="bar">${list("kind", "Load i of thread t", kinds)}</div>
        <div class="sliders">${slider("each", "n, loads per thread", 1, 8)}${slider("first", "first element", 0, line - 1)}${slider("thread", "follow thread", 0, threads - 1)}</div>
        ${BookWidget.stepBar("Next load")}
        <div class="beside"><svg id="memory" role="img"></svg>
        <div><p class="legend"><span><i class="now"></i> loaded now</span><span><i class="seen"></i> loaded before</span>
          <span><i class="touched"></i> a line touched now</span><span><i class="own"></i> the thread's element</span></p>
        <dl class="figures"></dl></div></div>
        <style>
          .now { --role: var(--stream); fill: var(--role); background: var(--stream); }
          .seen { fill: var(--bg, #fff); stroke: var(--stream); }
          .touched { fill: color-mix(in srgb, var(--links) 14%, var(--bg, #fff)); stroke: var(--links); stroke-width: 1.6; background: color-mix(in srgb, var(--links) 14%, var(--bg, #fff)); }
          .own { fill: none; stroke: var(--logits); stroke-width: 2.5; }
          .legend .seen { border-color: var(--stream); } .legend .touched { border: 2px solid var(--links); } .legend .own { border: 3px solid var(--logits); }
        </style>`;
    }

    start() {
      for (const name of ["kind", "each", "first", "thread"]) this.bind(name);
      this.steps(900, { step: 0 });
    }

    /** Whether there is a further load. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(this.view.each, this.at + by)) });
      return this.at < this.view.each;
    }

    get at() {
      return Math.min(this.view.step, this.view.each);
    }

    /** The element that each thread gets from a load. */
    elements(load) {
      const { kind, each, first } = this.view;
      return span(this.data.threads).map((t) => first + (kind ? each * t + load : this.data.threads * load + t));
    }

    get state() {
      const { threads, line } = this.data;
      const fetched = Array(Math.ceil((this.view.first + threads * this.view.each) / line)).fill(0);
      const touched = (load) => [...new Set(this.elements(load).map((element) => Math.floor(element / line)))];
      for (const load of span(this.at)) for (const each of touched(load)) fetched[each] += 1;
      const total = fetched.reduce((sum, count) => sum + count, 0);
      return { ...this.view, at: this.at, now: this.at ? touched(this.at - 1) : [], fetched, total, used: 4 * threads * this.at, moved: 4 * line * total };
    }

    draw() {
      const { kind, each, first, thread, at, now, fetched, total, used, moved } = this.state;
      const { line } = this.data;
      this.$("[name=kind]").value = kind;
      for (const [name, value] of Object.entries({ each, first, thread })) {
        this.$(`#${name}`).value = value;
        this.$(`#at-${name}`).textContent = value;
      }
      this.dim("#back", at === 0);
      this.dim("#next", at === each);
      const loads = span(at).map((load) => this.elements(load));
      const [latest, seen, own] = [new Set(loads.at(-1)), new Set(loads.flat()), loads.map((elements) => elements[thread])];
      const drawn = fetched.map((count, row) => {
        const y = row * CELL + 1;
        const cells = span(line).map((column) => {
          const [element, x] = [row * line + column, LEFT + column * CELL];
          if (!seen.has(element)) return `<circle class="dot" cx="${x + CELL / 2}" cy="${y + CELL / 2}" r="1"/>`;
          const frame = own.includes(element) ? `<rect class="own" x="${x + 2}" y="${y + 2}" width="${CELL - 4}" height="${CELL - 4}"/>` : "";
          return `<rect class="${latest.has(element) ? "now" : "seen"}" x="${x + 4}" y="${y + 4}" width="${CELL - 8}" height="${CELL - 8}"/>${frame}`;
        });
        const kind = now.includes(row) ? "touched" : "axis";
        return `<text x="${LEFT - 6}" y="${y + 12}" text-anchor="end">line ${row}</text><rect class="${kind}" x="${LEFT}" y="${y}" width="${line * CELL}" height="${CELL}"/>${cells.join("")}<text x="${LEFT + line * CELL + 6}" y="${y + 12}">${count || ""}${count ? "×" : ""}</text>`;
      });
      this.$("#memory").setAttribute("viewBox", `0 0 ${LEFT + line * CELL + 26} ${fetched.length * CELL + 2}`);
      this.$("#memory").innerHTML = drawn.join("");
      this.$("#memory").ariaLabel = `${many(fetched.length, "cache line")}; this load touches ${now.length ? `lines ${now.join(", ")}` : "none"}`;
      this.scaleText();
      this.figures([["lines in this load", now.length], ["lines in all loads", total], ["bytes moved", moved.toLocaleString("en-US")], ["bytes used", used.toLocaleString("en-US")]]);
      this.say(
        at === 0 ? "No element has been loaded."
          : `Load ${at - 1}: thread ${thread} gets element ${own.at(-1)}, and the SIMD-group touches ${many(now.length, "line")}. ` +
            (at === each ? `The elements are in ${many(fetched.length, "line")}, and ${total === fetched.length ? "each line was moved once" : `${many(total, "line")} were moved`}.` : ""),
      );
    }
  }
  customElements.define("line-loads", LineLoads);
}
