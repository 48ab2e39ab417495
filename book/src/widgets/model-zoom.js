// <model-zoom>: a model as branches of its residual stream, with what is in its boxes for one sentence. A wide page shows
// the engine, a layer and a head beside each other, a phone the one that is open.
// Data: {tokens, first: {layer, head, row}, measured, weights, boxes}: a box is {path, name, parts, href, title, weights,
// shares: [of the weights, of the time]}, and where it is known {about, shape, arrays, rows}; an array is {name, role,
// values, whole, causal}, its values tokens x columns, of each layer, of each head.
"use strict";

{
  const { number, escape, squares } = BookWidget;
  const all = (boxes) => boxes.flatMap((box) => [box, ...all(box.parts)]);
  const depth = (values) => (Array.isArray(values) ? 1 + depth(values[0]) : 0);

  const HIGH = [4.4, 12.5]; // pixels of height for a hundredth: of the engine, and of its layer, which is larger
  const HUES = [["attention", "weights"], ["MLP", "third"], ["embedding", "logits"], ["logits", "logits"]];
  const hue = ({ path }) => (HUES.find(([name]) => path.includes(name)) || ["", "fg"])[1];

  class ModelZoom extends BookWidget {
    constructor() {
      super();
      this.label = "The whole model";
      this.view = { box: "", of: 0 };
    }

    get markup() {
      const { tokens } = this.data;
      const list = (name, title, options) => `<label>${title} <select name="${name}" data-number="yes">${options
        .map((option, i) => `<option value="${i}">${escape(String(option))}</option>`)
        .join("")}</select></label>`;
      const [layers, heads] = this.counts;
      return `<div class="bar">${list("layer", "Layer", [...Array(layers).keys()])}
          ${list("head", "Head", [...Array(heads).keys()])} ${list("row", "Follow", tokens)}
          ${list("of", "Heights", ["weights", "time"])}</div>
        ${BookWidget.stepBar("Next box")}
        <div class="crumbs" role="group" aria-label="Frames around this one"></div>
        <div class="map"><div id="level" role="group" aria-label="Boxes; the arrow keys go from one to the next, Escape leaves the frame"></div>
        <div id="panel"></div><div id="wedges"></div></div>
        <style>
          :host { max-width: none; }
          .crumbs { display: flex; flex-wrap: wrap; gap: 0.3em 0.6em; align-content: start; }
          .crumbs button + button::before { content: "› "; }
          .crumbs button[aria-current] { font-weight: 700; }
          .map { display: grid; position: relative; max-width: 24em; margin: 0.9em auto 0; --box: 26px; --gap: 22px; --band: 116px; }
          @container (max-width: 300px) or ((min-width: 740px) and (max-width: 880px)) { .map { --band: 84px; } }
          #level { display: contents; font-size: 0.86em; }
          #level:not(.at-whole) .whole, #level:not(.at-layer) .layer, #level:not(.at-head) .head { display: none; }
          @container (min-width: 740px) {
            .map { grid: auto 1fr / 30fr 33fr 25fr; gap: 1.2em 42px; max-width: none; margin-top: 0.9em; }
            #level .whole.whole, #level .layer.layer { display: block; grid-row: 1 / 3; }
            #level .head.head { display: block; }
            #panel { grid-area: 2 / 3; border-top: 1px solid var(--line); }
            .map:has(.array + .array) #level :is(.layer, .head) { grid-row: 1; }
            .map:has(.array + .array) .head { grid-column: 3; }
            .map:has(.array + .array) #panel { grid-area: 2 / 2 / auto / 4; display: grid; grid-template-columns: repeat(3, 1fr); gap: 0 2em; align-content: start; }
            #panel > :not(.arrays) { grid-column: 1 / -1; }
            .arrays { display: contents; }
            .wedge { position: absolute; width: 39px; background: color-mix(in srgb, var(--links, #06c) 14%, var(--bg, Canvas)); }
          }
          .whole, .layer, .head { min-width: 0; --shade: color-mix(in srgb, var(--stream) 16%, var(--bg, Canvas)); }
          .box { display: flex; position: relative; min-height: var(--h, var(--box)); box-sizing: border-box; border: 1px solid var(--ink);
            border-radius: 4px; --ink: color-mix(in srgb, var(--hue, var(--fg)) 75%, var(--bg, Canvas)); background: var(--bg, Canvas); }
          .full { background: color-mix(in srgb, var(--hue) 20%, var(--bg, Canvas)); }
          .ends .box { width: min(100%, 17em); margin-inline: auto; }
          .box button, .slab { min-height: 0; padding: 0 0.5em; border: 0; border-radius: 3px; background: none; text-align: left; }
          .box button { flex: 1; min-width: 0; }
          .box small { display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
          .box > a { align-self: center; padding: 0 0.5em; min-width: 2em; line-height: calc(var(--box) - 2px); text-align: right; color: inherit; }
          [aria-pressed=true], .slab[aria-current] { outline: 3px solid var(--links, #06c); outline-offset: 1px; }
          .down { display: flex; justify-content: center; gap: 0.4em; height: 18px; line-height: 18px; font-size: 0.92em; }
          .stream { position: relative; padding-block: 4px; background: linear-gradient(var(--shade) 0 0) var(--at, center) / var(--band) 100% no-repeat; }
          .strip { width: calc(var(--band) - 8px); margin: 3px auto; }
          .stream > .box { position: absolute; left: 0; top: -8px; } .stream > small { position: absolute; right: 0; top: 0; }
          .slab { display: grid; grid-template-columns: 1fr var(--band) 1fr; width: 100%; gap: 4px 0; padding: 5px 0 3px; border-top: 1px dashed var(--line); border-radius: 0; }
          .slab .strip { grid-area: 3 / 2; }
          .slab i { font-style: normal; position: absolute; left: 4px; bottom: 2px; }
          .slab, .arm { position: relative; }
          .slab .box { align-items: center; justify-content: center; font-size: 0.93em; }
          .arm { padding-right: var(--gap); grid-column: 1; }
          .arm + .arm { padding: 0 0 0 var(--gap); grid-column: 3; grid-row: 2; }
          .arm::before, .arm::after, .plus { content: ""; position: absolute; }
          .arm::before, .arm::after { width: calc(var(--gap) - 3px); height: 8px; right: 0; background: var(--fg); opacity: 0.75;
            clip-path: polygon(0 40%, calc(100% - 7px) 40%, calc(100% - 7px) 0, 100% 50%, calc(100% - 7px) 100%, calc(100% - 7px) 60%, 0 60%); }
          .arm::before { top: 2px; rotate: 180deg; right: 2px; }
          .arm::after { bottom: 2px; }
          .arm + .arm::before, .layer .arm::before { inset: 2px auto auto 2px; rotate: none; }
          .arm + .arm::after, .layer .arm::after { inset: auto auto 2px 0; rotate: 180deg; }
          .plus { z-index: 1; bottom: -1px; right: -15px; width: 14px; height: 14px; border-radius: 50%; background: var(--bg, Canvas); border: 1px solid var(--fg);
            box-sizing: border-box; line-height: 12px; text-align: center; font-weight: 700; }
          .arm + .arm .plus, .layer .plus { right: auto; left: -15px; }
          .layer .stream { --at: left; padding-block: 8px; }
          .layer .strip { margin-inline: 4px; }
          .layer .arm, .layer .arm + .arm { margin: 4px 0 4px var(--band); padding: 0 0 0 var(--gap); }
          .frame { padding: 4px; border: 1px solid var(--hue); border-radius: 6px; }
          .frame > .box:first-child { margin-bottom: 4px; border-color: transparent; font-weight: 700; }
          .head .box { min-height: 88px; }
          .head .box svg { width: auto; height: 78px; }
          .head .box button { display: flex; justify-content: space-between; padding-top: 4px; }
          .head .box > a { position: absolute; left: 0; bottom: 2px; }
          @container (max-width: 739px) {
            .map { align-content: start; }
            .head .box { min-height: 120px; }
            .head .box svg { height: 110px; }
            .arrays { display: flex; gap: 1.2em; overflow-x: auto; scroll-snap-type: x mandatory; }
            .array { flex: 0 0 100%; scroll-snap-align: start; }
            .arrays:has(.array + .array) > .array { flex-basis: 88%; }
          }
          .name { margin: 0 0 0.5em; font-weight: 700; }
          #panel p { margin: 0.3em 0; }
          #panel .name { margin-top: 0.6em; font-size: 1.1em; }
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
      for (const name of ["layer", "head", "row", "of"]) this.bind(name);
      this.leaves = all(this.data.boxes).filter(({ parts }) => !parts.length);
      new ResizeObserver(() => (this.reserve(), this.wedges())).observe(this.$(".map"));
      this.steps(2500, { box: this.leaves[0].path });
      delete this.onKey; // the arrow keys go from box to box
      this.shadowRoot.addEventListener("click", ({ target }) => {
        const box = target.closest("[data-path]");
        const row = target.closest("tr[data-row]");
        if (box?.dataset.layer) this.view.layer = Number(box.dataset.layer);
        if (box) this.open(box.dataset.path);
        else if (row) this.change({ row: Number(row.dataset.row) });
      });
    }

    /** In the order of the data, from one box without others in it to the next. */
    move(by) {
      const to = this.leaves.findIndex(({ path }) => path === this.view.box) + by;
      if (this.leaves[to]) this.change({ box: this.leaves[to].path });
      return to + 1 < this.leaves.length;
    }

    /** Show a box, and if it is a frame those in it. The focus goes with it. */
    open(path) {
      this.change({ box: path });
      const goal = this.find(path)?.parts[0]?.path || path || this.data.boxes[0].path;
      this.$(`#level [data-path="${goal}"]`).focus({ preventScroll: true });
    }

    onKey({ key, target }) {
      if (target.matches("select")) return false;
      if (key === "Escape" || key === "Backspace") {
        const around = this.frame;
        if (around) this.open(this.frameOf(around));
        return true;
      }
      const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[key];
      if (!by || !target.closest("#level")) return false;
      const among = this.around(this.frameOf(target.dataset.path));
      const next = among[among.findIndex(({ path }) => path === target.dataset.path) + by];
      if (next) this.$(`#level [data-path="${next.path}"]`).focus();
      return true;
    }

    find(path) {
      return all(this.data.boxes).find((box) => box.path === path);
    }

    /** The path of the frame whose boxes are shown; "" is the whole engine. */
    get frame() {
      return this.find(this.view.box)?.parts.length ? this.view.box : this.frameOf(this.view.box);
    }

    frameOf(path) {
      return path.slice(0, Math.max(0, path.lastIndexOf("/")));
    }

    /** The boxes in a frame. */
    around(frame) {
      return frame ? this.find(frame).parts : this.data.boxes;
    }

    /** An array of the layer and the head that are chosen. */
    chosen({ values }) {
      const { layer, head } = this.view;
      return [layer, head].slice(0, depth(values) - 2).reduce((part, at) => part[at], values);
    }

    get state() {
      const box = this.find(this.view.box);
      const shown = (box?.arrays || []).map((array) => ({ ...array, values: this.chosen(array) }));
      const level = this.around(this.frame);
      return { ...this.view, frame: this.frame, level: level.map(({ name }) => name), shown, known: box || null };
    }

    draw() {
      const { box } = this.view;
      for (const name of ["layer", "head", "row", "of"]) this.$(`[name=${name}]`).value = this.view[name];
      const around = this.frame ? this.frame.split("/") : [];
      const crumbs = ["the engine", ...around].map((name, i) => {
        const here = i === around.length ? ' aria-current="true"' : "";
        return `<button type="button" data-path="${escape(around.slice(0, i).join("/"))}"${here}>${escape(name)}</button>`;
      });
      this.$(".crumbs").innerHTML = crumbs.join("");
      const level = this.around(this.frame);
      this.dim("#back", box === this.leaves[0].path);
      this.dim("#next", box === this.leaves.at(-1).path);
      this.$("#level").className = `at-${["whole", "layer", "layer", "head"][around.length]}`;
      this.$("#level").innerHTML = this.engine();
      this.wedges();
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

    /** Reserve the height of the tallest box, so that no step moves the text below. */
    reserve() {
      const [map, crumbs] = [".map", ".crumbs"].map((name) => this.$(name));
      if (map.clientWidth === this.measured) return;
      this.measured = map.clientWidth;
      const shown = this.view.box;
      for (const { style } of [map, crumbs]) style.minHeight = "";
      const heights = this.leaves.map(({ path }) => (this.change({ box: path }), [map.offsetHeight, crumbs.offsetHeight]));
      this.change({ box: shown });
      [map, crumbs].forEach(({ style }, i) => (style.minHeight = `${Math.max(...heights.map((each) => each[i]))}px`));
    }

    /** The engine, its layer that is chosen, and a head of it. */
    engine() {
      const { layer, head } = this.view;
      const at = this.data.boxes.findIndex(({ parts }) => parts.length);
      const [layers, counts] = [this.data.boxes[at], this.counts];
      const ends = (boxes) => `<div class="ends">${boxes}</div>`;
      const chain = (boxes) => boxes.map((box) => this.box(box, HIGH[0]) + this.down(box)).join("");
      const groups = this.branches(layers.parts);
      const arm = ([frame]) => `<span class="arm" aria-hidden="true" style="--hue:var(--${hue(frame)})"><span class="box full"
        style="--h:${this.height(frame, HIGH[0])}px">${escape(frame.name)}</span><b class="plus">+</b></span>`;
      const slab = (_, i) => `<button type="button" class="slab" data-path="layers" data-layer="${i}"${i === layer ? ' aria-current="true"' : ""}>
        ${groups.map(arm).join("")}${this.strip(i + 1)}<i>layer ${i}</i></button>`;
      const deep = all(layers.parts).find(({ path, parts }) => parts.length && this.frameOf(path) !== "layers");
      const inner = deep.parts.map((box) => this.box(box, 0, this.picture(box.arrays.at(-1), this.chosen(box.arrays.at(-1)), 10)));
      return `<div class="whole"><p class="name">The engine</p>${ends(chain(this.data.boxes.slice(0, at)))}
          <div class="stream">${this.strip(0)}${this.box(layers, 0)}<small>residual stream</small>${Array.from({ length: counts[0] }, slab).join("")}</div>
          ${ends(this.down(layers) + this.data.boxes.slice(at + 1).map((box) => this.box(box, HIGH[0])).join(this.down()))}</div>
        <div class="layer"><p class="name">Layer ${layer}</p><div class="stream">${this.strip(layer)}${groups
          .map((group, i) => `${this.branch(group)}${this.strip(layer + (i + 1) / groups.length)}`)
          .join("")}</div></div>
        <div class="head"><p class="name">Head ${head} of layer ${layer}</p><div class="boxes">${inner.join(this.down())}</div></div>`;
    }

    /** What is larger at the right: from the layer that is chosen, and from the box of its heads. */
    wedges() {
      const map = this.$(".map");
      const side = (selector) => [this.$(selector).getBoundingClientRect(), map.getBoundingClientRect().top];
      const wedge = (from, to) => {
        const [[small, top], [large]] = [side(from), side(to)];
        const ends = [[0, small.top], [100, large.top], [100, large.bottom], [0, small.bottom]];
        const points = ends.map(([x, y]) => `${x}% ${(y - top).toFixed()}px`).join(", ");
        const left = large.left - 39 - map.getBoundingClientRect().left;
        return `<div class="wedge" style="left:${left}px;top:0;height:100%;clip-path:polygon(${points})"></div>`;
      };
      this.$("#wedges").innerHTML = wedge(".slab[aria-current]", ".layer .stream") + wedge(".layer .frame .box:has([data-path$=GQA])", ".head .boxes");
    }

    /** Of the parts of a layer, each frame, which adds to the residual stream, and the boxes before it. */
    branches(parts) {
      const ends = parts.flatMap((part, i) => (part.parts.length ? [i + 1] : []));
      return ends.map((end, i) => parts.slice(ends[i - 1] || 0, end).reverse());
    }

    branch([frame, ...before]) {
      const parts = frame.parts.map((box) => this.box(box, HIGH[1])).reduce((all, box, i) => all + this.down(frame.parts[i - 1]) + box);
      return `<div class="arm" style="--hue:var(--${hue(frame)})">${before.map((box) => this.box(box, HIGH[1]) + this.down(box)).join("")}
        <div class="frame">${this.box(frame, 0)}${parts}</div><b class="plus">+</b></div>`;
    }

    /** How high a box is drawn, in pixels: its share of the weights or of the time. */
    height({ path, shares }, scale) {
      return (scale * shares[this.view.of]) / (path.startsWith("layers") ? this.counts[0] : 1);
    }

    box(box, scale, picture = "") {
      const height = this.height(box, scale);
      const rows = (box.rows || []).slice(0, 3).map(([what, words]) => `${what} ${words}`);
      const count = (box.weights / (box.path.startsWith("layers") ? this.counts[0] : 1)).toLocaleString("en");
      const large = scale && height > 20 && (this.view.of ? `${number(box.shares[1], 1)} % of the time` : `${count} weights`);
      const words = rows.length || large ? `<small>${escape(rows.join(" · ") || large)}</small>` : "";
      return `<div class="box${height > 4 ? " full" : ""}" style="--h:${Math.max(26, height).toFixed(1)}px;--hue:var(--${hue(box)})">
        <button type="button" data-path="${escape(box.path)}" aria-pressed="${box.path === this.view.box}">${escape(box.name)}${words}${picture}</button>
        <a href="${escape(box.href)}" title="${escape(box.title)}">${box.href.split("task-")[1].replaceAll("-", ".")}</a></div>`;
    }

    /** An arrow, and the shape of what a box gives to the next. */
    down(box) {
      const shape = box?.shape?.match(/= ([\d x]+)/)?.[1] || "";
      return `<div class="down">↓ ${shape.replaceAll(" x ", " × ")}</div>`;
    }

    /** Of the token that is followed, the residual stream after so many layers; a half is after attention. */
    strip(layers) {
      const [first, after, added] = ["embedding", "layers", "layers/attention"].map((path) => this.find(path).arrays[0].values);
      const { row } = this.view;
      const at = (i) => (i ? after[i - 1] : first)[row];
      const whole = Math.floor(layers);
      const values = whole === layers ? at(whole) : at(whole).map((x, i) => x + added[whole][row][i]);
      const largest = Math.max(...after.flat(2).map(Math.abs));
      return `<div class="strip" style="--role:var(--stream)">${squares([values], 10, largest)}</div>`;
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
        <div class="arrays" role="group" aria-label="Arrays"${box.arrays?.length > 1 ? ' tabindex="0"' : ""}>${(box.arrays || [])
          .map((array) => this.array(array))
          .join("")}</div>${this.words(box.rows || [])}`;
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
      return `<div class="array"><table style="--role:var(--${array.role || "fg"});max-width:${3.4 + 2.2 * values[row].length}em"><caption>${escape(array.name)}</caption><tbody>${lines.join("")}</tbody></table>
        <p class="numbers"><b>${escape(tokens[row])}</b>: <span class="mono">${numbers}</span>${rest ? ` and ${rest} more` : ""}</p></div>`;
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
