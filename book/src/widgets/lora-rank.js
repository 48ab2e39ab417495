// <lora-rank>: how much of an update of full fine-tuning a matrix of rank r keeps, and what it costs.
// Data: {matrices: [{name, outputs, inputs, singular, squares}]}: the largest singular values, and the sum of all squares.
"use strict";

{
  const [WIDE, HIGH, STATE] = [320, 90, 12]; // STATE: bytes of gradient and moments per trained number, in float32
  const { number } = BookWidget;
  const grouped = (n) => String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ",");

  class LoraRank extends BookWidget {
    constructor() {
      super();
      this.label = "The rank of an adapter, what it can keep of an update, and its size";
      this.view = { matrix: 0, rank: 4, alpha: 8 };
    }

    get markup() {
      const { list, slider } = BookWidget;
      const { length } = this.data.matrices[0].singular;
      return `<div class="bar">${list("matrix", "Update of", this.data.matrices.map(({ name }) => name))}</div>
        <div class="sliders">${slider("rank", "rank r", 1, length)}${slider("alpha", "alpha", 1, 64)}</div>
        <div class="beside"><div><svg id="values" viewBox="0 0 ${WIDE} ${HIGH + 16}" role="img" aria-labelledby="values-title"><title id="values-title"></title><g></g></svg>
        <p class="legend"><span><i class="kept"></i> kept by rank r</span><span><i></i> lost</span></p></div>
        <div class="scroll"><table><thead><tr><th scope="col">quantity</th><th scope="col">full</th><th scope="col">rank r</th></tr></thead><tbody></tbody></table></div></div>
        <style>
          .bar-of { fill: var(--bg, Canvas); stroke: var(--links); }
          .bar-of.kept { fill: var(--links); }
          .legend i { border-color: var(--links); }
          .legend .kept { background: var(--links); }
        </style>`;
    }

    start() {
      for (const name of Object.keys(this.view)) this.bind(name);
    }

    get state() {
      const { matrix, rank, alpha } = this.view;
      const { name, outputs, inputs, singular, squares } = this.data.matrices[matrix];
      const kept = singular.slice(0, rank).reduce((sum, value) => sum + value * value, 0);
      const [full, low] = [outputs * inputs, rank * (outputs + inputs)];
      const error = Math.sqrt(Math.max(0, 1 - kept / squares));
      return { ...this.view, name, share: kept / squares, error, full, low, factor: alpha / rank };
    }

    draw() {
      const { rank, alpha, name, share, error, full, low, factor } = this.state;
      for (const key of Object.keys(this.view)) this.$(`[name=${key}]`).value = this.view[key];
      this.$("#at-rank").textContent = rank;
      this.$("#at-alpha").textContent = alpha;
      const { singular } = this.data.matrices[this.view.matrix];
      const step = WIDE / singular.length;
      const bars = singular.map((value, i) => {
        const height = (HIGH * value) / singular[0];
        const box = `x="${(i * step + 0.5).toFixed(1)}" y="${(HIGH - height).toFixed(1)}" width="${(step - 1).toFixed(1)}" height="${height.toFixed(1)}"`;
        return `<rect class="bar-of ${i < rank ? "kept" : ""}" ${box}/>`;
      });
      this.$("#values g").innerHTML = `${bars.join("")}<text x="0" y="${HIGH + 13}">1</text><text x="${WIDE}" y="${HIGH + 13}" text-anchor="end">${singular.length}</text>`;
      this.$("#values-title").textContent = `The ${singular.length} largest singular values of the update, from ${number(singular[0], 3)} to ${number(singular.at(-1), 3)}; the first ${rank} are kept`;
      const row = (title, a, b) => `<tr><th scope="row">${title}</th><td>${a}</td><td>${b}</td></tr>`;
      const kib = (count, bytes) => `${grouped((count * bytes) / 1024)} KiB`;
      this.$("tbody").innerHTML =
        row("numbers", grouped(full), grouped(low)) +
        row("file, bfloat16", kib(full, 2), kib(low, 2)) +
        row("gradients and moments", kib(full, STATE), kib(low, STATE)) +
        row("factor alpha / r", "–", number(factor, 3));
      this.say(
        `The best matrix of rank ${rank} keeps ${number(100 * share, 1)} % of the squares of the update of ${name}: its relative error is ${number(error, 3)}. ` +
          (low < full ? `It has ${number(full / low, 1)} times fewer numbers.` : "It has more numbers than the matrix itself.") +
          ` B A is multiplied by ${number(factor, 3)}.`,
      );
    }
  }
  customElements.define("lora-rank", LoraRank);
}
