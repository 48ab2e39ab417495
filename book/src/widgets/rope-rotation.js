// <rope-rotation>: the pairs of a query and of a key as hands of clocks, turned by their positions.
// Data: {tokens, base, positions, query, key}, the last two a list of pairs.
"use strict";

{
  const { number, escape } = BookWidget;
  const ORDERS = {
    neighbors: (pairs) => pairs.flat(),
    halves: (pairs) => [...pairs.map((pair) => pair[0]), ...pairs.map((pair) => pair[1])],
  };
  const shorter = (angle) => Math.atan2(Math.sin(angle), Math.cos(angle)); // the shorter way round
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

  class RopeRotation extends BookWidget {
    constructor() {
      super();
      this.label = "RoPE: a query and a key, turned by their positions";
      this.view = { query: 4, key: 3, layout: "neighbors" };
    }

    get markup() {
      const last = this.data.positions - 1;
      const slider = (name, title) => `<label for="${name}">${title}</label>
        <input type="range" id="${name}" name="${name}" min="0" max="${last}" step="1">
        <output id="at-${name}"></output>`;
      return `<div class="sliders">${slider("query", "Query at")}${slider("key", "Key at")}</div>
        <div class="bar">
          <button type="button" id="back">Both one back</button><button type="button" id="on">Both one on</button>
          <fieldset><legend>Pairs in memory</legend>
            <label><input type="radio" name="layout" value="neighbors"> neighbors</label>
            <label><input type="radio" name="layout" value="halves"> halves</label>
          </fieldset>
        </div>
        <div class="beside pictures">
          <svg id="dials" viewBox="0 0 320 172" role="img" aria-labelledby="dials-title">
            <title id="dials-title"></title><g></g>${this.data.query.map((_, i) => this.grip(i)).join("")}</svg>
          <svg id="curve" viewBox="0 0 400 172" role="img" aria-labelledby="curve-title">
            <title id="curve-title"></title><g></g></svg>
        </div>
        <p class="how">Drag an arrow by its tip: it snaps to integer positions.</p>
        <div class="scroll cells" tabindex="0" role="group" aria-label="The rotated vectors"></div>
        <style>
          .pictures { margin-bottom: 0.5em; }
          #curve { flex-grow: 1.25; }
          .rim, .axis { fill: none; stroke: var(--fg, #000); stroke-opacity: 0.6; }
          .grip { fill: transparent; cursor: grab; }
          .grip:active { cursor: grabbing; }
          .how { margin: 0 0 0.5em; }
          .query { stroke: var(--query); stroke-width: 4; }
          .key { stroke: var(--key); stroke-width: 2; stroke-dasharray: 5 3; }
          .between { fill: var(--weights); fill-opacity: 0.25; }
          .dots { fill: var(--fg, #000); fill-opacity: 0.7; }
          .here { fill: var(--links, #06c); stroke: var(--fg, #000); stroke-width: 1.5; }
          td.odd { background: color-mix(in srgb, var(--links, #06c) 20%, var(--bg, #fff)); }
        </style>`;
    }

    start() {
      for (const name of ["query", "key", "layout"]) this.bind(name);
      this.$("#back").onclick = () => this.both(-1);
      this.$("#on").onclick = () => this.both(1);
      const dials = this.$("#dials");
      dials.addEventListener("pointerdown", (event) => this.take(event));
      // A finger on a dial turns a hand; anywhere else it scrolls the page.
      const stay = (event) => event.target.closest(".grip") && event.preventDefault();
      dials.addEventListener("touchstart", stay, { passive: false });
      dials.addEventListener("pointermove", (event) => this.turn(event));
      for (const end of ["pointerup", "pointercancel"]) dials.addEventListener(end, () => (this.held = null));
    }

    /** Where pair i has its dial. */
    center(i) {
      return [80 + 160 * i, 76, 62];
    }

    grip(i) {
      const [x, y, radius] = this.center(i);
      return `<circle class="grip" data-pair="${i}" cx="${x}" cy="${y}" r="${radius + 14}"/>`;
    }

    /** The angle of a pointer, seen from the middle of a dial. */
    angle({ clientX, clientY }, pair) {
      const { left, top, width } = this.$("#dials").getBoundingClientRect();
      const [x, y] = this.center(pair);
      return Math.atan2(y - ((clientY - top) * 320) / width, ((clientX - left) * 320) / width - x);
    }

    /** The hand next to the pointer is held. */
    take(event) {
      const grip = event.target.closest(".grip");
      if (!grip) return;
      const pair = Number(grip.dataset.pair);
      const angle = this.angle(event, pair);
      const off = (name) => {
        const [x, y] = this.turned(this.data[name], this.view[name])[pair];
        return Math.abs(shorter(Math.atan2(y, x) - angle));
      };
      const name = off("query") <= off("key") ? "query" : "key";
      this.held = { name, pair, angle, position: this.view[name] };
      this.$("#dials").setPointerCapture(event.pointerId);
      event.preventDefault(); // no text is selected
    }

    /** The hand that is held turns with the pointer, any number of times round, to the position nearest to it. */
    turn(event) {
      if (!this.held) return;
      const { name, pair } = this.held;
      const angle = this.angle(event, pair);
      const wanted = this.held.position + shorter(angle - this.held.angle) / this.pace(pair);
      Object.assign(this.held, { angle, position: wanted });
      this.change({ [name]: Math.min(this.data.positions - 1, Math.max(0, Math.round(wanted))) });
    }

    both(steps) {
      const { query, key } = this.view;
      if (this.within(query + steps) && this.within(key + steps))
        this.change({ query: query + steps, key: key + steps });
    }

    within(position) {
      return position >= 0 && position < this.data.positions;
    }

    /** How far pair i turns in one step. */
    pace(i) {
      return this.data.base ** (-i / this.data.query.length);
    }

    turned(pairs, position) {
      return pairs.map(([a, b], i) => {
        const angle = position * this.pace(i);
        return [a * Math.cos(angle) - b * Math.sin(angle), a * Math.sin(angle) + b * Math.cos(angle)];
      });
    }

    score(query, key) {
      return dot(this.turned(this.data.query, query).flat(), this.turned(this.data.key, key).flat());
    }

    get state() {
      const { query, key, layout } = this.view;
      const turned = (pairs, position) => ORDERS[layout](this.turned(pairs, position));
      return {
        ...this.view,
        distance: query - key,
        unturned: { query: ORDERS[layout](this.data.query), key: ORDERS[layout](this.data.key) },
        turned: { query: turned(this.data.query, query), key: turned(this.data.key, key) },
        score: this.score(query, key),
      };
    }

    draw() {
      const { query, key, layout } = this.view;
      const token = (at) => (this.data.tokens[at] ? `${at}, ${this.data.tokens[at]}` : String(at));
      for (const name of ["query", "key"]) {
        const slider = this.$(`#${name}`);
        slider.value = this.view[name];
        slider.setAttribute("aria-valuetext", token(this.view[name]));
        this.$(`#at-${name}`).textContent = token(this.view[name]);
      }
      for (const radio of this.shadowRoot.querySelectorAll("[name=layout]")) radio.checked = radio.value === layout;
      this.dim("#back", !this.within(Math.min(query, key) - 1));
      this.dim("#on", !this.within(Math.max(query, key) + 1));
      const hands = [this.turned(this.data.query, query), this.turned(this.data.key, key)];
      this.$("#dials g").innerHTML = hands[0].map((hand, i) => this.dial(i, hand, hands[1][i])).join("");
      this.$("#dials-title").textContent = hands[0]
        .map(
          (hand, i) =>
            `Pair ${i}: query at ${number(query * this.pace(i))} radians, key at ${number(key * this.pace(i))}.`,
        )
        .join(" ");
      this.curve();
      this.$(".scroll").innerHTML = this.table(hands);
      const parts = hands[0].map((hand, i) => `pair ${i} adds ${number(dot(hand, hands[1][i]), 4)}`);
      this.say(
        `Query at ${query}, key at ${key}, distance ${number(query - key, 0)}: ${parts.join(", ")}. ` +
          `The score is ${number(this.score(query, key), 4)}.`,
      );
    }

    dial(i, query, key) {
      const [x, y, radius] = this.center(i);
      const end = ([a, b], r = radius) => `${(x + r * a).toFixed(2)} ${(y - r * b).toFixed(2)}`;
      const [from, to] = [key, query].map(([a, b]) => Math.atan2(b, a));
      const swept = shorter(to - from);
      const at = (angle, r) => end([Math.cos(angle), Math.sin(angle)], r);
      const aside = Math.abs(swept) < 0.3 ? to - (swept < 0 ? -0.3 : 0.3) : from; // two letters need their room
      const wedge = `M${x} ${y}L${at(from, 26)}A26 26 0 0 ${swept > 0 ? 0 : 1} ${at(to, 26)}Z`;
      return `<circle class="rim" cx="${x}" cy="${y}" r="${radius}"/><path class="between" d="${wedge}"/>
        <path class="key" d="M${x} ${y}L${end(key)}"/><path class="query" d="M${x} ${y}L${end(query)}"/>
        <text x="${x}" y="160" text-anchor="middle">pair ${i}: ${number(this.pace(i), 1)} rad per position</text>
        ${this.mark("k", at(aside, radius + 9))}${this.mark("q", at(to, radius + 9))}`;
    }

    mark(letter, point) {
      const [x, y] = point.split(" ");
      return `<text x="${x}" y="${y}" dy="4" text-anchor="middle">${letter}</text>`;
    }

    /** The score for every distance that the sliders reach. */
    curve() {
      const far = this.data.positions - 1;
      const scores = Array.from({ length: 2 * far + 1 }, (_, i) => this.score(i - far, 0));
      const [low, high] = [Math.floor(Math.min(...scores)), Math.ceil(Math.max(...scores))];
      const point = (distance, score) => [
        (30 + (360 * (distance + far)) / (2 * far)).toFixed(1),
        (10 + (120 * (high - score)) / (high - low)).toFixed(1),
      ];
      const dots = scores
        .map((score, i) => point(i - far, score))
        .map(([x, y]) => `<circle cx="${x}" cy="${y}" r="2.5"/>`);
      const between = Array.from({ length: 8 * far + 1 }, (_, i) => i / 4 - far);
      const line = between.map((distance) => point(distance, this.score(distance, 0)).join(" "));
      const distance = this.view.query - this.view.key;
      const [x, y] = point(distance, this.score(this.view.query, this.view.key));
      const ticks = [-far, 0, far].map(
        (d) => `<text x="${point(d, 0)[0]}" y="147" text-anchor="middle">${number(d, 0)}</text>`,
      );
      const marks = [low, 0, high].map(
        (s) => `<text x="22" y="${point(0, s)[1]}" dy="4" text-anchor="end">${number(s, 0)}</text>`,
      );
      this.$("#curve g").innerHTML =
        `<path class="axis" d="M30 ${point(0, 0)[1]}H390M30 10V130"/>${ticks.join("")}${marks.join("")}
        <text x="210" y="166" text-anchor="middle">distance (query − key); vertical: score</text>
        <path class="axis" d="M${x} 130V${y}"/><path class="axis" d="M${line.join("L")}"/>
        <g class="dots">${dots.join("")}</g><circle class="here" cx="${x}" cy="${y}" r="6"/>`;
      this.$("#curve-title").textContent =
        `The score against the distance, from ${-far} to ${far}; at ${distance} it is ${number(
          this.score(this.view.query, this.view.key),
          4,
        )}.`;
    }

    table(hands) {
      const order = ORDERS[this.view.layout];
      const pairs = order(hands[0].map((_, i) => [i, i]));
      const line = (title, numbers) => {
        const cells = order(numbers).map((x, d) => `<td${pairs[d] % 2 ? ' class="odd"' : ""}>${number(x)}</td>`);
        return `<tr><th scope="row">${escape(title)}</th>${cells.join("")}</tr>`;
      };
      const heads = pairs.map((pair) => `<th scope="col">pair ${pair}</th>`);
      const named = (title, at) => title + (this.data.tokens[at] ? ` “${this.data.tokens[at]}”` : "");
      const rows = ["query", "key"].map((name, i) => line(named(name, this.view[name]), hands[i]));
      return `<table><caption>The rotated vectors, in memory order</caption>
        <thead><tr><td style="border:0"></td>${heads.join("")}</tr></thead>
        <tbody>${rows.join("")}</tbody></table>`;
    }
  }
  customElements.define("rope-rotation", RopeRotation);
}
