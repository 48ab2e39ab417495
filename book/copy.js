"use strict";

// The copy button takes what can be pasted: of a Python session the code, of a console listing the commands.

globalThis.playground_text = (pre) => {
  const text = pre.querySelector("code").textContent.trimEnd();
  const prompt = { ">>> ": /^(?:>>>|\.\.\.)(?: |$)/, "$ ": /^\$ / }[text.match(/^(?:>>>|\$) /m)?.[0]];
  if (!prompt) return text;
  // At a prompt, an indented block ends with an empty line.
  const lines = text.replace(/^\.\.\. {2,}.*$(?!\n\.\.\.)/gm, "$&\n...").split("\n");
  return lines.flatMap((line) => (prompt.test(line) ? line.replace(prompt, "") : [])).join("\n");
};
