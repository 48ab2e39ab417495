// <resume-steps>: an agent is killed at one of the moments of a step, and the next process resumes from its log.
// Data: {moments: [{name, log, kept, recovery, states}]}: recorded runs; the first `kept` lines of `log` are those of the
// process that was killed, `recovery` is how the next one got its first new line, and `states` is what was on disk after
// 0, 1, 2 and more lines.
"use strict";

{
  const { escape } = BookWidget;

  class ResumeSteps extends BookWidget {
    constructor() {
      super();
      this.label = "An agent that is killed and resumed: its log, and what is on disk";
      this.view = { moment: 5, step: 0 };
    }

    get markup() {
      const { slider, stepBar } = BookWidget;
      return `<div class="sliders">${slider("moment", "moment", 0, this.data.moments.length - 1)}</div>
        <p id="name"></p>
        ${stepBar("Next entry")}
        <ol></ol>
        <p>On disk: <span id="disk" class="mono"></span></p>
        <style>
          ol { list-style: none; margin: 0; padding: 0; min-height: 17em; }
          li { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1em; margin: 0.25em 0; padding: 0.15em 0.6em;
            border: 1px solid color-mix(in srgb, var(--fg, CanvasText) 55%, var(--bg, Canvas)); border-radius: 4px; }
          li.new { border: 2px solid var(--links); }
          li.lost { border-style: dotted; } li.lost > * { visibility: hidden; }
          li span:first-child { font-family: var(--mono-font, monospace); }
          #name { font-weight: 700; margin: 0.4em 0; }
        </style>`;
    }

    start() {
      this.$("[name=moment]").addEventListener("input", ({ target }) => this.change({ moment: Number(target.value), step: 0 }));
      this.steps(900, { step: 0 });
    }

    get state() {
      const { name, log, kept, recovery, states } = this.data.moments[this.view.moment];
      const step = Math.min(this.view.step, log.length);
      return { ...this.view, step, name, log, kept, recovery, done: step === log.length, disk: states[step] };
    }

    /** Whether there is a further step. */
    move(by) {
      const { step, log } = this.state;
      this.change({ step: Math.max(0, Math.min(log.length, step + by)) });
      return !this.state.done;
    }

    draw() {
      const { moment, step, name, log, kept, recovery, done, disk } = this.state;
      const added = (i) => `new${i === kept && recovery ? `, ${recovery}` : ""}`;
      this.$("[name=moment]").value = moment;
      this.$("#at-moment").textContent = moment + 1;
      this.dim("#back", step === 0);
      this.dim("#next", done);
      this.$("#name").textContent = `Killed ${name}`;
      this.$("ol").innerHTML = log
        .map((line, i) => {
          const kind = i >= kept ? (i < step ? "new" : "lost") : "";
          const note = i < kept ? (i < step ? "replayed" : "in the log") : added(i);
          return `<li${kind ? ` class="${kind}"` : ""}${kind === "lost" ? ' aria-hidden="true"' : ""}><span>${escape(line)}</span><span>${note}</span></li>`;
        })
        .join("");
      this.$("#disk").textContent = disk;
      if (!step) this.say(`The process was killed ${name}. The log has ${kept} ${kept === 1 ? "entry" : "entries"}.`);
      else this.say(`${log[step - 1]}: ${step <= kept ? "replayed" : added(step - 1)}.${done ? ` In the end: ${disk}.` : ""}`);
    }
  }
  customElements.define("resume-steps", ResumeSteps);
}
