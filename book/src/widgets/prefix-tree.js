// <prefix-tree>: requests are admitted and finish; the radix tree of their pages grows, splits and evicts.
// Data: {page_size, pages, requests: [{name, prompt, answer}], demo: [[action, request]]}: a token is a word. `Cache`
// is the solution's `PrefixKVCache`: the tests compare them.
"use strict";

{
  const { escape } = BookWidget;
  const listed = (pages) => `page${pages.length === 1 ? "" : "s"} ${pages.join(", ")}`;

  class Cache {
    constructor({ page_size, pages, requests }) {
      Object.assign(this, { size: page_size, requests, clock: 0, queried: 0, hits: 0, running: new Map(), refs: Array(pages).fill(0) });
      this.tokens = requests.map(({ prompt }) => [...prompt]); // a preempted request keeps its output
      this.root = { texts: [], pages: [], used: 0, children: [] }; // a node has the text of each page
    }

    get free() {
      return [...this.refs.keys()].filter((page) => !this.refs[page]);
    }

    retain(pages, by = 1) {
      for (const page of pages) this.refs[page] += by;
      return pages;
    }

    allocate(count) {
      return this.retain(this.free.slice(0, Math.max(0, count))); // the lowest first
    }

    pagesFor(tokens) {
      return Math.ceil(tokens / this.size);
    }

    walk(tokens) {
      let [node, child, found, texts] = [this.root, null, [], []];
      for (let at = this.size; at <= tokens.length; at += this.size) texts.push(tokens.slice(at - this.size, at).join(" "));
      const all = texts;
      this.clock++;
      while ((child = node.children.find((each) => each.texts[0] === texts[0]))) {
        const other = child.texts.findIndex((text, i) => text !== texts[i]);
        if (other > 0) {
          const rest = { ...child, texts: child.texts.splice(other), pages: child.pages.splice(other) };
          child.children = [rest];
          this.log["Split before"].push(rest.pages[0]);
        }
        child.used = this.clock;
        found = [...found, ...child.pages];
        [node, texts] = [child, texts.slice(child.pages.length)];
      }
      return { node, found, texts, all };
    }

    /** Insert a request's full computed pages; it takes those that the tree has. */
    share({ tokens, computed, pages }) {
      const { node, found, texts, all } = this.walk(tokens.slice(0, computed - (computed % this.size)));
      const fresh = this.retain(pages.slice(found.length, all.length));
      if (fresh.length) node.children.push({ texts, pages: fresh, used: this.clock, children: [] });
      this.retain(pages.slice(0, all.length), -1);
      const old = pages.splice(0, all.length, ...this.retain([...found, ...fresh]));
      this.log.Inserted.push(...fresh);
      this.log["Duplicates released"].push(...old.filter((page, i) => page !== pages[i]));
    }

    /** Evict, least recently used first, until so many pages are free; whether that succeeded. */
    makeFree(count) {
      const idle = (node) => this.refs[node.pages.at(-1)] === 1;
      const ends = (parent) => parent.children.flatMap((node) => (node.children.length ? ends(node) : idle(node) ? [{ parent, node }] : []));
      while (this.free.length < count) {
        const [first] = ends(this.root).sort((a, b) => a.node.used - b.node.used);
        if (!first) return false;
        const { parent, node } = first;
        this.log.Evicted.push(...this.retain(node.pages.splice(-1), -1));
        node.texts.pop();
        if (!node.pages.length) parent.children.splice(parent.children.indexOf(node), 1);
      }
      return true;
    }

    rest(number) {
      const { prompt, answer } = this.requests[number];
      return answer.slice(this.tokens[number].length - prompt.length);
    }

    /** Admit a request and compute its prompt, which yields the first token of the answer. */
    admit(number) {
      this.running.forEach((other) => this.share(other));
      const tokens = this.tokens[number];
      const found = (this.log.Found = this.retain(this.walk(tokens.slice(0, -1)).found)); // the last token's logits are needed
      const needed = this.pagesFor(tokens.length) - found.length;
      if (!this.makeFree(needed + this.running.size)) {
        this.retain(found, -1);
        return "must wait: too few pages can be freed";
      }
      this.queried += tokens.length;
      this.hits += found.length * this.size;
      const pages = [...found, ...this.allocate(needed)];
      this.running.set(number, { number, pages, tokens, computed: tokens.length });
      tokens.push(this.rest(number)[0]);
      return found.length ? "is admitted" : "is admitted, and none of its pages is cached";
    }

    /** Compute the rest of a request's answer and release it. */
    finish(number) {
      const request = this.running.get(number);
      let enough = true;
      for (const token of this.rest(number)) {
        const missing = this.pagesFor(request.computed + 1) - request.pages.length;
        if (!(enough = this.makeFree(missing))) break;
        request.pages.push(...this.allocate(missing));
        request.computed++;
        request.tokens.push(token);
      }
      this.share(request);
      this.running.delete(number);
      this.retain(request.pages, -1);
      if (!enough) return "is preempted: no page can be freed";
      this.tokens[number] = [...this.requests[number].prompt];
      return "is finished";
    }

    act([action, number]) {
      this.log = { Found: [], "Split before": [], Evicted: [], "Duplicates released": [], Inserted: [] };
      this.end = `${this.requests[number].name} ${this[action](number)}.`;
    }
  }

  class PrefixTree extends BookWidget {
    label = "A prefix cache, action by action";
    view = { actions: [], request: 0 };

    get markup() {
      const names = this.data.requests.map(({ name, prompt }) => `${name}: ${prompt.join(" ")}`);
      return `<div class="bar">${BookWidget.list("request", "Request", names)}
          <button type="button" id="admit">Admit</button><button type="button" id="finish">Finish</button></div>
        ${BookWidget.stepBar("Next step")}
        <ul id="pool" aria-label="The pool's pages"></ul><div id="tree"></div>
        <p>×2: two references <span class="chip held">held by a request</span> <span class="chip hit">found</span> <span class="chip new">inserted</span></p><div id="running"></div><div class="figures"></div>
        <style>
          select { max-width: 100%; }
          ul { list-style: none; margin: 0; padding: 0; }
          #pool, li div, .row { display: flex; flex-wrap: wrap; gap: 4px; }
          .chip { padding: 0 0.4em; border: 1px solid var(--line); border-radius: 3px; }
          .held { border: 2px solid; }
          .hit { background: color-mix(in srgb, var(--second) 20%, var(--bg, #fff)); }
          .new { border-style: dashed; }
          #tree { margin: 0.8em 0; }
          #tree ul ul { margin-left: 0.7em; padding-left: 0.7em; border-left: 1px solid var(--line); }
          #tree li { margin-top: 0.4em; }
        </style>`;
    }

    start() {
      this.bind("request");
      for (const action of ["admit", "finish"]) {
        this.$(`#${action}`).onclick = ({ target }) => {
          const { actions, request } = this.view;
          if (target.ariaDisabled !== "true") this.change({ actions: [...actions, [action, request]] });
        };
      }
      this.steps(1500, { actions: [] });
      this.view = { ...this.view, actions: this.data.demo.slice(0, 3), request: this.data.demo[2][1] }; // a tree, not an empty page
    }

    /** The example's next action; none at its end, or once the reader has acted otherwise. */
    get next() {
      const [{ actions }, { demo }] = [this.view, this.data];
      return actions.every((action, i) => String(action) === String(demo[i])) && demo[actions.length];
    }

    /** Whether the example goes on. */
    move(by) {
      const [{ actions }, next] = [this.view, this.next];
      if (by < 0) this.change({ actions: actions.slice(0, -1) });
      else if (next) this.change({ actions: [...actions, next], request: next[1] });
      return Boolean(this.next);
    }

    get cache() {
      const cache = new Cache(this.data);
      for (const action of this.view.actions) cache.act(action);
      return cache;
    }

    get state() {
      const { running, ...cache } = this.cache;
      return { ...this.view, ...cache, running: [...running.values()] };
    }

    draw() {
      const { request, refs, root, queried, hits, running, log, end } = this.state;
      this.$("[name=request]").value = request;
      const active = running.some(({ number }) => number === request);
      this.dim("#admit", active);
      this.dim("#finish", !active);
      this.dim("#back", !this.view.actions.length);
      this.dim("#next", !this.next);
      const look = (page) =>
        `chip${running.some(({ pages }) => pages.includes(page)) ? " held" : ""}${log?.Found.includes(page) ? " hit" : ""}${log?.Inserted.includes(page) ? " new" : ""}`;
      const chip = (page, text) => `<span class="${look(page)}">${escape(text)} <b>${page}</b></span>`;
      const list = (nodes) =>
        nodes.length &&
        `<ul>${nodes.map(({ texts, pages, used, children }) => `<li><div>${pages.map((page, i) => chip(page, texts[i])).join("")}
          used ${used}</div>${list(children) || ""}`).join("")}</ul>`;
      this.$("#tree").innerHTML = `<ul><li><div><span class="chip">root</span></div>${list(root.children) || ""}</li></ul>`;
      this.$("#pool").innerHTML = refs.map((count, page) => `<li class="${look(page)}"><b>${page}</b> ${count ? `×${count}` : "free"}`).join("");
      const words = (tokens, i) => tokens.slice(i * this.data.page_size, (i + 1) * this.data.page_size).join(" ");
      this.$("#running").innerHTML = running
        .map(({ number, pages, tokens, computed }) => `<div class="row">${this.data.requests[number].name}, ${computed} tokens: ${pages.map((page, i) => chip(page, words(tokens, i))).join("")}</div>`)
        .join("");
      this.$(".figures").textContent = `Hit rate: ${hits} of ${queried} tokens. Free: ${refs.filter((count) => !count).length} of ${refs.length} pages.`;
      if (!log) return this.say(`All ${refs.length} pages are free. A page has ${this.data.page_size} tokens.`);
      const told = Object.entries(log).map(([what, pages]) => (pages.length ? ` ${what}: ${listed(pages)}.` : ""));
      const { length } = this.view.actions;
      const { demo } = this.data;
      const along = this.next || length === demo.length ? ` of ${demo.length}` : ""; // the reader's own actions have no end
      this.say(`Action ${length}${along}: ${end}${told.join("")}`);
    }
  }
  customElements.define("prefix-tree", PrefixTree);
}
