// The chat: what is said goes to /v1/chat/completions, as any other client sends it, and comes back as a stream.

import { watchEngine } from "./engine.js";
import { markdown } from "./markdown.js";

const byId = (id) => document.getElementById(id);
const form = byId("form"), box = byId("text"), log = byId("log"), status = byId("status");
const NUMBERS = ["temperature", "top_p", "max_completion_tokens", "seed"];

/** What this tab keeps over a reload: nothing where the browser forbids it, or where it is too much. */
const kept = {
  get(name) {
    try {
      return sessionStorage.getItem(name);
    } catch {
      return null;
    }
  },
  set(name, value) {
    try {
      sessionStorage.setItem(name, value);
    } catch {
      return;
    }
  },
};

let said = JSON.parse(kept.get("said") ?? "[]");  // the conversation, as the server wants it
let asking = null;  // the AbortController of the answer that is coming
let model = "";

/** The server's key, if it wants one: it is asked for, and kept as long as this page is open. */
let key = kept.get("key") ?? "";

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
    if (done) throw new Error("the server has gone in the middle of it.");
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

/** What has gone wrong, in words; a browser says nothing of a server that is not there. */
function words(error) {
  return error instanceof TypeError ? "the server does not answer." : error.message;
}

async function answer() {
  const talk = said;  // another one may begin before this answer ends
  asking = new AbortController();
  byId("send").disabled = true;
  byId("stop").disabled = false;
  status.textContent = "The model is writing.";
  byId("talk").setAttribute("aria-busy", "true");  // it is read out when it is whole, and not word by word
  const place = shown("assistant");
  const begun = performance.now();
  let text = "", usage = null, reason = "", first = 0, waiting = false;
  const draw = () => {
    waiting = false;
    const atEnd = innerHeight + scrollY > document.body.scrollHeight - 80;
    place.replaceChildren(...markdown(text));
    if (atEnd) scrollTo(0, document.body.scrollHeight);
  };
  try {
    const wanted = { model, messages: talk, stream: true, stream_options: { include_usage: true }, ...settings() };
    const response = await fetch("v1/chat/completions", {
      method: "POST", headers: headers(), body: JSON.stringify(wanted), signal: asking.signal,
    });
    if (response.status === 401) askForKey();
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
    const after = first ? `, the first after ${Math.round(first - begun)} ms` : "";
    status.textContent = `${ended}: ${tokens} tokens in ${seconds.toFixed(1)} s${after}.`;
  } catch (error) {
    if (error.name === "AbortError") status.textContent = "Stopped.";
    else {
      place.parentElement.classList.add("refused");
      status.textContent = `${text ? "Broken off" : "No answer"}: ${words(error)}`;
    }
  }
  draw();
  if (text) talk.push({ role: "assistant", content: text });
  else {
    const question = talk.pop();  // which may be sent again
    if (talk === said) {
      place.parentElement.previousSibling.remove();
      box.value ||= question.content;
    }
    place.parentElement.remove();
  }
  kept.set("said", JSON.stringify(said));
  byId("talk").removeAttribute("aria-busy");
  asking = null;
  byId("send").disabled = false;
  byId("stop").disabled = true;
  // Not if somebody has gone on to the settings.
  if ([document.body, byId("send"), byId("stop")].includes(document.activeElement) && byId("key-form").hidden) box.focus();
}

function askForKey() {
  byId("key-form").hidden = false;
  byId("key").focus();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = box.value;
  if (asking || !text.trim()) return;
  if (!model) {
    begin();
    return;
  }
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
  kept.set("said", "[]");
  log.replaceChildren();
  status.textContent = "";
  box.focus();
});

byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key = byId("key").value.trim();
  begin();
});

for (const message of said) shown(message.role).replaceChildren(...markdown(message.content));
for (const name of NUMBERS) {
  byId(name).value = kept.get(name) ?? byId(name).value;
  byId(name).addEventListener("input", () => kept.set(name, byId(name).value));
}

let watched = false;

/** Ask which model there is: as soon as the page is there, with a new key, and when nobody has answered before. */
async function begin() {
  try {
    const response = await fetch("v1/models", { headers: headers() });
    if (response.status === 401) askForKey();
    if (!response.ok) throw new Error(await refusal(response));
    model = (await response.json()).data[0].id;
  } catch (error) {
    status.textContent = `No model: ${words(error)}`;
    return;
  }
  kept.set("key", key);
  byId("model").textContent = model;
  document.title = `${model} · tiny-llm`;
  if (!byId("key-form").hidden) {
    byId("key-form").hidden = true;
    byId("key").value = status.textContent = "";
    box.focus();
  }
  if (!watched) watchEngine(headers);
  watched = true;
}
begin();
