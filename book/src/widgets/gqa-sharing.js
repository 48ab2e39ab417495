// <gqa-sharing>: which key-value head each query head reads, and what the cache costs.
// Data: {bytes, models: [{name, layers, heads, kv_heads, head_dim, context}]}.
"use strict";

{
  const { number, escape } = BookWidget;
  const SHORTEST = 8; // 2 to the power of 8 tokens
  const grouped = (integer) => integer.toLocaleString("en-GB");

  const size = (bytes) => {
    const units = ["bytes", "KiB", "MiB", "GiB"];
    const unit = Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
    const value = bytes / 2 ** (10 * unit);
    return `${number(value, Number.isInteger(value) ? 0 : 2)} ${units[unit]}`;
  };

  class GqaSharing extends BookWidget {
    constructor() {
      super();
      this.label = "Key-value heads, shared";
      this.view = { model: 0, kv_heads: 0, tokens: 12 };
    }

    get markup() {
      const options = this.data.models.map((model, i) => `<option value="${i}">${escape(model.name)}</option>`);
      return `<div class="bar">
          <label>Model <select name="model" data-number="yes">${options.join("")}</select></label>
        </div>
        <div class="sliders">
          <label for="kv">Key-value heads</label>
          <input type="range" id="kv" min="0" step="1"><output id="at-kv"></output>
          <label for="tokens">Tokens</label>
          <input type="range" id="tokens" name="tokens" min="${SHORTEST}" step="1"><output id="at-tokens"></output>
        </div>
        <div class="scroll" tabindex="0" role="group" aria-label="Which key-value head each query head reads">
          <svg role="img" aria-labelledby="heads-title"><title id="heads-title"></title><g></g></svg>
        </div>
        <p class="mono sum"></p>
        <style>
          svg { max-width: none; }
          rect { stroke: var(--fg, #000); fill: var(--bg, #fff); }
          .odd rect { fill: color-mix(in srgb, var(--key) 18%, var(--bg, #fff)); }
          path { stroke: var(--fg, #000); stroke-opacity: 0.6; }
          .odd path { stroke: var(--key); stroke-opacity: 1; }
          .sum { margin: 0.6em 0 0; overflow-wrap: anywhere; }
          .sum span { display: block; }
        </style>`;
    }

    start() {
      this.bind("tokens");
      this.$("[name=model]").oninput = (event) => this.choose(Number(event.target.value));
      this.$("#kv").oninput = (event) => this.change({ kv_heads: this.divisors[event.target.value] });
      this.choose(0);
    }

    /** Another model, with as many key-value heads as it really has. */
    choose(model) {
      this.change({ model, kv_heads: this.data.models[model].kv_heads });
    }

    get divisors() {
      const { heads } = this.data.models[this.view.model];
      return Array.from({ length: heads }, (_, i) => i + 1).filter((divisor) => heads % divisor === 0);
    }

    get state() {
      const { name, layers, heads, head_dim, context } = this.data.models[this.view.model];
      const kvHeads = this.view.kv_heads;
      const tokens = Math.min(context, 2 ** this.view.tokens);
      const perToken = 2 * layers * kvHeads * head_dim * this.data.bytes;
      const reads = Array.from({ length: heads }, (_, h) => Math.floor(h / (heads / kvHeads)));
      return { ...this.view, name, heads, kvHeads, reads, tokens, perToken, bytes: perToken * tokens };
    }

    draw() {
      const { layers, heads, kv_heads: own, head_dim, context } = this.data.models[this.view.model];
      const { kvHeads, tokens, perToken, bytes, reads } = this.state;
      const kind = kvHeads === heads ? "multi-head" : kvHeads === 1 ? "multi-query" : "grouped";
      this.$("[name=model]").value = this.view.model;
      const [kv, length] = [this.$("#kv"), this.$("#tokens")];
      kv.max = this.divisors.length - 1;
      kv.value = this.divisors.indexOf(kvHeads);
      length.max = Math.log2(context);
      length.value = Math.log2(tokens);
      kv.setAttribute("aria-valuetext", `${kvHeads}, ${kind}`);
      length.setAttribute("aria-valuetext", grouped(tokens));
      this.$("#at-kv").textContent = `${kvHeads} of ${heads}`;
      this.$("#at-tokens").textContent = grouped(tokens);
      this.picture(heads, kvHeads, reads);
      const held = `${kvHeads} head${kvHeads === 1 ? "" : "s"}`;
      const factors = ["2 (K, V)", `${layers} layers`, held, `D ${head_dim}`, `${this.data.bytes} bytes`];
      this.$(".sum").innerHTML = [
        `${factors.join(" · ")} = ${grouped(perToken)} bytes a token`,
        `${grouped(perToken)} · ${grouped(tokens)} tokens = ${grouped(bytes)} bytes = ${size(bytes)}`,
      ]
        .map((line) => `<span>${line}</span>`)
        .join("");
      const group = heads / kvHeads;
      const share = group === 1 ? "every query head has its own" : `each is read by ${group} query heads`;
      const saved = group === 1 ? "nothing is saved" : `the cache is 1/${group} of that of multi-head attention`;
      const usual = kvHeads === own ? " This is what the model has." : "";
      this.say(`${kvHeads} key-value head${kvHeads === 1 ? "" : "s"} (${kind}): ${share}, and ${saved}.${usual}`);
    }

    picture(heads, kvHeads, reads) {
      const [step, box] = [22, 20];
      const width = Math.max(heads * step, 460) + 4;
      const x = (i, count) => ((i + 0.5) * width) / count;
      const head = (at, y, text) => {
        const left = (at - box / 2).toFixed(1);
        return `<rect x="${left}" y="${y}" width="${box}" height="${box}" rx="4"/>
          <text x="${at.toFixed(1)}" y="${y + 15}" text-anchor="middle">${text}</text>`;
      };
      const groups = Array.from({ length: kvHeads }, (_, j) => {
        const readers = reads.flatMap((read, h) => (read === j ? [h] : []));
        const lines = readers.map((h) => `<path d="M${x(h, heads).toFixed(1)} 46L${x(j, kvHeads).toFixed(1)} 104"/>`);
        const asking = readers.map((h) => head(x(h, heads), 24, h));
        return `<g class="${j % 2 ? "odd" : ""}">${lines.join("")}${asking.join("")}${head(x(j, kvHeads), 104, j)}</g>`;
      });
      const svg = this.$("svg");
      svg.setAttribute("viewBox", `0 0 ${width} 146`);
      svg.style.minWidth = `${heads * step}px`;
      this.$("svg g").innerHTML =
        `<text x="2" y="14">query heads</text>${groups.join("")}<text x="2" y="142">key-value heads</text>`;
      this.$("#heads-title").textContent =
        `${heads} query heads above, ${kvHeads} key-value heads below; ` +
        `query head h reads key-value head h // ${heads / kvHeads}.`;
    }
  }
  customElements.define("gqa-sharing", GqaSharing);
}
