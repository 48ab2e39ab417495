"use strict";

// A term that links to the glossary shows the first sentence of its entry: under the mouse, with the focus, and at a first
// tap, after which a second one follows the link. Without this script it is the link's title.

(() => {
  const terms = [...document.querySelectorAll('main a[href*="glossary.html#"][title]')];
  if (!terms.length) return;
  const note = document.createElement("div");
  note.id = "term-note";
  note.setAttribute("role", "tooltip");
  note.hidden = true;
  document.querySelector("main").append(note);
  let shown = null;
  let leaving = 0;
  const hide = () => {
    clearTimeout(leaving);
    note.hidden = true;
    shown?.removeAttribute("aria-describedby");
    shown = null;
  };
  // Long enough for the pointer to cross the gap between a term and its note, which then stays.
  const leave = () => {
    clearTimeout(leaving);
    leaving = setTimeout(hide, 200);
  };
  note.addEventListener("pointerenter", () => clearTimeout(leaving));
  note.addEventListener("pointerleave", leave);
  const show = (term) => {
    hide();
    shown = term;
    note.textContent = term.dataset.note;
    note.hidden = false;
    term.setAttribute("aria-describedby", note.id);
    const [at, around] = [term.getClientRects()[0], note.offsetParent.getBoundingClientRect()];
    // What is outside the column is cut off on a phone.
    const column = note.parentElement.getBoundingClientRect();
    const left = Math.max(column.left, Math.min(at.left, column.right - note.offsetWidth));
    note.style.left = `${left - around.left}px`;
    note.style.top = `${at.bottom + 6 - around.top}px`;
  };
  for (const term of terms) {
    term.dataset.note = term.title;
    term.removeAttribute("title");
    let tapped = false;
    term.addEventListener("pointerdown", (event) => (tapped = event.pointerType === "touch" && shown !== term));
    term.addEventListener("pointerenter", (event) => event.pointerType === "touch" || show(term));
    term.addEventListener("pointerleave", (event) => event.pointerType === "touch" || leave());
    term.addEventListener("focus", () => show(term));
    term.addEventListener("blur", hide);
    term.addEventListener("click", (event) => {
      if (tapped) event.preventDefault();
      if (tapped) show(term);
      tapped = false;
    });
  }
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("pointerdown", (event) => shown && !event.target.closest("[data-note]") && hide());
})();
