// <head-atlas>: all heads of a model on one sentence, one of them large.
// Data: {tokens, shown: [layer, head], places, heads}: heads[layer][head] is {scores, weights, habits}.
"use strict";

{
  const { number, escape, squares } = BookWidget;
  const WHAT = { scores: "scores", masked: "scores and mask", weights: "weights" };

  class HeadAtlas extends BookWidget {
    constructor() {
      super();
      this.label = "The heads of the model";
      this.view = { layer: 0, head: 0, what: "weights" };
    }

    get markup() {
      const numbers = (count) => Array.from({ length: count }, (_, i) => `<option value="${i}">${i}</option>`).join("");
      const choices = Object.entries(WHAT).map(
        ([name, title]) => `<label><input type="radio" name="what" value="${name}"> ${title}</label>`,
      );
      return `<div class="bar">
          <label>Layer <select name="layer" data-number="yes">${numbers(this.data.heads.length)}</select></label>
          <label>Head <select name="head" data-number="yes">${numbers(this.data.heads[0].length)}</select></label>
          <fieldset><legend>Show</legend>${choices.join("")}</fieldset>
        </div>
        <div class="beside">
          <div id="maps" tabindex="0" role="group" aria-label="A map for each head; the arrow keys choose one"></div>
          <div class="scroll cells" id="large"></div>
        </div>
        <style>
          .beside { --role: var(--weights); }
          #maps { display: grid; gap: 4px; grid-template-columns: repeat(${this.data.heads[0].length}, 1fr);
            flex: 0 1 24em; align-self: start; cursor: pointer; }
          .map { border: 1px solid var(--line); padding: 1px; }
          .map.now { outline: 3px solid var(--weights); }
          #large { flex: 1 1 20em; }
          #large td { padding: 0.1em 0.2em; vertical-align: bottom; border-color: transparent; }
          #large svg { width: 2.4em; margin: auto; }
          #large tbody th { text-align: right; }
        </style>`;
    }

    start() {
      [this.view.layer, this.view.head] = this.data.shown;
      for (const name of ["layer", "head", "what"]) this.bind(name);
      const future = (i, j) => j > i;
      this.$("#maps").innerHTML = this.data.heads
        .flat()
        .map(({ weights }) => `<div class="map">${squares(weights, 10, 1, future)}</div>`)
        .join("");
      this.$("#maps").onclick = (event) => {
        const at = [...this.$("#maps").children].indexOf(event.target.closest(".map"));
        const count = this.data.heads[0].length;
        if (at >= 0) this.change({ layer: Math.floor(at / count), head: at % count });
      };
    }

    onKey({ key, target }) {
      const way = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
      if (!way || target.id !== "maps") return false;
      const within = (at, count) => Math.min(count - 1, Math.max(0, at));
      const { layer, head } = this.view;
      const { heads } = this.data;
      this.change({ layer: within(layer + way[0], heads.length), head: within(head + way[1], heads[0].length) });
      return true;
    }

    get state() {
      const { layer, head, what } = this.view;
      return { ...this.view, ...this.data.heads[layer][head], numbers: this.numbers(what) };
    }

    /** What is shown large, L x L. */
    numbers(what) {
      const { scores, weights } = this.data.heads[this.view.layer][this.view.head];
      if (what === "weights") return weights;
      return scores.map((row, i) => row.map((s, j) => (what === "masked" && j > i ? -Infinity : s)));
    }

    draw() {
      const { layer, head, what } = this.view;
      const { tokens, heads, places } = this.data;
      this.$("[name=layer]").value = layer;
      this.$("[name=head]").value = head;
      this.$(`[value=${what}]`).checked = true;
      [...this.$("#maps").children].forEach((map, i) => {
        map.classList.toggle("now", i === layer * heads[0].length + head);
      });
      const numbers = this.numbers(what);
      const largest = Math.max(...numbers.flat().filter(Number.isFinite).map(Math.abs));
      const rows = numbers.map((row, i) => {
        const cells = row.map((x, j) => {
          const drawn = squares([[x]], 24, largest, () => what !== "scores" && j > i);
          return `<td>${drawn}${what === "weights" && j > i ? "0" : number(x)}</td>`;
        });
        return `<tr><th scope="row">${escape(tokens[i])}</th>${cells.join("")}</tr>`;
      });
      const columns = tokens.map((token) => `<th scope="col">${escape(token)}</th>`);
      this.$("#large").innerHTML = `<table><caption>Layer ${layer}, head ${head}: ${WHAT[what]}</caption>
        <thead><tr><td></td>${columns.join("")}</tr></thead><tbody>${rows.join("")}</tbody></table>`;
      const shares = heads[layer][head].habits.map((share, i) => `${places[i]} ${Math.round(100 * share)} %`);
      this.say(`Over 20 sentences, a token of this head gives, on average: ${shares.join(", ")}.`);
    }
  }
  customElements.define("head-atlas", HeadAtlas);
}
