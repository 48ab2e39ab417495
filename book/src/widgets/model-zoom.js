// <model-zoom>: the boxes of a model, frame by frame, with what is in them for one sentence.
// Data: {tokens, first: {layer, head, row}, measured, weights, boxes}: a box is {path, name, parts, href, title, weights,
// shares: [of the weights, of the time]}, and where it is known {about, shape, arrays, rows}; an array is {name, role,
// values, whole, causal}, its values tokens x columns, of each layer, of each head.
"use strict";

{
  const { number, escape, squares } = BookWidget;
  const all = (boxes) => boxes.flatMap((box) => [box, ...all(box.parts)]);
  const depth = (values) => (Array.isArray(values) ? 1 + depth(values[0]) : 0);

  class ModelZoom extends BookWidget {
    constructor() {
      super();
      this.label = "The whole model";
      this.view = { box: "" };
    }

    get markup() {
      const { tokens } = this.data;
      const list = (name, title, options) => `<label>${title} <select name="${name}" data-number="yes">${options
        .map((option, i) => `<option value="${i}">${escape(String(option))}</option>`)
        .join("")}</select></label>`;
      const [layers, heads] = this.counts;
      return `<div class="bar">${list("layer", "Layer", [...Array(layers).keys()])}
          ${list("head", "Head", [...Array(heads).keys()])} ${list("row", "Follow", tokens)}</div>
        <div class="crumbs" role="group" aria-label="Frames around this one"></div>
        <div id="level" role="group" aria-label="Boxes; the arrow keys go from one to the next, Escape leaves the frame"></div>
        <div id="panel"></div>
        <style>
          :host { max-width: none; }
          .crumbs { display: flex; flex-wrap: wrap; gap: 0.3em 0.6em; align-items: center; margin-bottom: 0.6em; }
          .crumbs button + button::before { content: "› "; }
          .crumbs button[aria-current] { font-weight: 700; }
          #level { display: flex; flex-wrap: wrap; gap: 0.6em 1.3em; }
          #level button { position: relative; display: grid; gap: 0.2em; flex: 1 1 7.3em; max-width: 10em; min-width: 0; padding: 0.4em 0.5em; text-align: left;
            align-content: start; background: var(--bg, Canvas); }
          #level button.frame { border-style: double; border-width: 4px; padding: calc(0.4em - 3px) calc(0.5em - 3px); }
          #level button[aria-pressed=true] { outline: 3px solid var(--links, #06c); outline-offset: 1px; }
          #level button:not(:last-child)::after { content: "→"; position: absolute; right: -1.2em; top: 0.4em; }
          #level small, #level b { display: block; }
          #level .word { display: flex; justify-content: space-between; gap: 0.5em; }
          .share { display: block; height: 5px; border: 1px solid var(--line); }
          .share i { display: block; height: 100%; background: var(--fg, CanvasText); opacity: 0.7; }
          #panel { margin-top: 0.9em; border-top: 1px solid var(--line); }
          #panel p { margin: 0.3em 0; }
          #panel .name { margin-top: 0.6em; font-size: 1.1em; font-weight: 700; }
          #panel a { color: var(--links, LinkText); }
          #panel table { width: 100%; border-spacing: 0; margin-top: 0.6em; table-layout: fixed; }
          #panel th { border: 0; width: 3.4em; text-align: right; overflow-wrap: anywhere; }
          #panel td { border: 0; padding: 0; min-width: 0; text-align: left; }
          #panel tr[data-row] { cursor: pointer; }
          tr.now th::before { content: "▸"; }
          tr.now td { box-shadow: 0 1px var(--fg, CanvasText), 0 -1px var(--fg, CanvasText); }
          .numbers { overflow-wrap: anywhere; max-width: 34em; }
          #panel table.words { max-width: 26em; }
          #panel .words th { width: 8em; white-space: normal; }
          #panel .words td:last-child { width: 4em; text-align: right; }
          .words i { display: block; height: 1.1em; background: var(--logits); }
          @media (max-width: 500px) { #level button { flex: none; max-width: none; width: calc(50% - 0.8em); box-sizing: border-box; } }
          @media (prefers-reduced-motion: no-preference) {
            #level.in { animation: in 0.25s; } @keyframes in { from { transform: scale(0.8); opacity: 0.2; } }
            #level.out { animation: out 0.25s; } @keyframes out { from { transform: scale(1.15); opacity: 0.2; } }
          }
        </style>`;
    }

    /** How many layers there are, and heads in each. */
    get counts() {
      const arrays = all(this.data.boxes).flatMap((box) => box.arrays || []);
      const deepest = arrays.reduce((best, { values }) => (depth(values) > depth(best) ? values : best), arrays[0].values);
      return [deepest.length, deepest[0].length];
    }

    start() {
      Object.assign(this.view, this.data.first);
      for (const name of ["layer", "head", "row"]) this.bind(name);
      this.shadowRoot.addEventListener("click", ({ target }) => {
        const box = target.closest("[data-path]");
        const row = target.closest("tr[data-row]");
        if (box) this.open(box.dataset.path);
        else if (row) this.change({ row: Number(row.dataset.row) });
      });
    }

    /** Show a box, and if it is a frame those in it. The focus goes with it. */
    open(path) {
      const far = (at) => (this.find(at)?.parts.length ? at.split("/").length : at.split("/").length - 1) * Boolean(at);
      const by = far(path) - far(this.view.box);
      this.change({ box: path });
      if (by) {
        this.$("#level").className = "";
        void this.$("#level").offsetWidth; // so that it moves again
        this.$("#level").className = by > 0 ? "in" : "out";
      }
      const goal = this.$(`#level [data-path="${path}"]`) || this.$("#level button");
      goal.focus({ preventScroll: true });
    }

    onKey({ key, target }) {
      if (target.matches("select")) return false;
      if (key === "Escape" || key === "Backspace") {
        const around = this.frame;
        if (around) this.open(around.includes("/") ? around.slice(0, around.lastIndexOf("/")) : "");
        return true;
      }
      const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[key];
      if (!by || !target.closest("#level")) return false;
      const next = by < 0 ? target.previousElementSibling : target.nextElementSibling;
      if (next) next.focus();
      return true;
    }

    find(path) {
      return all(this.data.boxes).find((box) => box.path === path);
    }

    /** The path of the frame whose boxes are shown; "" is the whole engine. */
    get frame() {
      const { box } = this.view;
      if (!box || this.find(box).parts.length) return box;
      return box.includes("/") ? box.slice(0, box.lastIndexOf("/")) : "";
    }

    /** An array of the layer and the head that are chosen. */
    chosen({ values }) {
      const { layer, head } = this.view;
      return [layer, head].slice(0, depth(values) - 2).reduce((part, at) => part[at], values);
    }

    get state() {
      const box = this.find(this.view.box);
      const shown = (box?.arrays || []).map((array) => ({ ...array, values: this.chosen(array) }));
      const level = this.frame ? this.find(this.frame).parts : this.data.boxes;
      return { ...this.view, frame: this.frame, level: level.map(({ name }) => name), shown, known: box || null };
    }

    draw() {
      const { box, layer, head, row } = this.view;
      for (const name of ["layer", "head", "row"]) this.$(`[name=${name}]`).value = this.view[name];
      const around = this.frame ? this.frame.split("/") : [];
      const crumbs = ["the engine", ...around].map((name, i) => {
        const here = i === around.length ? ' aria-current="true"' : "";
        return `<button type="button" data-path="${escape(around.slice(0, i).join("/"))}"${here}>${escape(name)}</button>`;
      });
      this.$(".crumbs").innerHTML = crumbs.join("");
      const level = this.frame ? this.find(this.frame).parts : this.data.boxes;
      this.$("#level").innerHTML = level.map((one) => this.small(one)).join("");
      this.$("#panel").innerHTML = box ? this.large(this.find(box)) : this.whole();
      const found = this.find(box);
      const where = found?.arrays?.length
        ? ["layer", "head"].slice(0, depth(found.arrays[0].values) - 2).map((name) => `, ${name} ${this.view[name]}`)
        : [];
      const [weights, time] = (found || { shares: [100, 100] }).shares.map((share) => number(share, 1));
      this.say(
        `${found ? found.name : "The engine"}${where.join("")}: ${weights} % of the weights, ${time} % of the time` +
          `${found?.parts.length || !found ? `; ${level.length} boxes in it` : ""}.`,
      );
    }

    /** A box among its neighbors. */
    small(box) {
      const picture = (box.arrays || []).slice(0, 1).map((array) => this.picture(array, this.chosen(array), 10));
      const part = (of) => (of > 0 && of < 0.05 ? "&lt; 0.1" : number(of, 1));
      const share = (what, at) =>
        box.shares[at]
          ? `<small>${what} ${part(box.shares[at])} %</small><span class="share"><i style="width:${box.shares[at]}%"></i></span>`
          : `<small>no ${what}</small>`;
      const rows = picture.length ? [] : box.rows || [];
      const words = rows.slice(0, 3).map(([what, words]) => `<small class="word"><span>${escape(what)}</span> ${escape(words)}</small>`);
      if (rows.length > words.length) words.push("<small>…</small>");
      return `<button type="button" data-path="${escape(box.path)}" class="${box.parts.length ? "frame" : ""}"
        aria-pressed="${box.path === this.view.box}"><b>${escape(box.name)}${box.parts.length ? " ⊕" : ""}</b>
        ${picture.join("")}${words.join("")}${share("weights", 0)}${share("time", 1)}</button>`;
    }

    picture({ role, causal }, values, cell) {
      const largest = Math.max(...values.flat().map(Math.abs));
      const drawn = squares(values, cell, largest, (i, j) => causal && j > i);
      return `<span style="--role:var(--${role || "fg"})">${drawn}</span>`;
    }

    whole() {
      return `<p class="name">The engine</p><p>${this.data.weights.toLocaleString("en")} trained weights. ${escape(this.data.measured)}</p>`;
    }

    /** All about a box. */
    large(box) {
      const [weights, time] = box.shares.map((share) => number(share, 2));
      const about = box.about ? `<p>${escape(box.about)}</p><p>Shape: ${escape(box.shape.replaceAll(" x ", " × "))}.</p>` : "";
      return `<p class="name">${escape(box.name)}</p>${about}
        <p>${box.weights.toLocaleString("en")} trained weights, ${weights} % of all; ${time} % of the time.
        You build it in <a href="${escape(box.href)}">${escape(box.title)}</a>.</p>
        ${(box.arrays || []).map((array) => this.array(array)).join("")}${this.words(box.rows || [])}`;
    }

    /** An array, a row for each token, and the numbers of the row that is followed. */
    array(array) {
      const { tokens } = this.data;
      const { row } = this.view;
      const values = this.chosen(array);
      const largest = Math.max(...values.flat().map(Math.abs));
      const hidden = (i, j) => array.causal && j > i;
      const lines = values.map((one, i) => {
        const drawn = squares([one], 24, largest, (_, j) => hidden(i, j));
        return `<tr data-row="${i}"${i === row ? ' class="now"' : ""}><th scope="row">${escape(tokens[i])}</th><td>${drawn}</td></tr>`;
      });
      const rest = array.whole - values[row].length;
      const numbers = values[row].map((x, j) => (hidden(row, j) ? "hidden" : number(x))).join(", ");
      return `<table style="--role:var(--${array.role || "fg"});max-width:${3.4 + 2.2 * values[row].length}em"><caption>${escape(array.name)}</caption><tbody>${lines.join("")}</tbody></table>
        <p class="numbers"><b>${escape(tokens[row])}</b>: <span class="mono">${numbers}</span>${rest ? ` and ${rest} more` : ""}</p>`;
    }

    words(rows) {
      const lines = rows.map(
        ([what, words, share]) => `<tr><th scope="row">${escape(what)}</th>
          <td><i style="width:${(100 * share).toFixed(1)}%"></i></td><td>${escape(words)}</td></tr>`,
      );
      return lines.length ? `<table class="words"><tbody>${lines.join("")}</tbody></table>` : "";
    }
  }
  customElements.define("model-zoom", ModelZoom);
}
