// <shared-layers>: a token passes through layers that share sets of weights, in one of three orders.
// Data: {orders, layers, sets, table, layer, norm, cached}: the choices, the weights of a tied table, a layer and the
// final norm, and the elements that one layer caches per token.
"use strict";

{
  const [CELL, GAP, ROW] = [26, 6, 56];
  const grouped = (x) => x.toLocaleString("en-US");

  class SharedLayers extends BookWidget {
    constructor() {
      super();
      this.label = "Which set of weights each layer uses";
      this.view = { order: 0, layers: 6, sets: 3, step: 3 };
    }

    get markup() {
      const { list } = BookWidget;
      const { orders, layers, sets } = this.data;
      return `<div class="bar">${list("order", "Order", orders)}${list("layers", "Layers", layers, layers)}${list("sets", "Sets of weights", sets, sets)}</div>
        ${BookWidget.stepBar("Next layer")}
        <div class="scroll" tabindex="0" role="group" aria-label="Sets, layers and caches"><svg id="ways" role="img"></svg></div>
        <dl class="figures"></dl>
        <style>
          .set { fill: color-mix(in srgb, var(--third) 20%, var(--bg, #fff)); stroke: var(--third); }
          .cache { fill: color-mix(in srgb, var(--key) 20%, var(--bg, #fff)); stroke: var(--key); }
          .empty { fill: none; stroke: var(--key); stroke-dasharray: 2 3; }
          .way { fill: none; stroke: var(--third); }
          .now { fill: none; stroke: var(--fg, #000); stroke-width: 2.5; }
        </style>`;
    }

    start() {
      for (const name of ["order", "layers", "sets"]) this.bind(name);
      this.steps(900, { step: 0 });
    }

    /** Whether there is a further layer. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(this.view.layers, this.at + by)) });
      return this.at < this.view.layers;
    }

    get at() {
      return Math.min(this.view.step, this.view.layers);
    }

    /** The set that a layer uses. */
    owner(layer) {
      const { order, layers, sets } = this.view;
      if (order === 0) return Math.floor(layer / (layers / sets));
      const backward = order === 2 && layers > sets && layer >= layers - sets;
      return backward ? sets - 1 - (layer % sets) : layer % sets;
    }

    get state() {
      const { layers, sets } = this.view;
      const { table, layer, norm, cached } = this.data;
      const owners = Array.from({ length: layers }, (_, i) => this.owner(i));
      const stored = (count) => table + count * layer + norm;
      return { ...this.view, at: this.at, owners, stored: stored(sets), share: stored(sets) / stored(layers), cached: this.at * cached };
    }

    draw() {
      const { order, layers, sets, at, owners, stored, share, cached } = this.state;
      for (const list of this.shadowRoot.querySelectorAll("select")) list.value = this.view[list.name];
      this.dim("#back", at === 0);
      this.dim("#next", at === layers);
      const [left, width] = [62, layers * (CELL + GAP)];
      const box = (name, x, y, text) => `<rect class="${name}" x="${x}" y="${y}" width="${CELL}" height="${CELL - 4}" rx="3"/><text x="${x + CELL / 2}" y="${y + 15}" text-anchor="middle">${text}</text>`;
      const x = (layer) => left + layer * (CELL + GAP);
      const of = (set) => left + ((set + 0.5) * width) / sets - (CELL + GAP) / 2;
      const ways = owners.slice(0, at).map((set, i) => `<path class="${i === at - 1 ? "now" : "way"}" d="M${of(set) + CELL / 2} ${CELL - 3}L${x(i) + CELL / 2} ${ROW}"/>`);
      const names = ["sets", "layers", "caches"].map((name, i) => `<text x="0" y="${i * ROW + 15}">${name}</text>`);
      names.push(`<text x="0" y="${ROW + 40}">set used</text>`);
      const drawn = owners.map((set, i) => box(i === at - 1 ? "now" : "axis", x(i), ROW, i) + `<text x="${x(i) + CELL / 2 + 4}" y="${ROW + 40}">${set}</text><path class="way" d="M${x(i) + CELL / 2} ${ROW + CELL - 4}V${2 * ROW}"/>` + box(i < at ? "cache" : "empty", x(i), 2 * ROW, i));
      this.$("#ways").setAttribute("viewBox", `0 0 ${left + width} ${2 * ROW + CELL}`);
      Object.assign(this.$("#ways").style, { minWidth: `${0.9 * (left + width)}px`, maxWidth: `${1.6 * (left + width)}px` });
      this.$("#ways").innerHTML = [...names, ...ways, ...Array.from({ length: sets }, (_, set) => box("set", of(set), 0, set)), ...drawn].join("");
      this.$("#ways").ariaLabel = `${layers} layers with the sets ${owners.join(", ")}, and a cache each`;
      this.scaleText();
      this.figures([["weights in the file", grouped(stored)], ["of the unshared model's", `${Math.round(100 * share)} %`], ["elements cached so far, per token", grouped(cached)]]);
      const uses = owners.slice(0, at).filter((set) => set === owners[at - 1]).length;
      this.say(
        at === 0 ? `${this.data.orders[order]}: the token has not passed through a layer.`
          : `Layer ${at - 1} uses set ${owners[at - 1]}, whose use ${uses} of ${layers / sets} this is, and its own cache.`,
      );
    }
  }
  customElements.define("shared-layers", SharedLayers);
}
