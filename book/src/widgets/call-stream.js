// <call-stream>: an answer with tool calls, read character by character.
// Data: {answers: [{name, text, steps: [[events, completed]]}]}: for each character, and for the end of the answer, the
// parser's new events [kind, text, call], and the arguments of the last call so far, completed to JSON.
"use strict";

{
  const { escape } = BookWidget;

  class CallStream extends BookWidget {
    constructor() {
      super();
      this.label = "A streamed answer, what a parser knows of it, and what it still holds back";
      this.view = { answer: 0, step: 68 };
    }

    get markup() {
      const { list, slider, stepBar } = BookWidget;
      return `<div class="bar">${list("answer", "Answer", this.data.answers.map(({ name }) => name))}</div>
        ${stepBar("Next")}
        <div class="sliders">${slider("step", "characters", 0, Math.max(...this.data.answers.map(({ steps }) => steps.length)))}</div>
        <pre id="raw" tabindex="0" aria-label="The answer so far"></pre>
        <dl><dt>Shown as text</dt><dd id="text"></dd><dt>Held back</dt><dd id="held"></dd></dl>
        <div class="scroll"><table><thead><tr><th scope="col">call</th><th scope="col">name</th><th scope="col">arguments so far</th><th scope="col">state</th></tr></thead><tbody></tbody></table></div>
        <p>Completed: <code id="json"></code></p>
        <style>
          #raw { white-space: pre-wrap; overflow-wrap: anywhere; margin: 0.5em 0; padding: 0.5em; border: 1px solid var(--line); min-height: 7.5em; }
          #raw .later { opacity: 0.75; }
          #raw .now { outline: 2px solid var(--links); font-weight: 700; }
          dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.2em 1em; margin: 0.5em 0; }
          dd { margin: 0; }
          dd, td, code { overflow-wrap: anywhere; }
          td, thead th { text-align: left; }
          td { font-family: var(--mono-font, monospace); }
          dd { font-family: var(--mono-font, monospace); white-space: pre-wrap; }
        </style>`;
    }

    start() {
      this.$("[name=answer]").addEventListener("input", ({ target }) => this.change({ answer: Number(target.value), step: 0 }));
      this.bind("step");
      this.steps(180, { step: 0 });
    }

    /** Whether there is a further step. */
    move(by) {
      this.change({ step: Math.max(0, Math.min(this.last, this.state.step + by)) });
      return this.view.step < this.last;
    }

    get last() {
      return this.data.answers[this.view.answer].steps.length;
    }

    get state() {
      const { text, steps } = this.data.answers[this.view.answer];
      const step = Math.min(this.view.step, this.last);
      const [calls, news] = [[], step ? steps[step - 1][0] : []];
      let [shown, inside] = ["", 0]; // inside: where the text that is not yet accounted for begins
      steps.slice(0, step).forEach(([events], at) => {
        for (const [kind, said, index] of events) {
          if (kind === "text") shown += said;
          else {
            calls[index] ??= { name: "", arguments: "", state: "open" };
            if (kind === "name") calls[index].name = said;
            else if (kind === "arguments") calls[index].arguments += said;
            else calls[index].state = said || "complete";
          }
        }
        if (events.length) inside = Math.min(at + 1, text.length);
      });
      const held = text.slice(inside, Math.min(step, text.length));
      return { answer: this.view.answer, step, text, shown, calls, held: step > text.length ? "" : held, completed: step ? steps[step - 1][1] : "", news };
    }

    draw() {
      const { answer, step, text, shown, calls, held, completed, news } = this.state;
      this.$("[name=answer]").value = answer;
      this.$("[name=step]").max = this.last;
      this.$("[name=step]").value = step;
      this.$("#at-step").textContent = Math.min(step, text.length);
      this.dim("#back", step === 0);
      this.dim("#next", step === this.last);
      const now = step && step <= text.length ? `<span class="now">${escape(text[step - 1])}</span>` : "";
      this.$("#raw").innerHTML = `${escape(text.slice(0, Math.max(0, Math.min(step - 1, text.length))))}${step > text.length ? escape(text.slice(step - 1)) : ""}${now}<span class="later">${escape(text.slice(step))}</span>`;
      const visible = (said) => said.replace(/\n/g, "↵\n") || "–";
      this.$("#text").textContent = visible(shown);
      this.$("#held").textContent = visible(held);
      const cells = (call, i) => [call.name || "–", call.arguments || "–", call.state].map((cell) => `<td>${escape(cell)}</td>`).join("");
      this.$("tbody").innerHTML = calls.map((call, i) => `<tr><th scope="row">${i}</th>${cells(call, i)}</tr>`).join("") || '<tr><th scope="row">–</th><td>–</td><td>–</td><td>–</td></tr>';
      this.$("#json").textContent = completed || "–";
      const kinds = news.map(([kind, said]) => (kind === "end" ? "end of the call" : `${kind} ${JSON.stringify(said)}`));
      const what = step > text.length ? "The answer has ended" : step ? `Character ${step} of ${text.length}, ${JSON.stringify(text[step - 1])}` : "Nothing has arrived";
      this.say(`${what}: ${kinds.join(", then ") || "nothing to report"}.`);
    }
  }
  customElements.define("call-stream", CallStream);
}
