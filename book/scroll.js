"use strict";

// What is wider than the page scrolls by itself and fades towards an edge (book.css). Arrow keys in it turn no page.

(() => {
  // A long name or path in a table may break; a short one, such as H_kv, stays whole, and so does the ending of a file.
  for (const name of document.querySelectorAll("main td code")) {
    name.innerHTML = name.innerHTML.replace(/([A-Za-z][.=](?=\w{4})|\w\w_|\w\/)(?=[A-Za-z]\w)/g, "$1<wbr>");
    if (name.textContent.length > 13) name.innerHTML = name.innerHTML.replace(/([a-z]{3})(?=[A-Z][a-z]{2})/g, "$1<wbr>");
  }
  // The highlighter ends a number at its underscore. A short string stays whole.
  for (const code of document.querySelectorAll("main code.hljs")) {
    for (const text of code.querySelectorAll(".hljs-string")) text.classList.toggle("flag", text.textContent.length < 16);
    if (/\d_\d/.test(code.textContent)) code.innerHTML = code.innerHTML.replace(/(class="hljs-number">\d+)<\/span>((?:_\d+)+)/g, "$1$2</span>");
  }
  // A flag stays whole: a browser would end a line after its hyphens.
  const whole = (html) => html.replace(/(?<![\w-])--?[a-z][\w-]{0,20}(?![\w-])/gi, '<span class="flag">$&</span>');
  for (const code of document.querySelectorAll("main :not(pre) > code")) {
    if (/(^|\s)-/.test(code.textContent)) code.innerHTML = whole(code.innerHTML);
  }
  // Lines of listings wrap, but not columns. The sentence that names a mistake is marked. A parameter stays in one line.
  for (const list of document.querySelectorAll("main .language-python .hljs-params")) {
    list.innerHTML = list.innerHTML.replace(/[^\s,[](?:\[[^\]]*\]|[^,[\n])*,?/g, '<span class="parameter">$&</span>');
  }
  for (const code of document.querySelectorAll("main pre > code")) {
    const message = /^\$ pdm run (test|hint|status)/.test(code.textContent);
    const session = code.matches(".language-text, .language-pycon");
    const marked = message ? code.innerHTML.replace(/^( *)(Your output equals what you get[^\n]*)/gm, "$1<mark>$2</mark>") : code.innerHTML;
    // A line that wraps continues below its first word. A session breaks after a bracket or a dot, a long name between words.
    const texts = code.textContent.split("\n");
    const open = []; // tags of a string or a list of parameters that continues on the next line
    const indented = (line, i) => {
      const [, start, comment] = texts[i].match(/^((?:>>>|\.\.\.)?\s*)(\/\/+ |# )?/);
      const prose = /string|comment/.test(open.at(-1)) || texts[i].startsWith('"""', start.length);
      const indent = start.length + (comment?.length ?? (prose ? 0 : 2));
      const columns = session && !message && /^(?!>>>|\.\.\. |\{).*(\S {2,}(?!# )\S|[│├└])/.test(texts[i]);
      const before = open.join("");
      for (const [tag] of line.matchAll(/<\/?(span|mark)[^>]*>/g)) tag[1] === "/" ? open.pop() : open.push(tag);
      return `<span style="--indent:${indent}ch"${columns ? ' class="columns"' : ""}>${before}${line}\n${"</span>".repeat(open.length)}</span>`;
    };
    const parted = session ? marked.replace(/([([.])(?=[a-z_])(?![^<]*>)/gi, "$1<wbr>") : marked;
    const named = whole(parted).replace(/\b[\w.]{28,}/g, (name) => name.replace(/[._](?=[a-z])/g, "$&<wbr>"));
    code.innerHTML = named.trimEnd().split("\n").map(indented).join("");
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
