// <mc-quiz answer="2">: a question with answers to choose from, each of which is explained when it is checked.
//
// The book holds, inside the element, what is there without this script and on paper: the question, a list of its
// options, and a <details> with a list of their explanations in the same order. `answer` counts the options from 0.
"use strict";

(() => {
  let count = 0;

  class McQuiz extends HTMLElement {
    connectedCallback() {
      if (this.form) return; // moved within the page
      this.answer = Number(this.getAttribute("answer"));
      this.explanations = [...this.querySelectorAll("details li")].map((item) => item.innerHTML);

      const still = document.createElement("div");
      still.className = "quiz-still";
      still.append(...[...this.childNodes].map((node) => node.cloneNode(true)));
      const options = this.querySelector(":scope > ol");

      // The originals are shown: scroll.js watches their listings.
      const question = document.createElement("div");
      question.id = `mc-quiz-${++count}`;
      while (this.firstChild !== options) question.append(this.firstChild);
      this.form = document.createElement("form");
      this.form.className = "quiz-form";
      this.form.append(question, this.choices(options, question.id), this.button(), this.verdict());
      this.others = this.notes();
      this.form.addEventListener("submit", (event) => {
        event.preventDefault();
        this.check();
      });
      this.form.addEventListener("change", () => this.forget());
      // mdBook turns the page on the arrow keys and opens the search on `s` wherever a button has the focus.
      this.form.addEventListener("keydown", (event) => {
        if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
      });
      this.replaceChildren(this.form, still);
    }

    choices(options, question) {
      const group = document.createElement("fieldset");
      group.setAttribute("aria-labelledby", question);
      group.classList.toggle("short", [...options.children].every((item) => item.textContent.length < 30));
      this.labels = [...options.children].map((item, number) => {
        const label = document.createElement("label");
        const radio = Object.assign(document.createElement("input"), { type: "radio", name: "choice", value: number });
        const text = document.createElement("span");
        text.innerHTML = item.innerHTML;
        label.append(radio, text);
        group.append(label);
        return label;
      });
      return group;
    }

    button() {
      return Object.assign(document.createElement("button"), { type: "submit", textContent: "Check" });
    }

    verdict() {
      this.status = document.createElement("p");
      this.status.setAttribute("role", "status");
      this.status.setAttribute("aria-live", "polite");
      return this.status;
    }

    check() {
      this.forget();
      const { chosen } = this.state;
      if (chosen === null) {
        this.status.textContent = "Choose an answer first.";
        return;
      }
      this.labels[chosen].dataset.verdict = chosen === this.answer ? "right" : "wrong";
      this.status.innerHTML = this.explanations[chosen];
      if (chosen === this.answer) this.form.append(this.others);
    }

    // After the right answer: the mistake behind each of the others.
    notes() {
      const others = document.createElement("details");
      const list = this.labels.flatMap((label, number) =>
        number === this.answer ? [] : [`<li value="${number + 1}">${this.explanations[number].replace(/^<strong>No\.<\/strong>\s*/, "")}</li>`],
      );
      others.innerHTML = `<summary>Why not the others?</summary><ol>${list.join("")}</ol>`;
      return others;
    }

    // A verdict belongs to the answer that was checked, and goes when another one is chosen.
    forget() {
      for (const label of this.labels) delete label.dataset.verdict;
      this.status.textContent = "";
      this.others.remove();
    }

    // What a test reads: which option is chosen, and what was said of it.
    get state() {
      const value = new FormData(this.form).get("choice");
      const chosen = value === null ? null : Number(value);
      const verdict = chosen === null ? null : this.labels[chosen].dataset.verdict || null;
      return { chosen, verdict, answer: this.answer, said: this.status.textContent };
    }
  }

  customElements.define("mc-quiz", McQuiz);
})();
