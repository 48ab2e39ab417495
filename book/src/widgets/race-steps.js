// <race-steps>: programs open src/main.py while another process acts at one moment, system call by system call. The one
// that is chosen sets the pace.
// Data: {programs, attacks, runs: [program][attack][moment]: {steps: [[call, answer]], end}}: recorded runs; moment 0 is
// the run without the other process, and a step without an answer is the other process's.
"use strict";

{
  const { escape } = BookWidget;

  class RaceSteps extends BookWidget {
    constructor() {
      super();
      this.label = "A race between programs and another process, call by call";
      this.view = { program: 0, attack: 0, moment: 2, step: 99 };
    }

    get markup() {
      const { list, slider } = BookWidget;
      return `<div class="bar">${list("program", "Program", this.data.programs)}${list("attack", "Another process, dashed", this.data.attacks)}</div>
        <div class="sliders">${slider("moment", "acts before call", 0, 9)}</div>
        ${BookWidget.stepBar("Next call")}
        <div class="programs"></div>
        <style>
          .programs { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 15em), 1fr)); gap: 0.8em 1.2em; }
          .programs p { margin: 0.3em 0; }
          .now > :first-child { font-weight: 700; }
          ol { list-style: none; margin: 0; padding: 0; }
          li { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1em; margin: 0.25em 0; padding: 0.15em 0.6em;
            border: 1px solid color-mix(in srgb, var(--fg, CanvasText) 55%, var(--bg, Canvas)); border-radius: 4px; }
          li.other { margin-left: 1.6em; border: 2px dashed var(--fg, CanvasText); font-weight: 700; }
          li.later { border-style: dotted; } li.later > * { visibility: hidden; }
          li span:first-child { font-family: var(--mono-font, monospace); }
          li.other span:first-child { font-family: inherit; }
          .end { font-weight: 700; min-height: 1.5em; }
        </style>`;
    }

    start() {
      for (const name of ["program", "attack", "moment"]) {
        for (const control of this.shadowRoot.querySelectorAll(`[name=${name}]`)) {
          control.addEventListener("input", () => this.change({ [name]: Number(control.value), step: 99 }));
        }
      }
      this.steps(700, { step: 0 });
    }

    /** The slider's end: the last moment of the longest program. */
    get last() {
      return Math.max(...this.data.runs.map((attacks) => attacks[this.view.attack].length - 1));
    }

    /**
     * What a program has done: as many calls as the one that is chosen, or all when that has ended. At a moment after its
     * last call, the other process no longer matters.
     */
    run(program) {
      const moments = this.data.runs[program][this.view.attack];
      const moment = Math.min(this.view.moment, this.last);
      const late = moment >= moments.length;
      const { steps, end } = moments[late ? 0 : moment];
      const at = Math.min(this.view.step, steps.length);
      return { moment, late, at, steps, end, done: at === steps.length, escaped: end.includes("SECRET") };
    }

    get state() {
      return { ...this.view, ...this.run(this.view.program) };
    }

    /** Whether there is a further step. */
    move(by) {
      const { at, steps } = this.state;
      this.change({ step: at + by >= steps.length ? 99 : Math.max(0, at + by) });
      return this.state.at < steps.length;
    }

    draw() {
      const { program, attack, moment, late, at, steps, done, escaped } = this.state;
      this.$("[name=program]").value = program;
      this.$("[name=attack]").value = attack;
      this.$("#moment").max = this.last;
      this.$("#moment").value = moment;
      this.$("#at-moment").textContent = moment || "never";
      this.dim("#back", at === 0);
      this.dim("#next", done);
      const lines = ({ steps, at }) => steps.map(([call, answer], i) => {
        const kind = `${answer ? "" : "other"}${i < at ? "" : " later"}`.trim();
        return `<li${kind ? ` class="${kind}"` : ""}${i < at ? "" : ' aria-hidden="true"'}><span>${escape(call)}</span><span>${escape(answer)}</span></li>`;
      });
      this.$(".programs").innerHTML = this.data.programs
        .map((name, i) => {
          const run = this.run(i);
          const end = run.done ? `${run.escaped ? "✗" : "✓"} ${run.end === "refused" ? "refuses the path" : run.end}` : "";
          return `<div${i === program ? ' class="now"' : ""}><p>${escape(name)}</p><ol>${lines(run).join("")}</ol><p class="end mono">${escape(end)}</p></div>`;
        })
        .join("");
      const [call, answer] = steps[at - 1] ?? ["Nothing has been called", " "];
      if (done && late) this.say("It has ended before the other process acts.");
      else if (done) this.say(escaped ? "It has opened a file outside the workspace." : "It has opened nothing outside the workspace.");
      else this.say(answer ? `${call}${answer.trim() ? `: ${answer}` : ""}.` : `Another process: ${call}.`);
    }
  }
  customElements.define("race-steps", RaceSteps);
}
