"use strict";

// mdBook's own frame of a page, mended for those who do not see it or use no mouse: what opens the contents is a label
// that claims to be a button, and the bar at the top is in no landmark.

(() => {
  document.getElementById("mdbook-menu-bar")?.setAttribute("role", "banner");
  // The contents have dozens of links: the first stop of the tab key leads past them.
  const main = document.querySelector("main");
  if (main) {
    main.id ||= "text";
    main.tabIndex = -1;
    const skip = Object.assign(document.createElement("a"), { className: "skip", href: `#${main.id}`, textContent: "Skip to the text" });
    skip.addEventListener("click", (event) => {
      event.preventDefault();
      main.scrollIntoView();
      main.focus({ preventScroll: true });
    });
    document.body.prepend(skip);
  }
  // A wide page lists its sections beside its text, a narrow one in the contents, where mdBook puts them.
  document.addEventListener("DOMContentLoaded", () => {
    const list = document.querySelector(".on-this-page");
    if (!list || !main) return;
    const [chapter, sections] = [list.previousElementSibling, document.createElement("nav")];
    sections.className = "sections";
    sections.setAttribute("aria-label", "On this page");
    const place = ([{ contentRect: { width } }]) => {
      if (width >= 930) {
        sections.append(list);
        main.append(sections);
      } else {
        chapter.after(list);
        sections.remove();
      }
    };
    new ResizeObserver(place).observe(main);
  });
  // Which chapter this is, also in the middle of it.
  const title = document.querySelector(".menu-title");
  const chapter = document.querySelector("main h1")?.textContent.trim();
  if (title && chapter && chapter !== title.textContent.trim()) {
    const names = [["book-name", title.textContent.trim()], ["chapter-name", chapter]];
    title.replaceChildren(...names.map(([className, textContent]) => Object.assign(document.createElement("span"), { className, textContent })));
  }
  // In the search, a chapter's head shows what it says of itself, not its table of tasks, and is named once.
  let found;
  const mend = (doc) => {
    doc.body = doc.body.replace(/^.*?\bBefore (.*?)\s+After (.*?)\s+What you will be able to do.*$/s, "Before: $1 After: $2");
    doc.breadcrumbs = doc.breadcrumbs.replace(/(^|» )(.+) » \2$/, "$1$2");
  };
  Object.defineProperty((window.search ??= {}), "index", {
    get: () => found,
    set: (index) => {
      found = index;
      Object.values(index.documentStore.docs).forEach(mend);
    },
  });
  const label = document.getElementById("mdbook-sidebar-toggle");
  const box = document.getElementById("mdbook-sidebar-toggle-anchor");
  const contents = document.getElementById("mdbook-sidebar");
  if (!label || !box || !contents) return;
  const button = document.createElement("button");
  for (const { name, value } of label.attributes) if (name !== "for") button.setAttribute(name, value);
  button.type = "button";
  button.append(...label.childNodes);
  label.replaceWith(button);
  const tell = () => button.setAttribute("aria-expanded", String(box.checked));
  box.addEventListener("change", tell);
  button.addEventListener("click", () => {
    if (!box.checked) {
      contents.style.display = ""; // mdBook takes closed contents off the page, and puts them back by its label alone
      contents.getBoundingClientRect(); // so that they slide in
    }
    box.click();
  });
  tell();
  // On a phone the contents lie beside a strip of the page: a tap there closes them, and so does Escape.
  const narrow = matchMedia("(max-width: 619px)");
  const close = (event) => {
    if (!narrow.matches || !box.checked) return;
    event.preventDefault();
    event.stopPropagation();
    box.click();
    button.focus({ preventScroll: true });
  };
  document.getElementById("mdbook-page-wrapper")?.addEventListener("click", close, { capture: true });
  document.addEventListener("keydown", (event) => event.key === "Escape" && close(event));

  // The chapters before and after this one, by their names in the contents.
  const names = new Map([...contents.querySelectorAll("a[href]")].map((link) => [link.href, link.textContent.trim()]));
  for (const link of document.querySelectorAll("a.mobile-nav-chapters, a.nav-chapters")) {
    const name = names.get(link.href);
    if (!name) continue;
    link.title = link.getAttribute("aria-label").replace("chapter", `chapter: ${name}`);
    link.setAttribute("aria-label", link.title);
    const label = document.createElement("span");
    label.className = "name";
    label.textContent = name;
    if (link.classList.contains("mobile-nav-chapters")) link.append(label);
  }
})();
