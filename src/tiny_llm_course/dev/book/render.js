// Rejects unknown or doubtful TeX, and adds MathML to the HTML, for screen readers. ROLES: the macros of math.py.
function renderAll(formulas) {
  return JSON.stringify(formulas.map(([tex, displayMode]) => {
    const options = {
      displayMode, throwOnError: true, output: "htmlAndMathml", macros: ROLES,
      trust: ({ command }) => command === "\\htmlClass",
      strict: (code) => code === "htmlExtension" ? "ignore" : "error",
    };
    try {
      return { html: katex.renderToString(tex, options) };
    } catch (error) {
      return { error: error.rawMessage || String(error), position: error.position || 0 };
    }
  }));
}
