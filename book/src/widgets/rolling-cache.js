// <rolling-cache>: the mask of a window with sinks, and the slots of the rolling cache, chunk by chunk.
// Data: {tokens, bytes, long}: how many tokens are drawn, what one takes in a layer's cache, and a longer sequence.
"use strict";

{
  const [CELL, LEFT, TOP, SLOT, ROW] = [14, 22, 22, 28, 10];
  const KINDS = ["causal", "sliding window", "window with sinks"];
  const grouped = (x) => x.toLocaleString("en-US");
  const span = (first, end) => Array.from({ length: Math.max(0, end - first) }, (_, i) => first + i);
  const words = (list) => {
    const runs = list.length > 2 && list.at(-1) - list[0] === list.length - 1;
    return `token${list.length > 1 ? "s" : ""} ${runs ? `${list[0]} to ${list.at(-1)}` : list.join(" and ")}`;
  };

  class RollingCacheWidget extends BookWidget {
    constructor() {
      super();
      this.label = "The mask of a window with sinks, and the slots of a rolling cache";
      this.view = { kind: 2, window: 3, sinks: 1, chunk: 1, step: 8 };
    }

    get markup() {
      const { list, slider } = BookWidget;
      const size = this.data.tokens * CELL;
      return `<div class="bar">${list("kind", "Mask", KINDS)}</div>
        <div class="bar"><button type="button" id="back">Back</button><button type="button" id="next">Step</button>
          <button type="button" id="play">Play</button></div>
        <div class="sliders">${slider("window", "window W", 1, 10)}${slider("sinks", "sinks", 0, 4)}${slider("chunk", "tokens per call", 1, 8)}</div>
        <div class="beside"><svg id="mask" viewBox="0 0 ${LEFT + size + 2} ${TOP + size + 2}" role="img" aria-labelledby="mask-title">
          <title id="mask-title"></title><g></g></svg>
        <div><svg id="slots" role="img" aria-labelledby="slots-title"><title id="slots-title"></title><g></g></svg>
        <p class="legend"><span><i class="fill"></i> visible</span><span><i class="later"></i> a later query's</span>
          <span><i class="frame"></i> the last call</span><span>▼ returned by it</span>
          <span><i class="new"></i> stored by it</span><span>▲ overwritten next</span></p></div></div>
        <style>
          #mask text { font-size: max(9px, 11px / var(--scale, 1)); }
          #slots text { font-size: 11px; text-anchor: middle; }
          #slots .small { font-size: max(9px, 11px / var(--scale, 1)); }
          .fill { --role: var(--weights); background: var(--weights); }
          .later, .slot { fill: var(--bg, #fff); stroke: var(--weights); }
          .slot { stroke: var(--fg, #000); }
          .frame { fill: none; stroke: var(--fg, #000); stroke-width: 1.5; }
          .new { fill: var(--bg, #fff); stroke: var(--key); stroke-width: 3; }
          .legend i { border-color: var(--weights); }
          .legend .frame { border: 2px solid var(--fg, #000); }
          .legend .new { border: 3px solid var(--key); }
        </style>`;
    }

    start() {
      for (const name of ["kind", "window", "sinks"]) this.bind(name);
      this.$("#chunk").addEventListener("input", (event) => {
        const chunk = Number(event.target.value);
        this.change({ chunk, step: Math.floor((this.at * this.view.chunk) / chunk) }); // no token further than before
      });
      this.$("#back").onclick = () => this.move(-1);
      this.$("#next").onclick = () => this.move(1);
      this.$("#play").onclick = () => {
        if (!this.timer && this.at === this.steps) this.change({ step: 0 });
        this.play(!this.timer, () => this.move(1), 600);
      };
    }

    onKey(event) {
      const by = BookWidget.arrow(event);
      if (by) this.move(by);
      return by !== 0;
    }

    /** Whether there is a further step. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(this.steps, this.at + by)) });
      return this.at < this.steps;
    }

    get steps() {
      return Math.ceil(this.data.tokens / this.view.chunk);
    }

    get at() {
      return Math.min(this.view.step, this.steps);
    }

    /** A causal mask is a window without an end. */
    get sizes() {
      const { kind, window, sinks } = this.view;
      return { window: kind ? window : Infinity, sinks: kind === 2 ? sinks : 0 };
    }

    /** What a call stores: [slot, token] of each token that stays after it. */
    stored(first, end) {
      const { window, sinks } = this.sizes;
      const kept = span(first, end).filter((p) => p < sinks || p >= end - window);
      return kept.map((p) => [p < sinks ? p : sinks + ((p - sinks) % window), p]);
    }

    get state() {
      const { window, sinks } = this.sizes;
      const { tokens, bytes } = this.data;
      const of = (step) => Math.min(tokens, step * this.view.chunk);
      const [first, end, after] = [of(this.at - 1), of(this.at), of(this.at + 1)].map((p) => Math.max(0, p));
      const slots = Array(window === Infinity ? end : sinks + window).fill(null);
      for (let step = 0; step < this.at; step++) for (const [slot, p] of this.stored(of(step), of(step + 1))) slots[slot] = p;
      const before = [...span(0, Math.min(sinks, first)), ...span(Math.max(sinks, first - window + 1), first)];
      const returned = end - first === 1 ? slots.filter((p) => p !== null) : [...before, ...span(first, end)];
      const overwritten = this.stored(end, after).filter(([slot]) => (slots[slot] ?? null) !== null);
      const mask = span(0, tokens).map((p) => span(0, tokens).map((j) => j <= p && (p - window < j || j < sinks)));
      return { ...this.view, window, sinks, at: this.at, first, end, slots, returned, overwritten, mask, bytes: slots.length * bytes, full: end * bytes };
    }

    draw() {
      const state = this.state;
      const { window, sinks, at, first, end, slots, returned, overwritten, mask, bytes, full } = state;
      for (const name of ["kind", "window", "sinks", "chunk"]) this.$(`[name=${name}]`).value = this.view[name];
      this.$("#at-window").textContent = this.view.kind ? window : "off";
      this.$("#at-sinks").textContent = this.view.kind === 2 ? sinks : "off";
      this.$("#at-chunk").textContent = this.view.chunk;
      this.dim("#back", at === 0);
      this.dim("#next", at === this.steps);
      const [x, y] = [(j) => LEFT + j * CELL, (i) => TOP + i * CELL];
      const cells = mask.flatMap((row, i) => row.map((seen, j) => {
        if (!seen) return `<circle class="dot" cx="${x(j) + CELL / 2}" cy="${y(i) + CELL / 2}" r="0.9"/>`;
        return `<rect class="${i < end ? "fill" : "later"}" x="${x(j) + 2}" y="${y(i) + 2}" width="${CELL - 4}" height="${CELL - 4}"/>`;
      }));
      const labels = span(0, mask.length).map((p) => `<text x="${LEFT - 5}" y="${y(p) + 10}" text-anchor="end">${p}</text><text x="${x(p) + CELL / 2}" y="9" text-anchor="middle">${p % 2 ? "" : p}</text>`);
      const marks = returned.map((p) => `<path class="mark" d="M${x(p) + CELL / 2} ${TOP - 2}l-4 -7h8z"/>`);
      const frame = at ? `<rect class="frame" x="${LEFT}" y="${y(first)}" width="${mask.length * CELL}" height="${(end - first) * CELL}"/>` : "";
      this.$("#mask g").innerHTML = [...cells, ...labels, ...marks, frame].join("");
      this.$("#mask-title").textContent = `Which of ${mask.length} keys, in columns, each query sees; ${end} queries are processed`;
      const lost = new Set(overwritten.map(([slot]) => slot));
      const boxes = slots.map((p, slot) => {
        const [left, top] = [(slot % ROW) * SLOT + 2, Math.floor(slot / ROW) * 50 + 14];
        const name = slot < sinks ? "sink" : slot;
        const arrow = lost.has(slot) ? `<path class="mark" d="M${left + 12} ${top + 25}l-4 7h8z"/>` : "";
        return `<text class="small" x="${left + 12}" y="${top - 4}">${name}</text>
          <rect class="${p !== null && p >= first ? "new" : "slot"}" x="${left}" y="${top}" width="24" height="22"/><text x="${left + 12}" y="${top + 15}">${p ?? ""}</text>${arrow}`;
      });
      this.$("#slots").setAttribute("viewBox", `0 0 ${ROW * SLOT + 2} ${Math.max(1, Math.ceil(slots.length / ROW)) * 50}`);
      this.$("#slots g").innerHTML = boxes.join("");
      this.$("#slots-title").textContent = `Slots and their tokens: ${slots.map((p) => p ?? "empty").join(", ")}`;
      const here = slots.filter((p) => p !== null).length;
      const last = at ? `This call added ${words(span(first, end))}: it returned ${returned.length} keys, and the cache now stores ${here}.` : "No token has been added.";
      const next = end === mask.length ? "" : overwritten.length ? `The next call overwrites ${words(overwritten.map(([slot]) => slots[slot]).sort((a, b) => a - b))}.` : "The next call overwrites nothing.";
      const long = this.data.long;
      const memory = window === Infinity
        ? `A full cache takes ${grouped(full)} bytes per layer, and ${grouped(long * this.data.bytes)} for ${grouped(long)} tokens.`
        : `The ${slots.length} slots always take ${grouped(bytes)} bytes per layer; a full cache takes ${grouped(full)} now, and ${grouped(long * this.data.bytes)} for ${grouped(long)} tokens.`;
      this.say(`${last} ${next} ${memory}`);
    }
  }
  customElements.define("rolling-cache", RollingCacheWidget);
}
