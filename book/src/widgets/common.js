// What the book's widgets share: a frame in the colors of the theme, keys that stay inside, one line that speaks.
//
// A widget's children are what a reader sees without JavaScript and in print; on the screen its shadow stands in
// front of them. A widget gives `label` (for screen readers), `markup` (its inside, built once), `start()` and
// `draw()`; `this.view` is what the reader has chosen, and `this.change({...})` changes it and draws.
// In the markup, `.beside` puts parts next to each other where there is room; `.cells` are tables of boxes, others have
// lines; `.legend` and `.figures` explain the drawing above them, which fills the card.
"use strict";

class BookWidget extends HTMLElement {
  connectedCallback() {
    if (this.shadowRoot) return; // moved within the page: the state stays
    const json = this.querySelector('script[type="application/json"]');
    this.data = json ? JSON.parse(json.textContent) : {};
    const root = this.attachShadow({ mode: "open" });
    root.innerHTML = `<style>${BookWidget.style}</style>
      <div class="live" role="group" aria-labelledby="label"><p id="label">${this.label}</p>${this.markup}
      <p class="say" role="status"></p></div><slot></slot>`;
    // mdBook turns the page on the arrow keys and opens the search on `s` wherever a button has the focus.
    root.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (this.onKey(event)) event.preventDefault();
      event.stopPropagation();
    });
    this.start();
    this.draw();
    new ResizeObserver(() => this.scaleText()).observe(root.querySelector(".live"));
  }

  /** A drawing's text is as large as the page's small text, however large the drawing is: its scale says so. */
  scaleText() {
    for (const svg of this.shadowRoot.querySelectorAll("svg[viewBox]")) {
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      if (scale) svg.style.setProperty("--scale", scale.toFixed(3));
    }
  }

  /** What a key does; true if it did something. */
  onKey() {
    return false;
  }

  start() {}

  change(view) {
    Object.assign(this.view, view);
    this.draw();
  }

  $(selector) {
    return this.shadowRoot.querySelector(selector);
  }

  /** The slider, list, box or radio buttons called `name` change `view[name]`. */
  bind(name) {
    for (const control of this.shadowRoot.querySelectorAll(`[name=${name}]`)) {
      control.addEventListener("input", () => {
        const value = control.type === "checkbox" ? control.checked : control.value;
        this.change({ [name]: control.type === "range" || control.dataset.number ? Number(value) : value });
      });
    }
  }

  say(text) {
    const line = this.$(".say");
    if (line.textContent !== text) line.textContent = text; // said again only when it has changed
  }

  /** The list `.figures`: numbers under their names. */
  figures(named) {
    const each = ([name, figure]) => `<div><dt>${name}</dt><dd>${BookWidget.escape(String(figure))}</dd></div>`;
    this.$(".figures").innerHTML = named.map(each).join("");
  }

  /** A button at the end of its way is dimmed, never `disabled`: that would drop the focus, and the next key too. */
  dim(selector, dimmed) {
    this.$(selector).setAttribute("aria-disabled", String(dimmed));
  }

  /** What an arrow key adds to a step; 0 where the key belongs to a slider or a list. */
  static arrow(event) {
    return event.target.matches("select, input") ? 0 : ({ ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0);
  }

  /** The button #play: calls `advance` every so many milliseconds, until it returns false or the button is pressed. */
  play(on, advance, every) {
    clearInterval(this.timer);
    this.timer = on && setInterval(() => advance() || this.play(false), every);
    this.$("#play").textContent = on ? "Pause" : "Play";
  }

  /** The buttons of `stepBar` and the arrow keys call `move(by)`, which returns whether there is a further step. */
  steps(every, first) {
    this.onKey = (event) => {
      const by = BookWidget.arrow(event);
      if (by) this.move(by);
      return by !== 0;
    };
    this.$("#back").onclick = () => this.move(-1);
    this.$("#next").onclick = () => this.move(1);
    this.$("#play").onclick = () => {
      if (!this.timer && this.$("#next").getAttribute("aria-disabled") === "true") this.change(first);
      this.play(!this.timer, () => this.move(1), every);
    };
  }

  static stepBar(next) {
    const button = (id, text) => `<button type="button" id="${id}">${text}</button>`;
    return `<div class="bar">${button("back", "Back")}${button("next", next)}${button("play", "Play")}</div>`;
  }

  /** A slider with its name and number, for the grid `.sliders`. */
  static slider(name, title, min, max, step = 1) {
    return `<label for="${name}">${title}</label>
      <input type="range" id="${name}" name="${name}" min="${min}" max="${max}" step="${step}"><output id="at-${name}"></output>`;
  }

  /** A list of choices, whose value is the number of the chosen one, or what `values` has for it. */
  static list(name, title, choices, values = choices.map((_, i) => i)) {
    const options = choices.map((choice, i) => `<option value="${values[i]}">${BookWidget.escape(String(choice))}</option>`);
    return `<label>${title} <select name="${name}" data-number="yes">${options.join("")}</select></label>`;
  }

  static number(x, digits = 2) {
    if (!Number.isFinite(x)) return x < 0 ? "−∞" : "∞";
    const text = Math.abs(x).toFixed(digits);
    return x < 0 && Number(text) !== 0 ? `−${text}` : text;
  }

  /** A vector as bars, up or down: filled above zero, hollow below. The bar `lit` has a mark under it. */
  static strip(vector, role, largest, lit = -1) {
    const [step, half] = [320 / vector.length, 17];
    const bars = vector.map((x, i) => {
      const height = Math.max(half * Math.min(1, Math.abs(x) / largest), 0.3).toFixed(1);
      const side = `x="${(i * step + 0.4).toFixed(1)}" width="${(step - 0.8).toFixed(1)}" height="${height}"`;
      return `<rect ${side} y="${x > 0 ? half - height : half}" class="${x > 0 ? "fill" : "hollow"}"/>`;
    });
    const mark = lit < 0 ? "" : `<path d="M${((lit + 0.5) * step).toFixed(1)} 36l-4 6h8z" class="mark"/>`;
    return `<svg viewBox="0 0 320 43" class="strip" aria-hidden="true" style="--role:var(--${role})">${bars.join("")}${mark}</svg>`;
  }

  /** An axis of time under a drawing: marks at round numbers up to `last`; `x` places a time. */
  static ticks(last, x, y, unit = "") {
    const every = [1, 2, 5, 10, 20, 50, 100, 200].find((each) => last / each <= 6);
    const times = Array.from({ length: Math.floor(last / every) + 1 }, (_, i) => i * every);
    const line = `<path class="axis" d="M${x(0)} ${y}H${x(last)}"/>`;
    return [line, ...times.map((time) => `<path class="axis" d="M${x(time)} ${y}v3"/><text x="${x(time)}" y="${y + 13}" text-anchor="middle">${time}${time ? unit : ""}</text>`)];
  }

  /** An array as squares, as `dev/book/drawing` draws them: the size says how large, hollow is below zero, a dot hidden. */
  static squares(values, cell, largest, hidden = () => false) {
    const drawn = values.flatMap((row, i) =>
      row.map((x, j) => {
        const [left, top] = [(j + 0.5) * cell, (i + 0.5) * cell];
        if (hidden(i, j)) return `<circle cx="${left}" cy="${top}" r="${Math.max(0.8, cell / 16)}" class="dot"/>`;
        if (!x) return "";
        const side = Math.max(1.5, (cell - 1.5) * Math.sqrt(Math.min(1, Math.abs(x) / largest)));
        const place = [left - side / 2, top - side / 2, side].map((at) => at.toFixed(1));
        const kind = x > 0 ? "fill" : "hollow";
        return `<rect x="${place[0]}" y="${place[1]}" width="${place[2]}" height="${place[2]}" class="${kind}"/>`;
      }),
    );
    const [width, height] = [cell * values[0].length, cell * values.length];
    return `<svg viewBox="0 0 ${width} ${height}" aria-hidden="true">${drawn.join("")}</svg>`;
  }

  static escape(text) {
    return text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
  }
}

BookWidget.style = `
  :host { display: block; max-width: var(--column); margin: 1.5em 0;
    --line: color-mix(in srgb, var(--fg, CanvasText) 30%, var(--bg, Canvas)); }
  .live { padding: 0.8em 1em; border: 1px solid var(--line); border-radius: 8px;
    color: var(--fg, CanvasText); background: var(--bg, Canvas); font-size: 0.9em; line-height: 1.45; }
  slot { display: none; }
  @media print { .live { display: none; } slot { display: block; } }
  .bar { display: inline-flex; flex-wrap: wrap; gap: 0.5em 0.8em; align-items: center; max-width: 100%;
    margin: 0 1.6em 0.7em 0; vertical-align: top; }
  .beside { display: flex; flex-wrap: wrap; gap: 0.8em 1.6em; align-items: flex-start; }
  .beside > * { flex: 1 1 17em; min-width: 0; }
  .beside > .scroll { flex-basis: auto; max-width: 100%; }
  .live { container-type: inline-size; }
  @container (min-width: 600px) { .beside > .scroll { flex-grow: 0; } }
  .legend { display: flex; flex-wrap: wrap; gap: 0.2em 1.4em; margin: 0.4em 0 0.6em; font-size: 0.9em; }
  :where(.legend) i { display: inline-block; box-sizing: border-box; width: 0.9em; height: 0.9em; vertical-align: -0.1em;
    border: 1px solid currentColor; }
  label { display: inline-flex; gap: 0.4em; align-items: center; max-width: 100%; }
  select { min-width: 0; }
  fieldset { display: inline-flex; flex-wrap: wrap; gap: 0.2em 0.9em; margin: 0; padding: 0; border: 0; }
  legend { float: left; padding: 0; margin-right: 0.7em; }
  button, select, input { font: inherit; color: inherit; }
  #label { margin: 0 0 0.7em; padding: 0 0 0.4em; border-bottom: 1px solid var(--line); font-weight: 700; }
  button, select { min-height: 2.1em; padding: 0.2em 0.8em; background: var(--quote-bg, ButtonFace); border: 1px solid
    color-mix(in srgb, var(--fg, CanvasText) 60%, var(--bg, Canvas)); border-radius: 6px; cursor: pointer; }
  :is(button, select):hover { border-color: var(--links, #06c);
    background: color-mix(in srgb, var(--links, #06c) 12%, var(--bg, Canvas)); }
  #next { color: var(--bg, Canvas); background: var(--links, #06c); border-color: var(--links, #06c); }
  #next:hover { border-color: var(--fg, CanvasText); background: color-mix(in srgb, var(--links, #06c) 80%, var(--fg, CanvasText)); }
  #play { min-width: 4.8em; }
  :is(button, #next)[aria-disabled=true] { color: inherit; background: none; border-style: dashed; cursor: default; }
  input { accent-color: var(--links, #06c); }
  input[type=range] { flex: 1; min-width: 7em; }
  .sliders { display: grid; grid-template-columns: max-content minmax(6em, 1fr) max-content; gap: 0.3em 0.8em;
    align-items: center; margin-bottom: 0.7em; }
  .sliders input { min-width: 0; width: 100%; margin-inline: 0; }
  .sliders output { min-width: 3.2em; text-align: right; }
  .sliders output, .mono, td { font-family: var(--mono-font, monospace); font-variant-numeric: tabular-nums; }
  :focus-visible { outline: 3px solid var(--links, #06c); outline-offset: 2px; }
  .scroll { overflow-x: auto; background:
    linear-gradient(to right, var(--bg, Canvas) 40%, transparent) left -2px top -2px / 2em calc(100% + 4px) no-repeat local,
    linear-gradient(to left, var(--bg, Canvas) 40%, transparent) right -2px top -2px / 2em calc(100% + 4px) no-repeat local,
    linear-gradient(to right, var(--line), transparent) left / 0.8em 100% no-repeat scroll,
    linear-gradient(to left, var(--line), transparent) right / 0.8em 100% no-repeat scroll; }
  table { width: 100%; border-collapse: separate; border-spacing: 0; margin: 0; }
  caption { text-align: left; padding-bottom: 0.3em; }
  th { font-weight: 700; padding: 0.25em 0.8em 0.25em 0; white-space: nowrap; }
  :where(th) { text-align: left; }
  :where(td, thead th:not(:first-child)) { text-align: right; }
  td { min-width: 3.2em; padding: 0.3em 0.4em; white-space: nowrap; font-size: 0.9em; }
  :where(td, tbody th) { border-bottom: 1px solid var(--line); }
  tbody th { vertical-align: baseline; }
  thead th:not(:first-child) { padding-right: 0.36em; }
  :where(p) { margin: 0 0 0.5em; }
  .cells table { border-spacing: 3px; }
  .cells td { min-width: 2.9em; padding: 0.3em 0.25em; text-align: center; border: 1px solid var(--line); border-radius: 3px; }
  .cells th { border: 0; padding: 0.1em 0.5em 0.1em 0; text-align: right; vertical-align: middle; }
  .cells thead th:not(:first-child) { text-align: center; }
  @container (min-width: 431px) { tbody th { width: 1%; } }
  @container (max-width: 430px) { .bar { display: flex; margin-right: 0; } td { min-width: 2.6em; padding: 0.3em 0 0.3em 0.5em; } th { white-space: normal; }
    .cells td { min-width: 2.6em; padding: 0.25em 0.05em; font-size: 0.84em; } .cells table { border-spacing: 2px; } .cells tbody th { white-space: nowrap; }
    .sliders { grid: auto-flow dense / 1fr max-content; } .sliders input[type=range] { grid-column: 1 / -1; } }
  thead td, .cells thead td { border: 0; }
  @media (pointer: coarse) { button, select, input[type=range], label { min-height: 44px; }
    .sliders { row-gap: 0; } .sliders label { min-height: 0; } @container (max-width: 430px) { .sliders input[type=range] { margin-top: -10px; } } input:is([type=checkbox], [type=radio]) { width: 1.5em; height: 1.5em; } }
  svg { display: block; width: 100%; max-width: 100%; height: auto; }
  svg * { vector-effect: non-scaling-stroke; }
  svg text { fill: var(--fg, CanvasText); font-family: inherit;
    font-size: clamp(11px / var(--scale, 1), 11px, 13.5px / var(--scale, 1)); }
  svg.strip { min-width: 12em; }
  .fill { fill: var(--role); }
  .hollow { fill: var(--bg, Canvas); stroke: var(--role); }
  .grid { fill: none; stroke: var(--fg, CanvasText); stroke-opacity: 0.6; stroke-dasharray: 1 3; }
  .axis { fill: none; stroke: var(--fg, CanvasText); stroke-opacity: 0.7; }
  .dot { fill: var(--rules, GrayText); }
  .mark { fill: var(--fg, CanvasText); }
  dl.figures { display: flex; flex-wrap: wrap; gap: 0.5em 1.8em; margin: 0.8em 0 0; padding: 0.5em 0 0; border-top: 1px solid var(--line); }
  dl.figures dt { font-size: 0.82em; }
  dl.figures dd { margin: 0; font-family: var(--mono-font, monospace); font-weight: 700; font-variant-numeric: tabular-nums; }
  .say { margin: 0.6em 0 0; min-height: 2.9em; }
`;
globalThis.BookWidget = BookWidget;
