// <box-steps>: rows of boxes, a step at a time, for one of several recorded choices.
// Data: {label, choice, choices}: a choice is {name, steps}, a step {boxes, note}, a box {text, under, marked}.
"use strict";

{
  const { escape } = BookWidget;

  class BoxSteps extends BookWidget {
    constructor() {
      super();
      this.view = { choice: 0, step: 0 };
    }

    get label() {
      return this.data.label;
    }

    get markup() {
      const options = this.data.choices.map(({ name }, i) => `<option value="${i}">${escape(name)}</option>`);
      return `<div class="bar">
          <button type="button" id="back">Back</button><button type="button" id="next">Next</button>
          <label>${escape(this.data.choice)} <select name="choice" data-number="yes">${options.join("")}</select></label>
        </div>
        <div class="boxes"></div>
        <style>
          .boxes { display: flex; flex-wrap: wrap; gap: 0.5em; min-height: 4.6em; align-items: start; }
          .box { text-align: center; }
          .box b { display: block; min-width: 1.6em; padding: 0.15em 0.5em; border: 2px solid var(--line);
            border-radius: 4px; font-size: 1.2em; font-weight: 400; }
          .box.marked b { border: 2px dashed var(--fg, CanvasText); font-weight: 700; }
          .box small { display: block; min-height: 1.4em; max-width: 7em; }
        </style>`;
    }

    start() {
      this.$("#back").onclick = () => this.go(this.view.step - 1);
      this.$("#next").onclick = () => this.go(this.view.step + 1);
      this.$("[name=choice]").addEventListener("input", ({ target }) => {
        this.change({ choice: Number(target.value), step: 0 });
      });
    }

    go(step) {
      this.change({ step: Math.min(this.steps.length - 1, Math.max(0, step)) });
    }

    onKey({ key, target }) {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
      if (!by || target.matches("select")) return false;
      this.go(this.view.step + by);
      return true;
    }

    get steps() {
      return this.data.choices[this.view.choice].steps;
    }

    get state() {
      return { ...this.view, ...this.steps[this.view.step] };
    }

    draw() {
      const { choice, step, boxes, note } = this.state;
      this.$("[name=choice]").value = choice;
      this.dim("#back", step === 0);
      this.dim("#next", step === this.steps.length - 1);
      this.$(".boxes").innerHTML = boxes
        .map(
          ({ text, under, marked }) =>
            `<div class="box${marked ? " marked" : ""}"><b>${escape(text)}</b><small>${escape(under)}</small></div>`,
        )
        .join("");
      this.say(`Step ${step + 1} of ${this.steps.length}. ${note}`);
    }
  }
  customElements.define("box-steps", BoxSteps);
}
