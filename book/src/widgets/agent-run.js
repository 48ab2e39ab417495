// <agent-run>: recorded runs of an agent's loop, message by message, beside what they use of their limits.
// Data: {runs: [{name, limits, entries: [{role, lines, used}]}]}; role "stop" is the end, with its reason.
"use strict";

{
  const { escape } = BookWidget;
  const NAMES = { user: "user", assistant: "model", tool: "tool", stop: "stop" };

  class AgentRun extends BookWidget {
    constructor() {
      super();
      this.label = "A run of the loop, message by message, and its limits";
      this.view = { run: 0, step: 4 };
    }

    get markup() {
      const { list, slider, stepBar } = BookWidget;
      const most = Math.max(...this.data.runs.map(({ entries }) => entries.length - 1));
      const rows = Object.keys(this.data.runs[0].limits).map((name) => `<tr><th scope="row">${name}</th><td id="used-${name}"></td><td><meter id="bar-${name}" min="0" aria-label="${name}"></meter></td></tr>`);
      return `<div class="bar">${list("run", "Run", this.data.runs.map(({ name }) => name))}</div>
        ${stepBar("Next")}
        <div class="sliders">${slider("step", "messages", 0, most)}</div>
        <ol id="messages"></ol>
        <table><thead><tr><th scope="col">limit</th><th scope="col">used</th><th scope="col">share</th></tr></thead><tbody>${rows.join("")}</tbody></table>
        <style>
          #messages { list-style: none; margin: 0.6em 0; padding: 0; min-height: 12em; }
          #messages li { margin: 0.25em 0; padding: 0.15em 0.6em; border-left: 4px solid var(--links); white-space: pre-wrap; overflow-wrap: anywhere; font-family: var(--mono-font, monospace); font-size: 0.9em; }
          #messages .user { border-left-style: double; }
          #messages .tool { border-left-style: dotted; margin-left: 1.2em; }
          #messages .stop { border-left-color: var(--fg, CanvasText); font-weight: 700; }
          #messages .new { outline: 1px solid var(--links); }
          meter { width: 100%; }
          meter::-webkit-meter-optimum-value { background: var(--links); }
          meter::-moz-meter-bar { background: var(--links); }
          td:last-child { width: 60%; }
          thead th:last-child { text-align: left; padding-left: 0.4em; }
        </style>`;
    }

    start() {
      this.$("[name=run]").addEventListener("input", ({ target }) => this.change({ run: Number(target.value), step: 0 }));
      this.bind("step");
      this.steps(1200, { step: 0 });
    }

    /** Whether there is a further step. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(this.last, this.state.step + by)) });
      return this.view.step < this.last;
    }

    get last() {
      return this.data.runs[this.view.run].entries.length - 1;
    }

    get state() {
      const { limits, entries } = this.data.runs[this.view.run];
      const step = Math.min(this.view.step, this.last);
      return { run: this.view.run, step, limits, shown: entries.slice(0, step + 1), used: entries[step].used };
    }

    draw() {
      const { run, step, limits, shown, used } = this.state;
      this.$("[name=run]").value = run;
      this.$("[name=step]").max = this.last;
      this.$("[name=step]").value = step;
      this.$("#at-step").textContent = step + 1;
      this.dim("#back", step === 0);
      this.dim("#next", step === this.last);
      this.$("#messages").innerHTML = shown
        .map(({ role, lines }, i) => `<li class="${role}${i === step ? " new" : ""}">${NAMES[role]}: ${escape(lines.join("\n"))}</li>`)
        .join("");
      for (const [name, limit] of Object.entries(limits)) {
        this.$(`#used-${name}`).textContent = `${used[name]} of ${limit}`;
        const meter = this.$(`#bar-${name}`);
        meter.max = limit;
        meter.value = used[name];
      }
      const { role, lines } = shown.at(-1);
      this.say(`Message ${step + 1} of ${this.last + 1}, ${NAMES[role]}: ${lines[0] ?? ""}`);
    }
  }
  customElements.define("agent-run", AgentRun);
}
