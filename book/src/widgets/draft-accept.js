// <draft-accept>: a draft token is accepted or rejected, what replaces it, and when drafting pays.
// Data: {tokens, target, draft}: the probabilities of tokens, or groups of them, under both models, each summing to 1.
"use strict";

{
  const { number, escape } = BookWidget;
  const [LEFT, WIDE, ROW, BAR] = [96, 222, 50, 15];

  class DraftAccept extends BookWidget {
    constructor() {
      super();
      this.label = "Speculative decoding: accept or reject a draft token";
      this.view = { token: 0, u: 0.7, mix: 0, k: 4, v: 1, c: 0.1 };
    }

    get markup() {
      const { list, slider } = BookWidget;
      return `<div class="bar">${list("token", "Draft token", this.data.tokens)}</div>
        <div class="sliders">${slider("u", "uniform sample u", 0, 0.99, 0.01)}${slider("mix", "draft model: − worse, + better", -1, 1, 0.05)}</div>
        <div id="rows" role="img">${this.data.tokens.map(() => `<svg viewBox="0 0 ${LEFT + WIDE + 40} ${ROW}"><g></g></svg>`).join("")}</div>
        <p class="legend"><span><i class="q"></i> draft, q</span><span><i class="p"></i> target, p</span><span><i class="rest"></i> residual, pale if the token is accepted</span></p>
        <div class="sliders">${slider("k", "draft tokens k", 1, 8, 1)}${slider("v", "time of k + 1 rows, v", 1, 5, 0.1)}${slider("c", "time of a draft token, c", 0, 0.5, 0.02)}</div>
        <p class="speed"></p>
        <style>
          #rows { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20em), 1fr)); gap: 0 1em; }
          .q { fill: var(--bg, #fff); stroke: var(--links); background: var(--bg, #fff); border-color: var(--links) !important; }
          .p { fill: var(--links); background: var(--links); border-color: var(--links) !important; }
          .rest { fill: var(--second); background: var(--second); border-color: var(--second) !important; }
          .pale { opacity: 0.35; }
          .speed { margin: 0 0 0.4em; }
        </style>`;
    }

    start() {
      for (const name of Object.keys(this.view)) this.bind(name);
    }

    /** The draft model's probabilities: towards the target's, or away from them, towards q · q / p. */
    draft(mix) {
      const { target, draft } = this.data;
      const away = draft.map((q, i) => (q * q) / target[i]);
      const total = away.reduce((sum, x) => sum + x, 0);
      const to = (i) => (mix > 0 ? target[i] : away[i] / total);
      return draft.map((q, i) => (1 - Math.abs(mix)) * q + Math.abs(mix) * to(i));
    }

    get state() {
      const { token, u, mix, k, v, c } = this.view;
      const [p, q] = [this.data.target, this.draft(mix)];
      const above = p.map((x, i) => Math.max(x - q[i], 0));
      const total = above.reduce((sum, x) => sum + x, 0);
      const residual = above.map((x) => (total > 1e-9 ? x / total : 0));
      const rate = p.reduce((sum, x, i) => sum + Math.min(x, q[i]), 0);
      const tokens = rate > 1 - 1e-9 ? k + 1 : (1 - rate ** (k + 1)) / (1 - rate);
      return { ...this.view, q, residual, ratio: p[token] / q[token], accepted: u * q[token] < p[token], rate, tokens, speed: tokens / (v + k * c) };
    }

    draw() {
      const { token, u, q, residual, ratio, accepted, rate, tokens, speed, k, v, c, mix } = this.state;
      this.$("[name=token]").value = token;
      for (const [name, text] of Object.entries({ u: number(u), mix: number(mix), k: String(k), v: number(v, 1), c: number(c) })) {
        this.$(`#${name}`).value = this.view[name];
        this.$(`#at-${name}`).textContent = text;
      }
      const p = this.data.target;
      const largest = Math.max(...p, ...q, ...residual);
      const bar = (x, at, kind) => {
        const wide = (x / largest) * WIDE;
        return `<rect class="${kind}" x="${LEFT}" y="${at * BAR + 2}" width="${wide.toFixed(1)}" height="12"/>
          <text x="${(LEFT + 4 + wide).toFixed(1)}" y="${at * BAR + 12}">${number(x)}</text>`;
      };
      this.shadowRoot.querySelectorAll("#rows g").forEach((row, i) => {
        const weight = i === token ? ' font-weight="700"' : "";
        row.innerHTML = `<text x="${LEFT - 6}" y="20" text-anchor="end"${weight}>${escape(this.data.tokens[i])}</text>
          ${bar(q[i], 0, "q")}${bar(p[i], 1, "p")}${bar(residual[i], 2, accepted ? "rest pale" : "rest")}`;
      });
      this.$("#rows").setAttribute("aria-label", "Probabilities of tokens under both models");
      this.$(".speed").textContent =
        `Acceptance rate a = Σ min(p, q) = ${number(rate)}: a step yields ${number(tokens)} tokens, in ${number(v + k * c)} times the time of a step. Speed-up ${number(speed)}.`;
      const name = this.data.tokens[token];
      this.say(
        `${name}: p / q is ${number(ratio)}, and u is ${number(u)}. ` +
          (accepted ? "The token is accepted." : "The token is rejected, and its replacement is sampled from the residual."),
      );
    }
  }
  customElements.define("draft-accept", DraftAccept);
}
