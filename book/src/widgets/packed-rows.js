// <packed-rows>: documents packed into rows: what a token sees, its position and its target, with and without the mask.
// Data: {eos, documents: [{ids, texts}]}: the first tokens of some stories; a slider says how many of them are packed.
"use strict";

{
  const [CELL, LINE, LEFT, PADDING, IGNORE] = [34, 11, 44, -1, -100];
  const { escape } = BookWidget;
  const letter = (id) => (id < 0 ? "–" : String.fromCharCode(65 + id));

  class PackedRows extends BookWidget {
    constructor() {
      super();
      this.label = "Documents packed into rows, and what each token sees";
      this.view = { a: 3, b: 2, c: 5, d: 4, length: 8, masked: true, token: 5 };
    }

    get markup() {
      const { slider } = BookWidget;
      const lengths = ["a", "b", "c", "d"].map((name) => slider(name, `tokens of document ${name.toUpperCase()}`, 1, 10));
      return `<div class="sliders">${lengths.join("")}${slider("length", "row length L", 4, 12)}</div>
        <div class="bar"><label><input type="checkbox" name="masked"> document mask</label>
          <button type="button" id="back">Previous token</button><button type="button" id="next">Next token</button></div>
        <svg id="rows" role="img" aria-labelledby="rows-title"><title id="rows-title"></title><g></g></svg>
        <p class="legend"><span><i class="at"></i> selected token</span><span><i class="seen"></i> it sees</span>
          <span><i class="leak"></i> it sees, of another document</span><span><i class="goal"></i> its target</span></p>
        <dl class="figures"></dl>
        <style>
          #rows text { text-anchor: middle; pointer-events: none; }
          #rows .cell { fill: var(--bg, Canvas); stroke: var(--fg, #000); stroke-opacity: 0.6; cursor: pointer; }
          #rows .cell.odd { stroke-dasharray: 3 2; }
          .seen { fill: color-mix(in srgb, var(--links, #06c) 28%, var(--bg, Canvas)) !important; background: color-mix(in srgb, var(--links, #06c) 28%, var(--bg, Canvas)); }
          #rows .cell.leak { stroke: var(--fg, CanvasText); stroke-width: 2; stroke-opacity: 1; stroke-dasharray: 2 2; }
          .leak { fill: color-mix(in srgb, var(--second) 30%, var(--bg, Canvas)) !important; background: color-mix(in srgb, var(--second) 30%, var(--bg, Canvas)); }
          #rows .at, #rows .goal { fill: none !important; stroke: var(--fg, CanvasText); stroke-width: 2.5; pointer-events: none; }
          #rows .goal { stroke-dasharray: 4 2; }
          .legend i { border-color: var(--line); }
          .legend .at { border: 2px solid var(--fg, CanvasText); }
          .legend .goal { width: 18px; border: 1.5px dashed var(--fg, CanvasText); }
        </style>`;
    }

    start() {
      for (const name of ["a", "b", "c", "d", "length", "masked"]) this.bind(name);
      this.$("#back").onclick = () => this.move(-1);
      this.$("#next").onclick = () => this.move(1);
      const select = (event) => {
        const token = event.target.dataset?.token;
        if (token !== undefined && Number(token) !== this.view.token) this.change({ token: Number(token) });
      };
      this.$("#rows").addEventListener("pointerover", select);
      this.$("#rows").addEventListener("pointerdown", select);
    }

    onKey(event) {
      const by = BookWidget.arrow(event);
      if (by) this.move(by);
      return by !== 0;
    }

    move(by) {
      this.change({ token: Math.max(0, Math.min(this.stream.length - 1, this.view.token + by)) });
    }

    /** The tokens of all rows: {id, text, document, target, position}. */
    get stream() {
      const { length } = this.view;
      const found = [];
      ["a", "b", "c", "d"].forEach((name, document) => {
        const { ids, texts } = this.data.documents[document];
        const count = this.view[name];
        for (let i = 0; i <= count; i++) {
          const target = i === count ? IGNORE : i + 1 < count ? ids[i + 1] : this.data.eos;
          found.push({ id: i < count ? ids[i] : this.data.eos, text: i < count ? texts[i] : "eos", document, target });
        }
      });
      while (found.length % length) found.push({ id: this.data.eos, text: "", document: PADDING, target: IGNORE });
      found.forEach((token, i) => {
        const before = i % length ? found[i - 1] : undefined;
        token.position = before && before.document === token.document ? before.position + 1 : 0;
      });
      return found;
    }

    get state() {
      const [stream, { length, masked }] = [this.stream, this.view];
      const at = Math.min(this.view.token, stream.length - 1);
      const sees = (query, key) =>
        Math.floor(query / length) === Math.floor(key / length) && key <= query && (!masked || stream[query].document === stream[key].document);
      const rows = (field) => Array.from({ length: stream.length / length }, (_, n) => stream.slice(n * length, (n + 1) * length).map(field));
      const mask = rows((_, i) => i).map((_, n) =>
        Array.from({ length }, (_, i) => Array.from({ length }, (_, j) => Number(sees(n * length + i, n * length + j)))),
      );
      const seen = stream.map((_, key) => key).filter((key) => sees(at, key));
      const leaks = stream.reduce((sum, _, query) => {
        if (stream[query].document < 0) return sum;
        return sum + stream.filter((key, k) => sees(query, k) && key.document !== stream[query].document).length;
      }, 0);
      return {
        ...this.view, token: at, seen, leaks, mask,
        tokens: rows(({ id }) => id), targets: rows(({ target }) => target),
        document_ids: rows(({ document }) => document), positions: rows(({ position }) => position),
        counted: stream.filter(({ target }) => target !== IGNORE).length,
      };
    }

    draw() {
      const [stream, state] = [this.stream, this.state];
      const { length, masked, token, seen, leaks, counted } = state;
      for (const name of ["a", "b", "c", "d", "length"]) {
        this.$(`[name=${name}]`).value = this.view[name];
        this.$(`#at-${name}`).textContent = this.view[name];
      }
      this.$("[name=masked]").checked = masked;
      this.dim("#back", token === 0);
      this.dim("#next", token === stream.length - 1);
      const me = stream[token];
      const wide = LEFT + length * CELL;
      const scale = Math.min(1, (this.$("#rows").clientWidth || wide) / wide); // text keeps its size on a phone, cells do not
      const [HIGH, most] = [30 / scale, scale < 0.8 ? 3 : 6];
      const place = (i) => `x="${LEFT + (i % length) * CELL + 1}" y="${Math.floor(i / length) * HIGH + 1}" width="${CELL - 2}" height="${HIGH - 4}"`;
      const cells = stream.map((each, i) => {
        const shade = !seen.includes(i) ? "" : each.document === me.document ? "seen" : "leak";
        const [x, y] = [LEFT + (i % length + 0.5) * CELL, Math.floor(i / length) * HIGH];
        const text = each.text.length > most ? `${each.text.slice(0, most - 1)}…` : each.text;
        return `<rect class="cell ${each.document % 2 ? "odd" : ""} ${shade}" ${place(i)} data-token="${i}"/>
          <text x="${x}" y="${y + LINE / scale}">${letter(each.document)}${each.document < 0 ? "" : each.position}</text><text x="${x}" y="${y + (2 * LINE) / scale}">${escape(text)}</text>`;
      });
      const counts = stream.length / length;
      const names = Array.from({ length: counts }, (_, n) => `<text x="${LEFT / 2}" y="${(n + 0.57) * HIGH}">row ${n}</text>`);
      const goal = me.target === IGNORE ? "" : `<rect class="goal" ${place(token + 1)}/>`;
      this.$("#rows").setAttribute("viewBox", `0 0 ${wide} ${counts * HIGH}`);
      this.$("#rows g").innerHTML = `${names.join("")}${cells.join("")}${goal}<rect class="at" ${place(token)}/>`;
      this.$("#rows-title").textContent = `${counts} rows of ${length} tokens`;
      const padding = stream.filter(({ document }) => document < 0).length;
      this.figures([["rows", counts], ["padding", padding], ["targets that count", counted], ["visible pairs of two documents", leaks]]);
      const others = seen.filter((i) => stream[i].document !== me.document).length;
      const name = me.document < 0 ? "Padding" : `"${me.text}", position ${me.position} of document ${letter(me.document)} in row ${Math.floor(token / length)},`;
      const target = me.target === IGNORE ? "It has no target" : `Its target is "${stream[token + 1].text}"`;
      const next = me.target !== IGNORE && (token + 1) % length === 0 ? ", the first token of the next row" : "";
      this.say(
        `${name} sees ${seen.length} ${seen.length === 1 ? "token" : "tokens"}` +
          (others ? `, ${others} of them of another document: a leak. ` : ". ") + `${target}${next}.`,
      );
    }
  }
  customElements.define("packed-rows", PackedRows);
}
