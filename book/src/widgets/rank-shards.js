// <rank-shards>: which heads, columns and tokens each rank holds, and what the ranks do at each step of a layer.
// Data: {models: [{name, hidden, layers, head_dim, divisions: [{size, error} or {size, ranks}]}]}; a rank is four
// ranges, each a start and an end: query heads, key-value heads, columns of the MLP, tokens.
"use strict";

{
  const { escape } = BookWidget;
  const grouped = (integer) => integer.toLocaleString("en-GB");
  const count = (number, one) => `${grouped(number)} ${one}${number === 1 ? "" : "s"}`;
  const span = ([from, to], what) => (to - from === 1 ? `${what} ${grouped(from)}` : `${what}s ${grouped(from)} to ${grouped(to - 1)}`);
  const STEPS = ["norm", "q, k, v", "attention", "o", "all_sum", "norm", "gate, up", "down", "all_sum"];

  class RankShards extends BookWidget {
    constructor() {
      super();
      this.label = "A layer on several ranks";
      this.view = { model: 0, ranks: 2, step: 1 };
    }

    get markup() {
      const models = this.data.models.map((model) => model.name);
      const sizes = this.data.models[0].divisions.map((each) => each.size);
      return `<div class="bar">${BookWidget.list("model", "Model", models)}${BookWidget.list("ranks", "Ranks", sizes, sizes)}</div>
        ${BookWidget.stepBar("Next step")}
        <ol class="steps">${STEPS.map((step) => `<li>${step}</li>`).join("")}</ol>
        <div class="ranks"></div>
        <dl class="figures"></dl>
        <style>
          .steps { display: flex; flex-wrap: wrap; gap: 0.3em; margin: 0 0 0.7em; padding: 0; list-style: none; }
          .steps li { padding: 0.1em 0.5em; border: 1px solid var(--line); border-radius: 6px; }
          .steps .sum { border-style: dashed; border-color: var(--fg, #000); }
          .steps .now { color: var(--bg, #fff); background: var(--links, #06c); border-color: var(--links, #06c); }
          .ranks { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5em, 1fr)); gap: 0.5em; }
          .ranks p { margin: 0; padding: 0.4em 0.6em; border: 1px solid var(--line); border-radius: 6px; }
          .ranks.sum { border: 2px solid var(--links, #06c); border-radius: 8px; padding: 0.4em; }
          .ranks b { display: block; }
          .whole { display: block; height: 0.7em; margin: 0.15em 0 0.4em; border: 1px solid var(--line); }
          .whole i { display: block; height: 100%; min-width: 2px; background: var(--links, #06c); }
        </style>`;
    }

    start() {
      this.bind("model");
      this.bind("ranks");
      this.steps(1500, { step: 0 });
    }

    /** Whether there is a further step. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(STEPS.length - 1, this.view.step + by)) });
      return this.view.step < STEPS.length - 1;
    }

    get state() {
      const model = this.data.models[this.view.model];
      const division = model.divisions.find((each) => each.size === this.view.ranks);
      const { error = "", ranks = [] } = division;
      const all = ranks.map((rank) => rank[1]);
      const copies = all.length ? all.filter(([from]) => from === all[0][0]).length : 0;
      return { ...this.view, name: STEPS[this.view.step], error, ranks, copies, sums: 2 * model.layers + 1 };
    }

    /** What a rank holds, or has, at the present step: words, and if it is a part, its ends and the size of the whole. */
    lines(rank) {
      const [query, key, mlp] = rank;
      const [queries, keys, inner] = this.state.ranks.at(-1).map(([, end]) => end);
      const { hidden, head_dim } = this.data.models[this.view.model];
      const heads = query[1] - query[0];
      const whole = [[`all ${grouped(hidden)} numbers`]];
      const partial = [`${grouped(hidden)} partial sums`];
      return {
        norm: whole,
        "q, k, v": [[span(query, "query head"), query, queries], [span(key, "key-value head"), key, keys]],
        attention: [[`${count(heads, "head")}, ${grouped(heads * head_dim)} numbers`, query, queries]],
        o: [[span([query[0] * head_dim, query[1] * head_dim], "column"), query, queries], partial],
        all_sum: whole,
        "gate, up": [[span(mlp, "row"), mlp, inner]],
        down: [[span(mlp, "column"), mlp, inner], partial],
      }[STEPS[this.view.step]];
    }

    draw() {
      const { step, name, error, ranks, copies, sums } = this.state;
      const { hidden, layers } = this.data.models[this.view.model];
      this.$("[name=model]").value = this.view.model;
      this.$("[name=ranks]").value = this.view.ranks;
      this.dim("#back", step === 0);
      this.dim("#next", step === STEPS.length - 1);
      this.shadowRoot.querySelectorAll(".steps li").forEach((item, i) => {
        item.className = i === step ? "now" : STEPS[i] === "all_sum" ? "sum" : "";
        if (i === step) item.setAttribute("aria-current", "step");
        else item.removeAttribute("aria-current");
      });
      const bar = ([from, to], all) => `<span class="whole"><i style="margin-left: ${(100 * from) / all}%; width: ${(100 * (to - from)) / all}%"></i></span>`;
      const line = ([words, part, all]) => `<span>${escape(words)}</span>${part ? bar(part, all) : "<br>"}`;
      const alike = name === "norm" || name === "all_sum"; // all ranks have the same
      const named = alike && ranks.length > 1 ? [[`ranks 0 to ${ranks.length - 1}`, ranks[0]]] : ranks.map((rank, i) => [`rank ${i}`, rank]);
      const cards = named.map(([title, rank]) => `<p><b>${title}</b>${this.lines(rank).map(line).join("")}</p>`);
      this.$(".ranks").innerHTML = cards.join("");
      this.$(".ranks").className = name === "all_sum" ? "ranks sum" : "ranks";
      this.figures(error ? [] : [
        ["all_sums per token", sums],
        ["numbers in each", grouped(hidden)],
        ["ranks with key-value head 0", copies],
      ]);
      const said = {
        norm: "Every rank has the whole residual stream and computes the same norm.",
        "q, k, v": "Each rank computes its own heads, from all inputs. No communication.",
        attention: "Each rank attends with its own heads, over its own part of the KV cache.",
        o: "Each rank multiplies its heads by its columns: a part of every output.",
        all_sum: `The ranks add their partial sums: ${count(hidden, "number")} for each token, ${2 * layers} times in ${layers} layers.`,
        "gate, up": "Each rank computes its own part of the MLP's width. No communication.",
        down: "Each rank multiplies its part by its columns: a part of every output.",
      };
      this.say(error ? `${error}.` : said[name]);
    }
  }
  customElements.define("rank-shards", RankShards);
}
