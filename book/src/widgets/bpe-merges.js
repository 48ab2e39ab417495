// <bpe-merges>: byte-pair encoding learns its merges from a small corpus, one merge a step.
// Data: {corpora: [{name, counts, steps: [{rows, pairs, more}]}]}: before each merge the words' tokens, the largest counts
// [left, right, count], the next merge first, and how many other pairs there are.
"use strict";

{
  const [LEFT, WIDE, HIGH] = [84, 180, 22];
  const { escape } = BookWidget;

  class BpeMerges extends BookWidget {
    constructor() {
      super();
      this.label = "The merges of a small corpus, step by step";
      this.view = { corpus: 0, step: 0 };
    }

    get markup() {
      const { list, slider, stepBar } = BookWidget;
      return `<div class="bar">${list("corpus", "Corpus", this.data.corpora.map(({ name }) => name))}</div>
        ${stepBar("Merge")}
        <div class="sliders">${slider("step", "merges", 0, Math.max(...this.data.corpora.map(({ steps }) => steps.length - 1)))}</div>
        <div class="beside"><table><caption>Words, with their counts</caption><tbody></tbody></table>
          <svg id="pairs" role="img" aria-labelledby="pairs-title"><title id="pairs-title"></title><g></g></svg></div>
        <p class="legend"><span><b class="token new">ab</b> just merged</span><span><b class="token next">a</b><b class="token next">b</b> merged next</span></p>
        <style>
          .beside > table { flex: none; width: auto; min-width: 12em; border-spacing: 2px 5px; }
          td, th { border: 0; }
          td { text-align: left; white-space: nowrap; }
          #pairs { --role: var(--links); }
          #pairs .end { text-anchor: end; }
          #pairs .bar-of { fill: var(--bg, Canvas); stroke: var(--role); }
          #pairs .best { fill: var(--role); }
          .token { display: inline-block; min-width: 1.1em; margin-right: 2px; padding: 0.05em 0.25em; text-align: center; font-weight: 400;
            font-family: var(--mono-font, monospace); border: 2px solid var(--line); border-radius: 4px; }
          .token.new { border-color: var(--fg, CanvasText); font-weight: 700; }
          .token.next { border-style: dashed; border-color: var(--links); }
        </style>`;
    }

    start() {
      this.$("[name=corpus]").addEventListener("input", ({ target }) => this.change({ corpus: Number(target.value), step: 0 }));
      this.bind("step");
      this.steps(1100, { step: 0 });
    }

    /** Whether there is a further step. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(this.last, this.state.step + by)) });
      return this.view.step < this.last;
    }

    get last() {
      return this.data.corpora[this.view.corpus].steps.length - 1;
    }

    get state() {
      const { counts, steps } = this.data.corpora[this.view.corpus];
      const step = Math.min(this.view.step, this.last);
      const merges = steps.slice(0, step).map(({ pairs }) => pairs[0].slice(0, 2));
      const tokens = steps[step].rows.reduce((sum, row, i) => sum + row.length * counts[i], 0);
      return { corpus: this.view.corpus, step, counts, merges, tokens, ...steps[step] };
    }

    /** The tokens of a word; those of the next merge are marked from left to right, as they will be merged. */
    word(row, made, next) {
      let taken = -1;
      return row.map((token, i) => {
        const begins = i > taken && next && token === next[0] && row[i + 1] === next[1];
        if (begins) taken = i + 1;
        const kind = i <= taken ? " next" : token === made ? " new" : "";
        return `<b class="token${kind}">${escape(token)}</b>`;
      });
    }

    draw() {
      const { corpus, step, counts, merges, tokens, rows, pairs, more } = this.state;
      this.$("[name=corpus]").value = corpus;
      this.$("[name=step]").max = this.last;
      this.$("[name=step]").value = step;
      this.$("#at-step").textContent = step;
      this.dim("#back", step === 0);
      this.dim("#next", step === this.last);
      const [next, made] = [pairs[0], merges.length ? merges.at(-1).join("") : ""];
      const cells = rows.map((row, i) => `<tr><td>${this.word(row, made, next).join("")}</td><td>× ${counts[i]}</td></tr>`);
      this.$("tbody").innerHTML = cells.join("");
      const largest = next ? next[2] : 1;
      const bars = pairs.map(([left, right, count], i) => {
        const [y, width] = [16 + i * HIGH, (WIDE * count) / largest];
        return `<text class="mono end" x="${LEFT - 6}" y="${y + 14}">${escape(left)} ${escape(right)}</text>
          <rect class="${i ? "bar-of" : "best"}" x="${LEFT}" y="${y + 2}" width="${width.toFixed(1)}" height="${HIGH - 6}"/>
          <text x="${(LEFT + width + 5).toFixed(1)}" y="${y + 14}">${count}${i ? "" : ", merged next"}</text>`;
      });
      const under = more ? `<text x="0" y="${30 + pairs.length * HIGH}">and ${more} more pair${more > 1 ? "s" : ""}</text>` : "";
      this.$("#pairs").setAttribute("viewBox", `0 0 ${LEFT + WIDE + 100} ${38 + Math.max(...this.data.corpora[corpus].steps.map((at) => at.pairs.length)) * HIGH}`);
      this.$("#pairs g").innerHTML = `<text x="0" y="11">${pairs.length ? "Pairs, with their counts" : "No pair is left"}</text>${bars.join("")}${under}`;
      this.$("#pairs-title").textContent = pairs.length ? `Counts of pairs: ${pairs.map((pair) => pair.join(" ")).join(", ")}` : "No pair is left";
      const tied = pairs.filter(([, , count]) => count === largest).length + (pairs.length && pairs.at(-1)[2] === largest ? more : 0);
      this.say(
        `${step} merge${step === 1 ? "" : "s"}, ${tokens} tokens. ` +
          (made ? `${merges.at(-1).join(" and ")} became ${made}. ` : "") +
          (next
            ? `Next: ${next[0]} and ${next[1]}, count ${largest}${tied > 1 ? `; ${tied} pairs tie, and this one has the smallest ids` : ""}.`
            : "Every word is one token."),
      );
    }
  }
  customElements.define("bpe-merges", BpeMerges);
}
