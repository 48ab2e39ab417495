// The chat: what is said goes to /v1/chat/completions, as any other client sends it, and comes back as a stream.

import { watchEngine } from "/page/engine.js";
import { markdown } from "/page/markdown.js";

const byId = (id) => document.getElementById(id);
const form = byId("form"), box = byId("text"), log = byId("log"), status = byId("status");
const NUMBERS = ["temperature", "top_p", "max_completion_tokens", "seed"];

let said = [];  // what has been said, as the server wants it
let asking = null;  // the AbortController of the answer that is coming
let model = "";

/** The server's key, if it wants one: it is asked for once, and kept as long as this page is open. */
let key = sessionStorage.getItem("key") ?? "";

function headers() {
  return { "Content-Type": "application/json", ...(key ? { Authorization: `Bearer ${key}` } : {}) };
}

/** A message on the page; gives the place where its text goes. */
function shown(role) {
  const item = document.createElement("li"), who = document.createElement("span"), text = document.createElement("div");
  item.className = role;
  who.className = "who";
  who.textContent = role === "user" ? "You" : "Model";
  item.append(who, text);
  log.append(item);
  return text;
}

function settings() {
  const given = {};
  for (const name of NUMBERS) {
    const input = byId(name);
    if (input.value !== "" && !input.checkValidity()) throw new Error(`${input.parentElement.firstChild.textContent.trim()}: ${input.validationMessage}`);
    if (input.value !== "") given[name] = Number(input.value);
  }
  return given;
}

/** The events of a response, as they come. */
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      const data = part.replace(/^data: /, "");
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}

/** What a server says that refuses. */
async function refusal(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `${response.status} ${response.statusText}`;
  }
}

async function answer() {
  asking = new AbortController();
  byId("send").disabled = true;
  byId("stop").disabled = false;
  status.textContent = "The model is writing.";
  const place = shown("assistant");
  const begun = performance.now(), chat = said;  // "New chat" begins another one
  let text = "", usage = null, reason = "", first = 0, waiting = false;
  const draw = () => {
    waiting = false;
    const atEnd = innerHeight + scrollY > document.body.scrollHeight - 80;
    place.replaceChildren(...markdown(text));
    if (atEnd) scrollTo(0, document.body.scrollHeight);
  };
  try {
    const wanted = { model, messages: chat, stream: true, stream_options: { include_usage: true }, ...settings() };
    const response = await fetch("/v1/chat/completions", {
      method: "POST", headers: headers(), body: JSON.stringify(wanted), signal: asking.signal,
    });
    if (!response.ok) throw new Error(await refusal(response));
    for await (const event of events(response)) {
      if (event.error) throw new Error(event.error.message);
      const choice = event.choices?.[0];
      usage = event.usage ?? usage;
      reason = choice?.finish_reason ?? reason;
      if (choice?.delta?.content) {
        first ||= performance.now();
        text += choice.delta.content;
        if (!waiting) waiting = requestAnimationFrame(draw);
      }
    }
    const tokens = usage?.completion_tokens ?? 0, seconds = (performance.now() - begun) / 1000;
    const ended = reason === "length" ? "Stopped at the most tokens" : "Done";
    status.textContent = `${ended}: ${tokens} tokens in ${seconds.toFixed(1)} s${first ? `, the first after ${Math.round(first - begun)} ms` : ""}.`;
  } catch (error) {
    if (error.name === "AbortError") status.textContent = "Stopped.";
    else {
      place.parentElement.classList.add("refused");
      status.textContent = `No answer: ${error.message}`;
    }
  }
  draw();
  if (text) chat.push({ role: "assistant", content: text });
  else {
    place.parentElement.remove();
    chat.pop();
  }
  asking = null;
  byId("send").disabled = false;
  byId("stop").disabled = true;
  box.focus();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = box.value;
  if (asking || !text.trim()) return;
  shown("user").replaceChildren(...markdown(text));
  said.push({ role: "user", content: text });
  box.value = "";
  answer();
});
box.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  form.requestSubmit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") asking?.abort();
});
byId("stop").addEventListener("click", () => asking?.abort());
byId("new").addEventListener("click", () => {
  asking?.abort();
  said = [];
  log.replaceChildren();
  status.textContent = "";
  box.focus();
});

async function begin() {
  let response = await fetch("/v1/models", { headers: headers() });
  while (response.status === 401) {
    key = prompt("This server wants a key:") ?? "";
    if (!key) break;
    sessionStorage.setItem("key", key);
    response = await fetch("/v1/models", { headers: headers() });
  }
  if (!response.ok) {
    status.textContent = await refusal(response);
    return;
  }
  model = (await response.json()).data[0].id;
  byId("model").textContent = model;
  document.title = `${model} · tiny-llm`;
  watchEngine(headers);
}
begin();
