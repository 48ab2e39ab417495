// Markdown as nodes of the page. What a model writes is never read as HTML: every word of it becomes a text node.

const INLINE = /(`{1,3})(.+?)\1|\*\*(.+?)\*\*|\*([^*\s](?:[^*]*[^*\s])?)\*|\[([^[\]]+)\]\((https?:\/\/[^\s)]{1,2000})\)/gs;

/** A node of this name with these children. */
function node(name, ...children) {
  const made = document.createElement(name);
  made.append(...children);
  return made;
}

/** The nodes of a line: code, strong, emphasis, links to the web, and text. */
function inline(text) {
  const nodes = [];
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    if (found.index > from) nodes.push(text.slice(from, found.index));
    nodes.push(styled(found));
    from = found.index + found[0].length;
  }
  return from < text.length ? [...nodes, text.slice(from)] : nodes;
}

function styled([, , code, strong, emphasis, label, address]) {
  if (code !== undefined) return node("code", code);
  if (strong !== undefined) return node("strong", ...inline(strong));
  if (emphasis !== undefined) return node("em", ...inline(emphasis));
  const link = node("a", ...inline(label));
  link.href = address;
  link.rel = "noopener noreferrer";
  link.target = "_blank";
  return link;
}

/** The nodes of a text: paragraphs, headings, lists and blocks of code. One that has no end yet is shown all the same. */
export function markdown(text) {
  const made = [];
  const lines = text.split("\n");
  while (lines.length) {
    const line = lines.shift();
    const fence = /^\s*(```+|~~~+)/.exec(line);
    const heading = /^(#{1,6})\s+(.*)/.exec(line);
    const item = /^\s*([-*+]|\d+[.)])\s+(.*)/.exec(line);
    if (fence) {
      const code = [];
      while (lines.length && !lines[0].trimStart().startsWith(fence[1])) code.push(lines.shift());
      lines.shift();
      const block = node("pre", node("code", code.join("\n")));
      block.tabIndex = 0;  // what is wide is scrolled by keyboard, too
      made.push(block);
    } else if (heading) {
      made.push(node(`h${Math.min(heading[1].length + 2, 6)}`, ...inline(heading[2])));
    } else if (item) {
      const numbered = /\d/.test(item[1]);
      const list = node(numbered ? "ol" : "ul", node("li", ...inline(item[2])));
      if (numbered) list.start = parseInt(item[1], 10);
      const next = numbered ? /^\s*\d+[.)]\s+(.*)/ : /^\s*[-*+]\s+(.*)/;
      for (let more; lines.length && (more = next.exec(lines[0])); lines.shift()) list.append(node("li", ...inline(more[1])));
      made.push(list);
    } else if (line.trim()) {
      const words = [line];
      while (lines.length && lines[0].trim() && !/^\s*(```|~~~|#{1,6}\s|[-*+]\s|\d+[.)]\s)/.test(lines[0])) words.push(lines.shift());
      const paragraph = node("p");
      words.forEach((each, i) => paragraph.append(...(i ? [node("br")] : []), ...inline(each)));
      made.push(paragraph);
    }
  }
  return made;
}
