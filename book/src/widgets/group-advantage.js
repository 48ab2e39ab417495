// <group-advantage>: the rewards of a group of answers, their advantages, and what a token of one of them gains.
// Data: {rewards: [one for each answer], eps, clip, chosen: the answer that the chapter follows}.
"use strict";

{
  const [WIDE, HIGH, LEFT] = [420, 124, 34];
  const [LOW, MOST] = [0.4, 2]; // ratios
  const { number } = BookWidget;

  class GroupAdvantage extends BookWidget {
    constructor() {
      super();
      this.label = "The rewards of a group, their advantages, and the clipped gain of a token";
    }

    get markup() {
      const { slider, list } = BookWidget;
      const { rewards } = this.data;
      const sliders = rewards.map((_, i) => slider(`r${i}`, `reward ${i + 1}`, 0, 1, 0.1)).join("");
      return `<div class="bar"><button type="button" id="equal">All equal</button><button type="button" id="one">One of ${rewards.length}</button><button type="button" id="recorded">As recorded</button></div>
        <svg id="bars" viewBox="0 0 ${WIDE} ${HIGH}" role="img" aria-labelledby="bars-title"><title id="bars-title"></title><g></g></svg>
        <div class="sliders" id="rewards">${sliders}</div>
        <div class="bar">${list("chosen", "A token of answer", rewards.map((_, i) => i + 1))}</div>
        <div class="sliders">${slider("ratio", "ratio", LOW, MOST, 0.05)}</div>
        <svg id="gain" viewBox="0 0 ${WIDE} ${HIGH + 18}" role="img" aria-labelledby="gain-title"><title id="gain-title"></title><g></g></svg>
        <p class="legend"><span>— min(ratio · A, clipped ratio · A)</span><span>- - - ratio · A</span><span><i class="band"></i> clip range of the ratio</span></p>
        <style>
          @container (min-width: 540px) { #rewards { grid-template-columns: repeat(2, max-content minmax(4em, 1fr) max-content); }
            #rewards output:nth-of-type(odd) { padding-right: 1.6em; } }
          #gain { overflow: visible; } /* a number may be wider than the margin on a small screen */
          .middle { text-anchor: middle; }
          .up, .down { stroke: var(--links, #06c); }
          .up { fill: var(--links, #06c); }
          .down { fill: var(--bg, #fff); }
          .chosen { stroke: var(--fg, #000); stroke-width: 3; }
          [data-bar] { cursor: pointer; }
          .band { --tint: color-mix(in srgb, var(--links, #06c) 15%, var(--bg, Canvas)); fill: var(--tint); }
          i.band { border: 0; background: var(--tint); }
          .axis, .curve, .unclipped { stroke: var(--fg, #000); fill: none; }
          .curve { stroke-width: 2.5; }
          .unclipped { stroke-dasharray: 4 3; opacity: 0.8; }
          .at { fill: var(--links, #06c); stroke: var(--fg, #000); }
        </style>`;
    }

    start() {
      const { rewards } = this.data;
      const all = (values) => Object.fromEntries(values.map((value, i) => [`r${i}`, value]));
      this.view = { ...all(rewards), chosen: this.data.chosen, ratio: 1.5 };
      for (const name of Object.keys(this.view)) this.bind(name);
      this.$("#equal").onclick = () => this.change(all(rewards.map(() => 0.5)));
      this.$("#one").onclick = () => this.change(all(rewards.map((_, i) => Number(i === 0))));
      this.$("#recorded").onclick = () => this.change(all(rewards));
      this.$("#bars").onclick = ({ target }) => target.dataset.bar && this.change({ chosen: Number(target.dataset.bar) });
    }

    /** What a token of an answer with this advantage gains at a ratio. */
    gain(ratio, a) {
      const { clip } = this.data;
      return Math.min(ratio * a, Math.min(Math.max(ratio, 1 - clip), 1 + clip) * a);
    }

    get state() {
      const { chosen, ratio } = this.view;
      const { clip, eps } = this.data;
      const rewards = this.data.rewards.map((_, i) => this.view[`r${i}`]);
      const mean = rewards.reduce((sum, r) => sum + r, 0) / rewards.length;
      const squares = rewards.reduce((sum, r) => sum + (r - mean) ** 2, 0);
      const deviation = Math.sqrt(squares / (rewards.length - 1));
      const equal = Math.max(...rewards) === Math.min(...rewards);
      const advantages = rewards.map((r) => (equal ? 0 : (r - mean) / (deviation + eps)));
      const a = advantages[chosen];
      const clipped = (ratio > 1 + clip && a > 0) || (ratio < 1 - clip && a < 0);
      return { ...this.view, rewards, mean, deviation, advantages, gain: this.gain(ratio, a), clipped };
    }

    draw() {
      const { rewards, mean, deviation, advantages, chosen, ratio, gain, clipped } = this.state;
      rewards.forEach((reward, i) => {
        this.$(`[name=r${i}]`).value = reward;
        this.$(`#at-r${i}`).textContent = number(reward, 1);
      });
      this.$("[name=chosen]").value = chosen;
      this.$("[name=ratio]").value = ratio;
      this.$("#at-ratio").textContent = number(ratio);
      const [middle, room] = [HIGH / 2, HIGH / 2 - 16]; // a number fits above or below each bar
      const unit = room / Math.max(2.5, ...advantages.map(Math.abs));
      const step = (WIDE - LEFT) / rewards.length;
      const mark = (value, y) => `<text x="${LEFT - 6}" y="${y + 4}" text-anchor="end">${value}</text>`;
      const zero = `${mark(0, middle)}<path class="axis" d="M${LEFT} ${middle}H${WIDE}"/>`;
      const bars = advantages.map((a, i) => {
        const [x, height] = [LEFT + i * step + 6, Math.max(1, Math.abs(a) * unit)];
        const y = a > 0 ? middle - height : middle;
        return `<rect class="${a > 0 ? "up" : "down"}${i === chosen ? " chosen" : ""}" data-bar="${i}" x="${x.toFixed(1)}" y="${y.toFixed(1)}" width="${(step - 12).toFixed(1)}" height="${height.toFixed(1)}"/>
          <text class="middle" x="${(x + step / 2 - 6).toFixed(1)}" y="${(a > 0 ? y - 5 : y + height + 14).toFixed(1)}">${number(a, 1)}</text>`;
      });
      this.$("#bars g").innerHTML = `<text x="0" y="14">A</text>${zero}${bars.join("")}`;
      this.$("#bars-title").textContent = `Advantages: ${advantages.map((a) => number(a)).join(", ")}`;
      const a = advantages[chosen];
      const x = (r) => LEFT + ((WIDE - LEFT - 8) * (r - LOW)) / (MOST - LOW);
      const most = Math.max(0.5, Math.abs(a) * MOST);
      const y = (value) => middle - (value * room) / most;
      const { clip } = this.data;
      const corners = [LOW, 1 - clip, 1 + clip, MOST].map((r) => `${x(r).toFixed(1)} ${y(this.gain(r, a)).toFixed(1)}`);
      const ratios = [1 - clip, 1, 1 + clip].map((r) => `<path class="axis" d="M${x(r)} ${HIGH}v4"/><text class="middle" x="${x(r)}" y="${HIGH + 16}">${number(r, 1)}</text>`);
      const gains = [most, -most].map((value) => mark(number(value, 1), y(value)));
      this.$("#gain g").innerHTML = `<rect class="band" x="${x(1 - clip)}" y="0" width="${x(1 + clip) - x(1 - clip)}" height="${HIGH}"/>
        <path class="axis" d="M${LEFT} 0V${HIGH}H${WIDE}"/><text x="${LEFT + 6}" y="12">gain</text>${gains.join("")}${zero}${ratios.join("")}<text x="${WIDE}" y="${HIGH + 16}" text-anchor="end">ratio</text>
        <path class="unclipped" d="M${x(LOW)} ${y(LOW * a)}L${x(MOST)} ${y(MOST * a)}"/><path class="curve" d="M${corners.join("L")}"/>
        <circle class="at" cx="${x(ratio).toFixed(1)}" cy="${y(gain).toFixed(1)}" r="5"/>`;
      this.$("#gain-title").textContent = `The gain of a token over its ratio, for A = ${number(a)}; at ${number(ratio)} it is ${number(gain)}`;
      this.say(
        `Mean ${number(mean)}, standard deviation ${number(deviation)}. A token of answer ${chosen + 1}, A = ${number(a)}, with a ratio of ${number(ratio)} gains ${number(gain)}` +
          (a === 0 ? ": nothing to learn." : clipped ? ": clipped, no gradient." : `: its gradient ${a > 0 ? "raises" : "lowers"} the token's probability.`),
      );
    }
  }
  customElements.define("group-advantage", GroupAdvantage);
}
