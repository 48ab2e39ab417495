// <depth-words>: what a model would say if each of its layers were the last, at a position of a sentence.
// Data: {depths, sentences}: a sentence is {tokens, words, added}; words[depth][position] is a list of [word,
// probability], added[layer][position] what attention and the MLP of the layer added.
"use strict";

{
  const { number, escape } = BookWidget;

  class DepthWords extends BookWidget {
    constructor() {
      super();
      this.label = "What each layer would say";
      this.view = { sentence: 0, position: 0 };
    }

    get markup() {
      const texts = this.data.sentences.map(({ tokens }) => tokens.join("").replaceAll("␣", " "));
      return `<div class="bar">
          <label>Sentence <select name="sentence" data-number="yes">
            ${texts.map((text, i) => `<option value="${i}">${escape(text)}</option>`).join("")}</select></label>
          <label>After <select name="position" data-number="yes"></select></label>
        </div>
        <p id="about">From the top down: what would be said next if the model ended there</p>
        <div class="scroll" tabindex="0" role="group" aria-label="The likeliest words after each layer">
          <table aria-labelledby="about"><thead></thead><tbody></tbody></table></div>
        <style>
          select { max-width: 16em; }
          #about { margin: 0 0 0.3em; }
          td { min-width: 4.6em; text-align: left;
            background: linear-gradient(to top, var(--logits) 4px, transparent 4px) left bottom / calc(var(--p) * 100%) 100% no-repeat; }
          thead th:nth-child(-n + 5) { text-align: left; }
          td.added { text-align: right; background: none; min-width: 3em; }
          td small { display: block; font-size: 0.88em; }
        </style>`;
    }

    start() {
      this.view.position = this.data.sentences[0].tokens.length - 1;
      this.bind("position");
      this.$("[name=sentence]").addEventListener("input", ({ target }) => {
        const sentence = Number(target.value);
        this.change({ sentence, position: this.data.sentences[sentence].tokens.length - 1 });
      });
    }

    get state() {
      const { sentence, position } = this.view;
      const { words, added } = this.data.sentences[sentence];
      return { ...this.view, words: words.map((depth) => depth[position]), added: added.map((layer) => layer[position]) };
    }

    draw() {
      const { sentence, position, words, added } = this.state;
      const { tokens } = this.data.sentences[sentence];
      this.$("[name=sentence]").value = sentence;
      const options = tokens.map((token, i) => `<option value="${i}">${escape(token.replace("␣", ""))}</option>`);
      this.$("[name=position]").innerHTML = options.join("");
      this.$("[name=position]").value = position;
      const places = words[0].map((_, i) => `<th scope="col">${i ? `${i + 1}.` : "likeliest"}</th>`);
      this.$("thead").innerHTML = `<tr><th scope="col">after</th>${places.join("")}
        <th scope="col">attention added</th><th scope="col">MLP added</th></tr>`;
      const rows = words.map((best, depth) => {
        const cells = best.map(([word, p]) => `<td style="--p:${p}">${escape(word)} <small>${number(p, 3)}</small></td>`);
        const halves = depth ? added[depth - 1].map((x) => `<td class="added">${number(x)}</td>`) : Array(2).fill(`<td class="added"></td>`);
        return `<tr><th scope="row">${this.data.depths[depth]}</th>${cells.join("")}${halves.join("")}</tr>`;
      });
      this.$("tbody").innerHTML = rows.join("");
      const [word, share] = words.at(-1)[0];
      const since = words.findLastIndex((best) => best[0][0] !== word) + 1;
      const text = escape(tokens.slice(0, position + 1).join("").replaceAll("␣", " "));
      this.say(
        `After “${text}” the model says “${word.replace("␣", "")}”, with probability ${number(share, 3)}. ` +
          (since ? `That word has led since ${this.data.depths[since]}.` : "It led from the beginning."),
      );
    }
  }
  customElements.define("depth-words", DepthWords);
}
