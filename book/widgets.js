"use strict";

// Loads the widgets that this page has and no others: the element <norm-gate> comes from src/widgets/norm-gate.js, and
// all of them stand on common.js.

(() => {
  const folder = new URL("widgets/", document.currentScript.src);
  const names = new Set([...document.querySelectorAll("main :not(:defined)")].map((element) => element.localName));
  for (const name of names.size ? ["common", ...names] : []) {
    // Asked for at once, run in this order.
    document.head.append(Object.assign(document.createElement("script"), { src: new URL(`${name}.js`, folder), async: false }));
  }
})();
