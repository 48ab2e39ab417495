// Rejects unknown or doubtful TeX, and adds MathML to the HTML, for screen readers. ROLES: the macros of math.py.
function renderAll(formulas) {
  return JSON.stringify(formulas.map(([source, displayMode]) => {
    // On a phone, a line ends at a wide space (book.css): not within \begin{...}, where it would end a row.
    const tex = source.includes("\\begin") ? source : source.replace(/(\\qquad\s*)+(?![a-zA-Z])/g, "$&\\\\ ");
    const options = {
      displayMode, throwOnError: true, output: "htmlAndMathml", macros: ROLES,
      trust: ({ command }) => command === "\\htmlClass",
      strict: (code) => ["htmlExtension", "newLineInDisplayMode"].includes(code) ? "ignore" : "error",
    };
    try {
      const html = katex.renderToString(tex, options);
      // A short formula in a sentence is one word.
      const letters = html.slice(html.indexOf("katex-html")).replace(/^[^>]*>|<[^>]*>/g, "").length;
      return { html: displayMode || letters > 16 ? html : html.replace('class="katex"', 'class="katex" data-short') };
    } catch (error) {
      return { error: error.rawMessage || String(error), position: error.position || 0 };
    }
  }));
}
