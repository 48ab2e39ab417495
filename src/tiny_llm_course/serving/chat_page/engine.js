// What the engine is doing, drawn anew twice a second while somebody looks.

const EVERY = 500;  // milliseconds
const COLORS = 8;
const byId = (id) => document.getElementById(id);

/** A color for each request, which it keeps: the next number that is free among those that run. */
const colors = new Map();
function colorOf(id, running) {
  for (const known of colors.keys()) if (!running.has(known)) colors.delete(known);
  if (!colors.has(id)) {
    const taken = new Set(colors.values());
    colors.set(id, [...Array(COLORS).keys()].find((number) => !taken.has(number)) ?? colors.size % COLORS);
  }
  return `var(--c${colors.get(id)})`;
}

function slots(state) {
  const running = new Set(state.running.map((one) => one.id));
  const items = [];
  for (let number = 0; number < state.slots; ++number) {
    const item = document.createElement("li"), one = state.running[number];
    if (one) {
      const name = document.createElement("span"), what = document.createElement("span");
      name.textContent = `request ${one.id}`;
      what.textContent = one.read < one.prompt ? `reads ${one.read} of ${one.prompt}` : `has written ${one.output}`;
      item.className = "busy";
      item.style.borderLeftColor = colorOf(one.id, running);
      item.append(name, what);
    } else {
      item.className = "free";
      item.textContent = "free";
    }
    items.push(item);
  }
  byId("slots").replaceChildren(...items);
}

function pages(state) {
  byId("memory").hidden = !state.pages;
  if (!state.pages) return;
  const running = new Set(state.running.map((one) => one.id));
  const { all, size, free, kept, each, cells } = state.pages;
  const field = byId("pages");
  while (field.children.length < cells.length) field.append(document.createElement("i"));
  while (field.children.length > cells.length) field.lastChild.remove();
  cells.forEach((owner, number) => {
    const cell = field.children[number];
    cell.className = owner === "kept" ? "kept" : "";
    cell.style.backgroundColor = owner === null || owner === "kept" ? "" : colorOf(owner, running);
  });
  const used = all - free - kept, count = (number) => number.toLocaleString("en");
  const words = `${count(all)} pages of ${size} tokens: ${count(used)} in use, ${count(kept)} kept for others, ${count(free)} free.`;
  field.setAttribute("aria-label", words);
  byId("pages-words").textContent = each > 1 ? `${words} A square is ${each} pages.` : words;
}

function draw(state) {
  const all = state.running.length;
  byId("pace").textContent = `${state.mode}: ${Math.round(state.tokens_per_second)} tokens a second, ${all} of ${state.slots} slots busy.`;
  byId("queue").textContent = state.waiting === 1 ? "1 request waits." : `${state.waiting} requests wait.`;
  slots(state);
  pages(state);
  byId("prefix").hidden = !state.prefix;
  if (state.prefix) {
    const { asked, hit } = state.prefix;
    byId("prefix").textContent = `Prefix cache: ${hit} of ${asked} tokens of prompts were there (${asked ? Math.round((100 * hit) / asked) : 0} %).`;
  }
}

/** Ask for the state again and again, not while the page is hidden. */
export async function watchEngine(headers) {
  for (;;) {
    if (!document.hidden) {
      try {
        const response = await fetch("state", { headers: headers() });
        if (response.ok) draw(await response.json());
        else byId("pace").textContent = `The engine says ${response.status}.`;
      } catch {
        byId("pace").textContent = "The server does not answer.";
      }
    }
    await new Promise((done) => setTimeout(done, EVERY));
  }
}
