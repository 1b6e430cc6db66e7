// The table of keys: the keys in use in pages, queried again as events come.

import { fault, get } from "./api.js";
import { $, el, fill, foreign, reconcile, roving, setText, valueOf } from "./dom.js";
import { Look } from "./look.js";
import { clock, count, countdown, duration, list, since } from "./words.js";

// pageLength is the number of keys on a page: small, so that a query is cheap for the voters, and
// the browser draws the table within a frame.
const pageLength = 50;

// The pauses between two queries in milliseconds: after an event, and without events, since the
// time left of a lease and the number of waiting requests change without events.
const eventPause = 300;
const idlePause = 4000;

// The most names of holders in a row.
const namesMost = 3;

export class Keys {
  // Keys calls open with the key of a row.
  constructor({ open, changed, failed }) {
    Object.assign(this, { open, changed, failed });
    this.prefix = "";
    this.pages = [""]; // the key before each page up to the present page
    this.locks = [];
    this.next = "";
    this.looks = new Look((signal) => this.look(signal), eventPause, idlePause);
    this.fresh = roving($("rows"), "button");
    $("next").addEventListener("click", () => this.turn(this.pages.concat(this.next)));
    $("previous").addEventListener("click", () => this.turn(this.pages.slice(0, -1)));
    $("first").addEventListener("click", () => this.turn([""]));
    let typing;
    const search = () => {
      clearTimeout(typing);
      const prefix = $("prefix").value;
      if (prefix === this.prefix) return;
      this.prefix = prefix;
      this.turning = false; // a search overtakes the turn of a page
      this.turn([""]);
      this.changed();
    };
    $("prefix").addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(search, 300);
    });
    $("search").addEventListener("submit", (e) => {
      e.preventDefault();
      search();
    });
  }

  // start queries the keys until a signal ends.
  start(signal) {
    this.signal = signal;
    if (this.readAt === undefined) {
      $("table").hidden = true;
      $("none").hidden = false;
      fill($("none"), "Asking the voters …");
    } else {
      this.outdate(true); // the leases may have ended while the page was not connected
      setText($("keys-error"), `Asking the voters … ${this.age()}`);
    }
    this.looks.begin(signal);
  }

  // turn turns to another page, unless a page is being turned already.
  turn(pages) {
    if (this.turning) return;
    this.turning = true;
    this.pages = pages;
    this.looks.begin(this.signal);
  }

  // touched queries the keys again soon if the key may be on the page.
  touched(key) {
    if (key > this.pages.at(-1) && (!this.next || key <= this.next)) this.looks.news();
  }

  // look reads the page of keys.
  async look(signal) {
    try {
      const query = { limit: pageLength };
      if (this.prefix) query.prefix = this.prefix;
      let after = this.pages.at(-1);
      let page;
      do {
        if (after) query.after = after;
        page = await get("v1/locks", query, signal);
        after = page.next;
      } while (page.locks.length === 0 && after); // a page may be empty although more keys follow
      this.locks = page.locks;
      this.next = page.next;
      this.readAt = Date.now();
      setText($("keys-error"), "");
      this.outdate(false);
      this.draw();
      this.turning = false;
    } catch (e) {
      if (signal.aborted) return;
      this.turning = false;
      this.failed(e);
      this.complain(e);
    }
  }

  // outdate says whether the table is of an earlier time. Its times stand still then.
  outdate(is) {
    this.outdated = is;
    $("table").classList.toggle("old", is);
  }

  age() {
    return `The table is from ${clock(this.readAt)}.`;
  }

  complain(e) {
    const old = this.readAt ? ` ${this.age()}` : "";
    this.outdate(true);
    const why =
      e.code === "no_quorum"
        ? "Who holds which key isn't known now, since too few voters count."
        : `The keys can't be read. ${fault(e)}`;
    setText($("keys-error"), why + old);
    if (!old) $("none").hidden = true;
  }

  draw() {
    const rows = $("rows");
    const focused = [...rows.children].indexOf(document.activeElement?.closest("#rows > tr"));
    const pressed = document.activeElement?.closest("#pager > button");
    reconcile(
      rows,
      this.locks,
      (l) => l.key,
      (l) => this.row(l.key),
      (row, l) => this.update(row, l),
    );
    this.fresh();
    $("table").hidden = this.locks.length === 0;
    this.sayNone();
    const number = this.pages.length;
    $("pager").hidden = number === 1 && !this.next;
    $("first").disabled = $("previous").disabled = number === 1;
    $("next").disabled = !this.next;
    setText($("where"), `Page ${number.toLocaleString("en")}`);
    this.keepFocus(focused, pressed);
  }

  // keepFocus gives the focus to another element if the element with the focus is gone: a row with
  // a key out of use, or a button without a further page. (Browsers differ in when a disabled
  // button loses the focus.)
  keepFocus(row, button) {
    const rows = $("rows").children;
    if (row >= 0 && !document.activeElement?.closest("#rows > tr")) {
      rows[Math.min(row, rows.length - 1)]?.querySelector("button").focus();
    }
    if (button?.disabled) {
      ($("next").disabled ? $("previous") : $("next")).focus();
    }
  }

  sayNone() {
    const none = $("none");
    none.hidden = this.locks.length > 0;
    if (none.hidden) return;
    const searched = el("b", {}, foreign(this.prefix, 80));
    if (this.prefix) fill(none, "No key in use begins with ", searched, ".");
    else if (this.pages.length > 1) fill(none, "There are no more keys.");
    else fill(none, "No key is in use: nothing is held, and nothing is waited for.");
  }

  row(key) {
    const open = el(
      "button.key",
      { type: "button", click: () => this.open(key) },
      foreign(key, 80),
    );
    const cells = ["Held by", "Waiting", "Held for", "Left", "Mode", "Value", "Token"];
    return el(
      "tr",
      { role: "row" },
      el("th", { role: "rowheader", scope: "row" }, open),
      cells.map((label) => el("td", { role: "cell", "data-label": label })),
    );
  }

  update(row, lock) {
    row.lock = lock;
    const [, by, waiting, , , mode, value, token] = row.children;
    const first = lock.holders[0];
    const tokens = lock.holders.map((h) => h.token).join();
    if (row.tokens !== undefined && row.tokens !== tokens) {
      row.classList.remove("fresh");
      requestAnimationFrame(() => row.classList.add("fresh"));
    }
    row.tokens = tokens;
    fill(by, holders(lock));
    fill(waiting, lock.waiters.length > 0 ? el("b", {}, lock.waiters.length) : "–");
    fill(
      mode,
      lock.permits > 0
        ? `${lock.holders.length} of ${count(lock.permits, "permit")}`
        : first
          ? first.mode
          : "–",
    );
    fill(
      value,
      lock.holders.length === 1 && first.value !== undefined ? valueOf(first.value, 40) : "–",
    );
    fill(
      token,
      lock.holders.length === 1 ? String(first.token) : lock.holders.length > 1 ? "several" : "–",
    );
    row.classList.toggle("empty", lock.holders.length !== 1);
    this.times(row);
  }

  // times shows the times of a row.
  times(row) {
    const { holders, delayed_ms: delayed } = row.lock;
    const left = Math.max(delayed, ...holders.map((h) => h.left_ms));
    setText(
      row.children[3],
      holders.length > 0 ? duration(Math.max(...holders.map((h) => since(h.since)))) : "–",
    );
    // The time is of the query: the node may have renewed the lease since.
    setText(row.children[4], left > 0 ? "≤ " + countdown(left) : "–");
  }

  tick() {
    if (this.outdated) return;
    for (const row of $("rows").children) this.times(row);
  }
}

// holders names who holds a key.
function holders(lock) {
  if (lock.holders.length === 0) {
    if (lock.delayed_ms > 0) return el("i", {}, "none yet: kept free");
    return el("i", {}, lock.waiters.length > 0 ? "none yet" : "none");
  }
  const nodes = [...new Set(lock.holders.map((h) => h.node))];
  const names = nodes.slice(0, namesMost).map((n) => foreign(n, 40));
  if (nodes.length > namesMost) names.push(`${nodes.length - namesMost} more`);
  const leases =
    lock.holders.length > nodes.length ? ` (${count(lock.holders.length, "lease")})` : "";
  return [list(names), leases];
}
