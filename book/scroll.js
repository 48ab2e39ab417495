"use strict";

// What is wider than the page scrolls by itself and fades towards an edge (book.css). Arrow keys in it turn no page.

(() => {
  // A long name or path in a table may break; a short one, such as H_kv, stays whole, and so does the ending of a file.
  for (const name of document.querySelectorAll("main td code")) {
    name.innerHTML = name.innerHTML.replace(/([A-Za-z][.=](?=\w{4})|\w\w_|\w\/)(?=[A-Za-z]\w)/g, "$1<wbr>");
    if (name.textContent.length > 18) name.innerHTML = name.innerHTML.replace(/([a-z]{3})(?=[A-Z][a-z]{2})/g, "$1<wbr>");
  }
  // The highlighter ends a number at its underscore.
  for (const code of document.querySelectorAll("main code.hljs")) {
    if (/\d_\d/.test(code.textContent)) code.innerHTML = code.innerHTML.replace(/(class="hljs-number">\d+)<\/span>((?:_\d+)+)/g, "$1$2</span>");
  }
  // A flag stays whole: a browser would end a line after its hyphens.
  const whole = (html) => html.replace(/(?<![\w-])--?[a-z][\w-]{0,20}(?![\w-])/gi, '<span class="flag">$&</span>');
  for (const code of document.querySelectorAll("main :not(pre) > code")) {
    if (/(^|\s)-/.test(code.textContent)) code.innerHTML = whole(code.innerHTML);
  }
  // Lines of sessions and messages wrap, but not columns. The sentence that names a mistake is marked.
  for (const code of document.querySelectorAll("main pre > code:is(.language-text, .language-pycon)")) {
    const message = /^\$ pdm run (test|hint|status)/.test(code.textContent);
    code.classList.add("wraps");
    const marked = message ? code.innerHTML.replace(/^( *)(Your output equals what you get[^\n]*)/gm, "$1<mark>$2</mark>") : code.innerHTML;
    // A line that wraps continues below its first word, and breaks after a bracket or a dot before it breaks a name.
    const texts = code.textContent.split("\n");
    const columns = (text) => !message && /\S {2,}(?!# )\S|[│├└]/.test(text.replace(/^(>>>|\.\.\.) /, ""));
    const indented = (line, i) => `<span style="--indent:${texts[i].match(/^(?:>>>|\.\.\.)?\s*/)[0].length + 2}ch"${columns(texts[i]) ? ' class="columns"' : ""}>${line}\n</span>`;
    code.innerHTML = whole(marked).replace(/([([.])(?=[a-z_])(?![^<]*>)/gi, "$1<wbr>").trimEnd().split("\n").map(indented).join("");
  }
  // A listing is as wide as the text or, with a line that does not wrap and does not fit there, as wide as the page.
  for (const code of document.querySelectorAll("main pre > code")) {
    const lines = code.matches(".wraps") ? code.querySelectorAll(".columns") : [code];
    code.parentElement.classList.toggle("wide", [...lines].some((line) => /.{94}/.test(line.textContent)));
  }
  // First all sizes are read, then all marks are set: in turns, each would lay the page out anew.
  const update = (parts) => {
    const sizes = parts.map((part) => [part, part.scrollWidth - part.clientWidth, part.scrollLeft]);
    for (const [part, beyond, left] of sizes) {
      if (beyond > 0) {
        part.tabIndex = 0;
      } else {
        part.removeAttribute("tabindex");
      }
      // A pixel is lost where sizes are no whole numbers.
      part.classList.toggle("more-before", left > 1);
      part.classList.toggle("more-after", left < beyond - 1);
    }
  };
  const stay = (event) => {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") event.stopPropagation();
  };
  const observer = new ResizeObserver((changes) => update(changes.map(({ target }) => target)));
  const wide = [...document.querySelectorAll("main :is(pre > code, .table-wrapper, .formula)")];
  for (const part of wide) {
    part.addEventListener("keydown", stay);
    part.addEventListener("scroll", () => update([part]), { passive: true });
    observer.observe(part);
  }
  // A late font changes what is inside a part, not its size.
  document.fonts.addEventListener("loadingdone", () => update(wide));
})();
