"use strict";

// Listings, tables and formulas that are wider than the page scroll by themselves. The keyboard has to reach them, and
// their arrow keys must not turn the page, as mdBook's do everywhere outside of a form.

(() => {
  const update = ({ target }) => {
    if (target.scrollWidth > target.clientWidth) {
      target.tabIndex = 0;
    } else {
      target.removeAttribute("tabindex");
    }
  };
  const stay = (event) => {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") event.stopPropagation();
  };
  // Also called when a part comes to light, in a <details> that is opened.
  const observer = new ResizeObserver((parts) => parts.forEach(update));
  for (const part of document.querySelectorAll("main :is(pre > code, .table-wrapper, .formula)")) {
    part.addEventListener("keydown", stay);
    observer.observe(part);
  }
})();
