"""How well text and lines stand out, where axe does not look: in drawings, and in every state of a widget.

WCAG's contrast of two colors. Text is held against what lies under it, 4.5 to 1; a line that is drawn, against the
page, 3 to 1. Both are looked for on the page and in the shadows of its widgets.
"""

FAINT = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const seen = new Map();
  const rgba = (color) => {
    if (!seen.has(color)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      seen.set(color, [...canvas.getImageData(0, 0, 1, 1).data]);
    }
    return seen.get(color);
  };
  const light = ([r, g, b]) => {
    const part = (value) => (value <= 10.31475 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const contrast = (...colors) => {
    const [dark, bright] = colors.map(light).sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  // What `ground` becomes under a color, which may be transparent in several ways.
  const under = (ground, color, opacity = 1) => {
    const [r, g, b, a] = rgba(color);
    return [r, g, b].map((value, i) => (value * a * opacity) / 255 + ground[i] * (1 - (a * opacity) / 255));
  };
  const page = rgba(getComputedStyle(document.documentElement).backgroundColor).slice(0, 3);
  const faint = [];
  const look = (name, top, ground, least) => {
    const found = contrast(top, ground);
    if (found < least) faint.push(`${name}: ${found.toFixed(2)}`);
  };
  const painted = (part, kind, ground) => {
    const style = getComputedStyle(part);
    return style[kind] === "none" ? null : under(ground, style[kind], style[`${kind}Opacity`] * style.opacity);
  };

  const drawing = (svg) => {
    const shapes = [...svg.querySelectorAll("path, line, circle, rect, polygon, polyline, ellipse")];
    for (const text of svg.querySelectorAll("text")) {
      const box = text.getBoundingClientRect();
      const middle = new DOMPoint(box.x + box.width / 2, box.y + box.height / 2);
      const holds = ({ x, y, width, height }) => {
        const [across, down] = ["x", "y"].map((name) => text[name].baseVal[0].value);
        return x.baseVal.value < across && across < x.baseVal.value + width.baseVal.value
          && y.baseVal.value < down && down < y.baseVal.value + height.baseVal.value;
      };
      // A drawing that a widget has replaced has no places on the page: there, its rectangles alone are looked at.
      const covers = (shape) =>
        shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING &&
        (shape.checkVisibility()
          ? shape.isPointInFill(middle.matrixTransform(shape.getScreenCTM().inverse()))
          : shape.tagName === "rect" && holds(shape));
      const ground = shapes.filter(covers).reduce((below, shape) => painted(shape, "fill", below) || below, page);
      if (text.textContent.trim()) look(text.textContent.trim(), painted(text, "fill", ground), ground, 4.5);
    }
    for (const shape of shapes) {
      const line = painted(shape, "stroke", page);
      if (line) look(`<${shape.tagName} class="${shape.getAttribute("class") || ""}">`, line, page, 3);
    }
  };

  document.querySelectorAll("main svg:not(.katex svg):not(pre svg):not(button svg)").forEach(drawing);
  for (const { shadowRoot } of document.querySelectorAll("main *")) {
    if (!shadowRoot) continue;
    shadowRoot.querySelectorAll("svg").forEach(drawing);
    for (const part of shadowRoot.querySelectorAll(".live *:not(svg, svg *, style, option)")) {
      const words = [...part.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
      if (!words.length || !part.checkVisibility()) continue;
      const around = [];
      for (let at = part; at; at = at.parentElement) around.unshift(getComputedStyle(at).backgroundColor);
      const ground = around.reduce((below, color) => under(below, color), page);
      look(words[0].data.trim(), under(ground, getComputedStyle(part).color), ground, 4.5);
    }
  }
  return faint;
}
"""
