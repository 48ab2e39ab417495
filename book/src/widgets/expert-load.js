// <expert-load>: a router's choice for each token, and the load of its experts, with a bias that balances it.
// Data: {sentences: [{text, tokens, scores}], rate}: each token's score for each expert; an update changes a bias by `rate`.
"use strict";

{
  const [LEFT, WIDE, HIGH, EVEN, UPDATES] = [62, 30, 20, 24, 20];
  const { number, escape } = BookWidget;
  const signed = (x) => (x > 0 ? `+${number(x, 1)}` : number(x, 1));

  class ExpertLoad extends BookWidget {
    constructor() {
      super();
      this.label = "A router's choice of experts, and their load";
      this.view = { sentence: 0, k: 2, step: 0 };
    }

    get markup() {
      const { list, slider } = BookWidget;
      return `<div class="bar">${list("sentence", "Sentence", this.data.sentences.map(({ text }) => text))}</div>
        <div class="bar"><button type="button" id="back">Back</button><button type="button" id="next">Update the biases</button>
          <button type="button" id="play">Play</button></div>
        <div class="sliders">${slider("k", "experts per token k", 1, this.experts)}${slider("step", "bias updates", 0, UPDATES)}</div>
        <svg id="load" role="img" aria-labelledby="load-title"><title id="load-title"></title><g></g></svg>
        <p class="legend"><span><i class="fill"></i> probability, chosen</span><span><i class="hollow"></i> probability, not chosen</span>
          <span><i class="bar-of"></i> tokens of all sentences</span><span>- - - even load</span></p>
        <dl class="figures"></dl>
        <style>
          .middle { text-anchor: middle; }
          .fill, .hollow { --role: var(--weights); }
          .bar-of { fill: var(--links); background: var(--links); }
          .even { stroke: var(--fg, #000); stroke-dasharray: 4 3; }
          .legend i { border-color: var(--weights); }
          .legend .fill { background: var(--weights); }
        </style>`;
    }

    start() {
      this.scores = this.data.sentences.flatMap(({ scores }) => scores);
      for (const name of Object.keys(this.view)) this.bind(name);
      this.$("#back").onclick = () => this.move(-1);
      this.$("#next").onclick = () => this.move(1);
      this.$("#play").onclick = () => {
        if (!this.timer && this.view.step === UPDATES) this.change({ step: 0 });
        this.play(!this.timer, () => this.move(1), 400);
      };
    }

    onKey(event) {
      const by = BookWidget.arrow(event);
      if (by) this.move(by);
      return by !== 0;
    }

    /** Whether there is a further step. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(UPDATES, this.view.step + by)) });
      return this.view.step < UPDATES;
    }

    get experts() {
      return this.data.sentences[0].scores[0].length;
    }

    probabilities(scores) {
      const largest = Math.max(...scores);
      const parts = scores.map((score) => Math.exp(score - largest));
      const total = parts.reduce((sum, part) => sum + part, 0);
      return parts.map((part) => part / total);
    }

    /** The experts of a token: those with the largest scores plus biases. */
    choice(scores, bias) {
      const order = scores.map((_, e) => e).sort((a, b) => scores[b] + bias[b] - scores[a] - bias[a]);
      return order.slice(0, this.view.k);
    }

    get state() {
      const { k, step, sentence } = this.view;
      const even = (k * this.scores.length) / this.experts;
      let [ups, bias, tokens] = [Array(this.experts).fill(0)];
      for (let update = 0; update <= step; update++) {
        bias = ups.map((up) => up * this.data.rate);
        tokens = Array(this.experts).fill(0);
        for (const scores of this.scores) for (const e of this.choice(scores, bias)) tokens[e]++;
        ups = ups.map((up, e) => up + Math.sign(even - tokens[e]));
      }
      const share = tokens.map((count) => count / (k * this.scores.length));
      const every = this.scores.map((scores) => this.probabilities(scores));
      const mean = share.map((_, e) => every.reduce((sum, p) => sum + p[e], 0) / every.length);
      const loss = this.experts * share.reduce((sum, part, e) => sum + part * mean[e], 0);
      const chosen = this.data.sentences[sentence].scores.map((scores) => this.choice(scores, bias));
      return { ...this.view, bias, tokens, even, share, mean, imbalance: this.experts * Math.max(...share), loss, chosen };
    }

    draw() {
      const { k, step, sentence, bias, tokens, even, imbalance, loss, chosen } = this.state;
      for (const name of Object.keys(this.view)) this.$(`[name=${name}]`).value = this.view[name];
      this.$("#at-k").textContent = k;
      this.$("#at-step").textContent = step;
      this.dim("#back", step === 0);
      this.dim("#next", step === UPDATES);
      const shown = this.data.sentences[sentence];
      const [x, bottom] = [(e) => LEFT + (e + 0.5) * WIDE, 16 + shown.tokens.length * HIGH + 3 * EVEN + 8];
      const rows = shown.tokens.map((token, i) => {
        const y = 16 + (i + 0.5) * HIGH;
        const squares = this.probabilities(shown.scores[i]).map((p, e) => {
          const side = (HIGH - 2) * Math.sqrt(p);
          const box = `x="${(x(e) - side / 2).toFixed(1)}" y="${(y - side / 2).toFixed(1)}" width="${side.toFixed(1)}" height="${side.toFixed(1)}"`;
          return `<rect class="${chosen[i].includes(e) ? "fill" : "hollow"}" ${box}/>`;
        });
        return `<text x="${LEFT - 6}" y="${y + 4}" text-anchor="end">${escape(token)}</text>${squares.join("")}`;
      });
      const bars = tokens.map((count, e) => {
        const height = (EVEN * count) / even;
        return `<text class="middle" x="${x(e)}" y="11">${e}</text>
          <rect class="bar-of" x="${x(e) - 9}" y="${(bottom - height).toFixed(1)}" width="18" height="${height.toFixed(1)}"/>
          <text class="middle" x="${x(e)}" y="${bottom + 12}">${count}</text><text class="middle" x="${x(e)}" y="${bottom + 26}">${signed(bias[e])}</text>`;
      });
      const right = LEFT + this.experts * WIDE;
      this.$("#load").setAttribute("viewBox", `0 0 ${right} ${bottom + 30}`);
      this.$("#load g").innerHTML = `${rows.join("")}${bars.join("")}<path class="even" d="M${LEFT} ${bottom - EVEN}H${right}"/>
        <text x="${LEFT - 6}" y="11" text-anchor="end">expert</text><text x="${LEFT - 6}" y="${bottom + 12}" text-anchor="end">tokens</text><text x="${LEFT - 6}" y="${bottom + 26}" text-anchor="end">bias</text>`;
      this.$("#load-title").textContent = `Experts of each token: ${shown.tokens.map((token, i) => `${token} ${chosen[i].join(", ")}`).join("; ")}`;
      this.figures([["imbalance", number(imbalance)], ["auxiliary loss", number(loss, 3)]]);
      const largest = Math.max(...tokens);
      this.say(
        `Each of ${this.scores.length} tokens goes to ${k} of ${this.experts} experts, so an even load is ${Number(even.toFixed(2))} tokens per expert. ` +
          (largest === even ? "Every expert has as many." : `Expert ${tokens.indexOf(largest)} has the most, ${largest}: ${number(imbalance)} times as many.`) +
          (step ? ` After ${step} update${step > 1 ? "s" : ""}, the biases are between ${signed(Math.min(...bias))} and ${signed(Math.max(...bias))}.` : " No expert has a bias."),
      );
    }
  }
  customElements.define("expert-load", ExpertLoad);
}
