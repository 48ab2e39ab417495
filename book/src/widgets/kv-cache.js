// <kv-cache>: what each step of a generation computes, and what it finds in the cache.
// Data: {prompt, tokens, bytes}: the prompt's tokens, those of the whole sequence, and a token's bytes in the cache.
"use strict";

{
  const [ACROSS, CELL, WIDE, HIGH] = [32, 10, 320, 110];
  const grouped = (x) => x.toLocaleString("en-US");

  class KvCacheStepper extends BookWidget {
    constructor() {
      super();
      this.label = "Generation with and without a KV cache, step by step";
      this.view = { length: 24, cached: false };
    }

    get markup() {
      const { prompt, tokens } = this.data;
      return `<div class="bar">
          <button type="button" id="back">Back</button><button type="button" id="next">Next token</button>
          <button type="button" id="play">Play</button>
          <label><input type="checkbox" name="cached"> KV cache</label>
        </div>
        <div class="sliders">${BookWidget.slider("length", "Tokens", prompt, tokens)}</div>
        <svg id="tokens" viewBox="0 0 ${WIDE} ${(tokens / ACROSS) * CELL}" role="img" aria-labelledby="tokens-title">
          <title id="tokens-title"></title><g></g></svg>
        <p class="legend"><span><i class="computed"></i> computed in this step</span>
          <span><i class="kept"></i> key and value read from the cache</span><span><i class="later"></i> not generated yet</span></p>
        <svg id="total" viewBox="0 -14 ${WIDE} ${HIGH + 18}" role="img" aria-labelledby="total-title">
          <title id="total-title"></title><g></g></svg>
        <style>
          #tokens, #total { margin-bottom: 0.6em; }
          .computed { fill: var(--key); background: var(--key); }
          .kept { fill: var(--bg, #fff); stroke: var(--key); background: var(--bg, #fff); }
          .later { fill: var(--rules, GrayText); background: var(--rules, GrayText); }
          .legend i { border-color: var(--key); }
          .legend .later { width: 0.25em; height: 0.25em; border: 0; vertical-align: 0.25em; }
          .without { fill: none; stroke: var(--links); stroke-width: 2.5; }
          .with { fill: none; stroke: var(--key); stroke-width: 2.5; stroke-dasharray: 6 3; }
          .axis { fill: none; stroke: var(--fg, #000); stroke-opacity: 0.6; }
          .here { fill: var(--fg, #000); }
        </style>`;
    }

    start() {
      for (const name of ["length", "cached"]) this.bind(name);
      this.$("#back").onclick = () => this.step(-1);
      this.$("#next").onclick = () => this.step(1);
      this.$("#play").onclick = () => this.play(!this.timer, () => this.step(1), 60);
      this.$("#length").addEventListener("pointerdown", () => this.play(false));
    }

    onKey(event) {
      const by = BookWidget.arrow(event);
      if (by) this.step(by);
      return by !== 0;
    }

    /** Whether there is a further step. */
    step(by) {
      const { prompt, tokens } = this.data;
      this.change({ length: Math.max(prompt, Math.min(tokens, this.view.length + by)) });
      return this.view.length < tokens;
    }

    /** Tokens that all steps together pass through the model, until the sequence has this length. */
    total(length, cached) {
      const { prompt } = this.data;
      return cached ? length : ((length - prompt + 1) * (length + prompt)) / 2;
    }

    get state() {
      const { length, cached } = this.view;
      const computed = cached && length > this.data.prompt ? 1 : length;
      const [anew, once] = [this.total(length, false), this.total(length, true)];
      return { ...this.view, computed, anew, once, bytes: cached ? length * this.data.bytes : 0 };
    }

    draw() {
      const { length, cached, computed, anew, once, bytes } = this.state;
      const { prompt, tokens } = this.data;
      this.$("#length").value = length;
      this.$("#at-length").textContent = length;
      this.$("[name=cached]").checked = cached;
      this.dim("#back", length === prompt);
      this.dim("#next", length === tokens);
      const cells = Array.from({ length: tokens }, (_, i) => {
        const [x, y] = [(i % ACROSS) * CELL, Math.floor(i / ACROSS) * CELL];
        if (i >= length) return `<circle class="later" cx="${x + 5}" cy="${y + 5}" r="0.9"/>`;
        return `<rect class="${i >= length - computed ? "computed" : "kept"}" x="${x + 1.5}" y="${y + 1.5}" width="7" height="7"/>`;
      });
      this.$("#tokens g").innerHTML = cells.join("");
      this.$("#tokens-title").textContent = `${computed} of ${length} tokens are computed in this step`;
      const most = this.total(tokens, false);
      const at = (x, y) => `${((x / tokens) * WIDE).toFixed(1)} ${(HIGH - (y / most) * HIGH).toFixed(1)}`;
      const line = (cached) =>
        Array.from({ length: tokens - prompt + 1 }, (_, i) => at(prompt + i, this.total(prompt + i, cached))).join("L");
      const [x, y] = at(length, cached ? once : anew).split(" ");
      this.$("#total g").innerHTML = `<path class="axis" d="M0 0V${HIGH}H${WIDE}"/>
        <path class="without" d="M${line(false)}"/><path class="with" d="M${line(true)}"/>
        <circle class="here" cx="${x}" cy="${y}" r="4"/>
        <text x="4" y="-4">tokens through the model, in all steps together</text>
        <text x="${WIDE - 76}" y="30" text-anchor="end">no cache: ${grouped(most)}</text>
        <text x="${WIDE}" y="${HIGH - 8}" text-anchor="end">cache: ${grouped(tokens)}</text>`;
      this.$("#total-title").textContent = `${grouped(anew)} tokens without a cache, ${grouped(once)} with one`;
      const prefill = length === prompt ? `The prefill computes all ${prompt} tokens of the prompt. ` : "";
      const size = bytes ? ` The cache holds ${grouped(bytes / 1024)} KiB.` : "";
      this.say(
        `${prefill || `Token ${length}: ${computed === 1 ? "1 token passes" : `${computed} tokens pass`} through all layers. `}` +
          `In all steps so far: ${grouped(cached ? once : anew)}${cached ? `, without the cache ${grouped(anew)}` : ""}.${size}`,
      );
    }
  }
  customElements.define("kv-cache", KvCacheStepper);
}
