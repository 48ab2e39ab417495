// <sampling-sliders>: what temperature, top-k, top-p and min-p make of real logits.
// Data: {prompt, shown, tokens, logits}: all logits from the largest down, their texts, and how many have a bar.
"use strict";

{
  const { number, escape } = BookWidget;
  const OFF = { temperature: 1, top_k: 0, top_p: 1, min_p: 0 };
  const TITLES = { temperature: "temperature", top_k: "top-k", top_p: "top-p", min_p: "min-p" };
  const RANGES = { temperature: [0, 2, 0.05], top_k: [0, 50, 1], top_p: [0, 1, 0.01], min_p: [0, 1, 0.01] };

  const softmax = (logits) => {
    const exps = logits.map((logit) => Math.exp(logit - logits[0])); // the first is the largest
    const sum = exps.reduce((a, b) => a + b, 0);
    return exps.map((e) => e / sum);
  };

  /** In the order of `make_sampler`: each filter looks at what the one before has left. */
  const filter = (logits, { temperature, top_k, top_p, min_p }) => {
    const dropped = logits.map(() => "");
    if (temperature === 0) {
      return {
        dropped: dropped.map((_, i) => (i ? "temperature" : "")),
        probabilities: logits.map((_, i) => (i ? 0 : 1)),
      };
    }
    let left = logits.map((logit) => logit / temperature);
    const drop = (name, keeps) => {
      const kept = left.map(keeps);
      left = left.map((logit, i) => {
        if (!kept[i] && !dropped[i]) dropped[i] = name;
        return kept[i] ? logit : -Infinity;
      });
    };
    if (top_k && top_k < left.length) {
      const threshold = left[top_k - 1];
      drop("top_k", (logit) => logit >= threshold);
    }
    if (top_p < 1) {
      let before = 0;
      const sums = softmax(left).map((p) => (before += p) - p);
      drop("top_p", (_, i) => i === 0 || sums[i] < top_p);
    }
    if (min_p) {
      const probabilities = softmax(left);
      drop("min_p", (_, i) => probabilities[i] >= min_p * probabilities[0]);
    }
    return { dropped, probabilities: softmax(left) };
  };

  /** Numbers from 0 to 1, the same for the same seed (a linear congruential generator, good enough for play). */
  const generator = (seed) => () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0) / 2 ** 32;

  class SamplingSliders extends BookWidget {
    constructor() {
      super();
      this.label = "Sampling, with sliders";
      this.view = { ...OFF };
      this.random = generator(1);
    }

    get markup() {
      const sliders = Object.entries(RANGES).map(
        ([name, [min, max, step]]) => `<label for="${name}">${TITLES[name]}</label>
        <input type="range" id="${name}" name="${name}" min="${min}" max="${max}" step="${step}">
        <output id="at-${name}"></output>`,
      );
      return `<div class="sliders">${sliders.join("")}</div>
        <div class="bar"><button type="button" id="off">All off</button>
          <button type="button" id="draw">Draw ten</button></div>
        <table><caption>After “${escape(this.data.prompt)}”. The outline is the model's own probability.</caption>
          <tbody></tbody></table>
        <p class="drawn"></p>
        <style>
          table { border-spacing: 0 2px; }
          caption { padding-left: 0.5em; }
          th { border: 0; text-align: right; }
          td { border: 0; padding: 0 0 0 0.6em; min-width: 0; }
          td.bars { width: 100%; }
          .track { position: relative; height: 1.2em; }
          .track i { position: absolute; inset: 0 auto 0 0; box-sizing: border-box; }
          .now { background: var(--logits); opacity: 0.75; }
          .own { border: 1px solid var(--fg, #000); opacity: 0.6; }
          tr.dropped th { text-decoration: line-through; font-weight: 400; }
          td.why { min-width: 3.2em; text-align: left; }
          .drawn { margin: 0.6em 0 0; min-height: 1.45em; }
        </style>`;
    }

    start() {
      this.own = softmax(this.data.logits);
      for (const name of Object.keys(OFF)) this.bind(name);
      this.$("#off").onclick = () => this.change(OFF);
      this.$("#draw").onclick = () => {
        const drawn = Array.from({ length: 10 }, () => this.data.tokens[this.drawOne()]);
        this.$(".drawn").textContent = `Drawn: ${drawn.join(", ")}.`;
      };
    }

    /** The place of a token, drawn with its probability. */
    drawOne() {
      const { probabilities } = this.state;
      let left = this.random();
      const place = probabilities.findIndex((p) => (left -= p) < 0);
      return place < 0 ? 0 : place; // the probabilities may sum to a little less than the number drawn
    }

    get state() {
      return { ...this.view, ...filter(this.data.logits, this.view) };
    }

    draw() {
      const { dropped, probabilities } = this.state;
      for (const name of Object.keys(OFF)) {
        const off = name !== "temperature" && this.view[name] === OFF[name];
        const text = off ? "off" : String(this.view[name]);
        this.$(`#${name}`).value = this.view[name];
        this.$(`#${name}`).setAttribute("aria-valuetext", text);
        this.$(`#at-${name}`).textContent = text;
      }
      this.$(".drawn").textContent = "";
      const { shown } = this.data;
      const tokens = this.data.tokens.slice(0, shown);
      const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
      const rows = tokens.map((token, i) => [
        token,
        this.own[i],
        probabilities[i],
        dropped[i] === "temperature" ? "T = 0" : TITLES[dropped[i]] || "",
      ]);
      const others = dropped.slice(tokens.length).filter((name) => !name).length;
      rows.push([
        `${dropped.length - tokens.length} others`,
        sum(this.own.slice(tokens.length)),
        sum(probabilities.slice(tokens.length)),
        others ? "" : "all",
      ]);
      const largest = Math.max(...rows.flatMap(([, own, now]) => [own, now]));
      const bar = (name, p) => `<i class="${name}" style="width:${((100 * p) / largest).toFixed(2)}%"></i>`;
      this.$("tbody").innerHTML = rows
        .map(
          ([token, own, now, why]) => `<tr${why ? ' class="dropped"' : ""}><th scope="row">${escape(token)}</th>
            <td class="bars"><div class="track">${bar("now", now)}${bar("own", own)}</div></td>
            <td>${number(now, 3)}</td><td class="why">${why}</td></tr>`,
        )
        .join("");
      const kept = dropped.filter((name) => !name).length;
      const counts = Object.keys(TITLES)
        .map((name) => [TITLES[name], dropped.filter((by) => by === name).length])
        .filter(([, count]) => count)
        .map(([title, count]) => `${title} drops ${count}`);
      this.say(
        `Left: ${kept} of ${dropped.length} tokens${counts.length ? ` (${counts.join(", ")})` : ""}. ` +
          `The likeliest, ${tokens[0]}, has probability ${number(probabilities[0], 3)}.`,
      );
    }
  }
  customElements.define("sampling-sliders", SamplingSliders);
}
