// <cache-bytes>: what a token takes in the KV cache with four kinds of attention.
// Data: {models: {name: {layers, heads, dims, rope, group}}}: `group` heads share a key-value head; with a latent, a layer caches C + D_rope numbers.
"use strict";

{
  const scaled = (bytes) => {
    const [size, unit] = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "KB"], [1, "bytes"]].find(([size]) => bytes >= size) ?? [1, "bytes"];
    return `${(bytes / size).toPrecision(3)} ${unit}`;
  };

  class CacheBytes extends BookWidget {
    constructor() {
      super();
      this.label = "Bytes in the KV cache with MHA, GQA, MQA and MLA";
      this.view = { model: 0, share: 3, latent: 512, context: 17, size: 2 };
    }

    get markup() {
      const { list, slider } = BookWidget;
      const sizes = list("size", "Element type", ["float32", "bfloat16", "float8"], [4, 2, 1]);
      return `<div class="bar">${list("model", "Model", Object.keys(this.data.models))}${sizes}</div>
        <div class="sliders">${slider("share", "GQA: query heads per key-value head", 0, 7)}
          ${slider("latent", "MLA: latent C", 64, 1024, 64)}${slider("context", "tokens in the cache", 8, 20)}</div>
        <div class="scroll" tabindex="0" role="group" aria-label="The four caches">
          <table><thead><tr><td></td><th scope="col">elements per layer</th><th scope="col">per token</th><th scope="col">in all</th><td></td></tr></thead><tbody></tbody></table></div>
        <style>
          td.bar-of { width: 40%; min-width: 3em; padding: 2px 0 2px 0.5em; border: 0; }
          td.bar-of i { display: block; height: 1.1em; min-width: 1px; background: var(--key); }
          td { text-align: right; }
        </style>`;
    }

    start() {
      for (const name of Object.keys(this.view)) this.bind(name);
      this.$("[name=model]").addEventListener("change", () => this.model.group && this.change({ share: Math.log2(this.model.group) }));
    }

    get model() {
      return Object.values(this.data.models)[this.view.model];
    }

    get state() {
      const { share, latent, size, context } = this.view;
      const { layers, heads, dims, rope } = this.model;
      const kv_heads = Math.max(1, Math.round(heads / 2 ** share));
      const numbers = { MHA: 2 * heads * dims, GQA: 2 * kv_heads * dims, MQA: 2 * dims, MLA: latent + rope };
      const bytes = Object.fromEntries(Object.entries(numbers).map(([kind, count]) => [kind, count * layers * size]));
      return { ...this.view, kv_heads, tokens: 2 ** context, numbers, bytes };
    }

    draw() {
      const { kv_heads, tokens, numbers, bytes, latent } = this.state;
      for (const name of Object.keys(this.view)) this.$(`[name=${name}]`).value = this.view[name];
      const grouped = (x) => x.toLocaleString("en-US");
      for (const [name, value] of Object.entries({ share: this.model.heads / kv_heads, latent, context: tokens })) {
        this.$(`#at-${name}`).textContent = grouped(value);
        this.$(`#${name}`).setAttribute("aria-valuetext", grouped(value));
      }
      if (this.model.group === this.model.heads / kv_heads) this.$("#at-share").textContent += " (the model's own)";
      const largest = bytes.MHA;
      this.$("tbody").innerHTML = Object.keys(bytes)
        .map((kind) => `<tr><th scope="row">${kind}</th><td>${grouped(numbers[kind])}</td><td>${scaled(bytes[kind])}</td>
          <td>${scaled(bytes[kind] * tokens)}</td><td class="bar-of"><i style="width:${((100 * bytes[kind]) / largest).toFixed(2)}%"></i></td></tr>`)
        .join("");
      const ratio = (a, b) => (a / b).toPrecision(3);
      this.say(
        `With GQA, there ${kv_heads === 1 ? "is 1 key-value head" : `are ${kv_heads} key-value heads`}. MLA's latent and RoPE key take as much as ${ratio(numbers.MLA, 2 * this.model.dims)} key-value heads would: ` +
          `1/${ratio(bytes.MHA, bytes.MLA)} of MHA.`,
      );
    }
  }
  customElements.define("cache-bytes", CacheBytes);
}
