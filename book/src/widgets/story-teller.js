// <story-teller>: a story that a model wrote, token by token, with its other ideas beside each.
// Data: {prompt, steps}: a step is {said: [word, probability], best: [[word, probability], ...]}.
"use strict";

{
  const { number, escape } = BookWidget;
  const share = (p) => (p < 0.0005 ? "< 0.001" : number(p, 3));
  const PACE = 450; // milliseconds a token

  class StoryTeller extends BookWidget {
    constructor() {
      super();
      this.label = "A story, token by token";
      this.view = { step: 0 };
    }

    get markup() {
      return `<p class="story"></p>
        <div class="bar"><button type="button" id="play">Pause</button><button type="button" id="back">Back</button>
          <button type="button" id="next">Next word</button></div>
        <table><caption>The model's candidates for this word</caption><tbody></tbody></table>
        <style>
          .story { font-size: 1.25em; margin: 0 0 0.6em; min-height: 4.5em; }
          .story .now { padding: 0 0.2em; background: color-mix(in srgb, var(--logits) 18%, var(--bg, #fff)); outline: 2px solid var(--logits); }
          table { border-spacing: 0 2px; }
          th { border: 0; }
          td { border: 0; padding: 0 0 0 0.6em; min-width: 0; }
          td.bars { width: 100%; }
          .track i { display: block; height: 1.1em; background: var(--logits); }
          tr.chosen th::before { content: "▸ "; }
          td:last-child { min-width: 4.2em; white-space: nowrap; }
          th { min-width: 6em; text-align: right; }
        </style>`;
    }

    start() {
      this.$("#back").onclick = () => this.go(-1);
      this.$("#next").onclick = () => this.go(1);
      this.$("#play").onclick = () => this.play(!this.timer);
      // Nothing moves for those who want nothing to move.
      this.play(!matchMedia("(prefers-reduced-motion: reduce)").matches);
    }

    /** Go on by itself, or stop. */
    play(on) {
      clearInterval(this.timer);
      if (on && this.view.step === this.data.steps.length - 1) this.change({ step: 0 });
      this.timer = on ? setInterval(() => this.tell(), PACE) : undefined;
      this.$("#play").textContent = on ? "Pause" : "Play";
    }

    tell() {
      if (this.view.step === this.data.steps.length - 1) this.play(false);
      else this.change({ step: this.view.step + 1 });
    }

    /** By hand. */
    go(by) {
      this.play(false);
      this.change({ step: Math.min(this.data.steps.length - 1, Math.max(0, this.view.step + by)) });
    }

    onKey({ key }) {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
      if (by) this.go(by);
      return Boolean(by);
    }

    get state() {
      return { ...this.view, ...this.data.steps[this.view.step], playing: Boolean(this.timer) };
    }

    draw() {
      const { step, said, best } = this.state;
      const { prompt, steps } = this.data;
      const told = steps.slice(0, step).map((one) => escape(one.said[0]));
      this.$(".story").innerHTML = `<b>${escape(prompt)}</b>${told.join("")}${said[0].match(/^\s*/)[0]}<span class="now">${escape(said[0].trimStart())}</span>`;
      this.dim("#back", step === 0);
      this.dim("#next", step === steps.length - 1);
      const rows = best.some(([word]) => word === said[0]) ? best : [...best.slice(0, -1), said];
      this.$("tbody").innerHTML = rows
        .map(
          ([word, p]) => `<tr${word === said[0] ? ' class="chosen"' : ""}><th scope="row">${escape(word.trim() || "␣")}</th>
          <td class="bars"><div class="track"><i style="width:${(100 * p).toFixed(1)}%"></i></div></td>
          <td>${escape(share(p))}</td></tr>`,
        )
        .join("");
      if (!this.timer) this.say(`Word ${step + 1} of ${steps.length}: “${said[0].trim()}”, with probability ${share(said[1])}.`);
    }
  }
  customElements.define("story-teller", StoryTeller);
}
