// The list of the latest events.

import { $, el, foreign, roving, setText } from "./dom.js";
import { clock } from "./words.js";

// How many events are kept, the latest first.
const eventsMost = 200;

// The pause between two drawings in milliseconds: a busy mesh has thousands of events a second.
const drawPause = 250;

export class Events {
  constructor({ open }) {
    this.open = open;
    this.list = []; // not drawn yet, the latest last
    this.held = false;
    this.fresh = roving($("event-list"), "button");
    $("pause").addEventListener("click", () => this.pause(!this.held));
  }

  pause(held) {
    this.held = held;
    $("pause").setAttribute("aria-pressed", String(held));
    setText($("pause"), held ? "Go on" : "Pause");
    this.draw();
  }

  // add adds an event of the node.
  add(e) {
    this.put(() => item(e, this.open));
  }

  // note adds a note of the page itself.
  note(text) {
    const at = Date.now();
    this.put(() => el("li.page", {}, el("time", {}, clock(at)), el("span", {}, text)));
  }

  put(make) {
    this.list.push(make);
    if (this.list.length > eventsMost) this.list.shift();
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      this.draw();
    }, drawPause);
  }

  draw() {
    const ol = $("event-list");
    if (this.held) {
      const n = this.list.length;
      const least = n === eventsMost ? "at least " : "";
      const more = `${least}${n} more ${n === 1 ? "has" : "have"} come`;
      setText($("events-note"), `The list stands still; ${more}.`);
      return;
    }
    setText($("events-note"), "What happens to keys, the latest first.");
    if (this.list.length === 0) return;
    $("no-events").hidden = true;
    // The list must not move under a reader.
    const above = ol.scrollTop > 0 ? ol.scrollHeight : 0;
    for (const make of this.list) ol.prepend(make());
    this.list.length = 0;
    while (ol.children.length > eventsMost) ol.lastElementChild.remove();
    if (above) ol.scrollTop += ol.scrollHeight - above;
    this.fresh();
  }
}

const kindMarks = { granted: "●", released: "○", lost: "✕", waiting: "…", changed: "✎" };

function item(e, open) {
  const time = el("time", {}, clock(e.at));
  if (e.kind === "gap") {
    return el(
      "li.page",
      {},
      time,
      el("span", {}, "Events may be missing here. The page has looked anew."),
    );
  }
  const key = el(
    "button.key",
    { type: "button", tabindex: -1, click: () => open(e.key) },
    foreign(e.key, 60),
  );
  const node = foreign(e.node, 40);
  const permit = e.mode === "permit" ? `permit ${e.slot} of ` : "";
  const token =
    e.token && (e.kind === "granted" || e.previous)
      ? el("span.token", {}, ` token ${e.token}`)
      : "";
  const text = {
    granted: [node, e.mode === "shared" ? " shares " : " got ", permit, key, token],
    released: [node, " released ", permit, key, token],
    lost: [node, " lost ", permit, key, ": its lease ended without an unlock", token],
    waiting: [node, " waits for ", key],
    changed: e.previous ? [node, " upgraded ", key, token] : [node, " changed the value of ", key],
  }[e.kind] || [e.kind, " ", key];
  return el(
    "li",
    { "data-kind": e.kind },
    time,
    el("i.mark", { "aria-hidden": "true" }, kindMarks[e.kind] || "·"),
    el("span", {}, text),
  );
}
