// Explains why a request doesn't get a key: the holders, the queue, and the ways to free the key.

import { el, foreign, valueOf } from "./dom.js";
import { missing } from "./state.js";
import { count, countdown, duration, list, since, voterWords } from "./words.js";

// explain returns the elements of an explanation. about has the electorate, the members known to
// gossip, the requests of this node for the key, and self, the name of this node. The button of a
// holder calls evict with the holder's token; evict is undefined if the client can't evict leases.
export function explain(lock, about, evict) {
  const { holders } = lock;
  const title = holders.length === 1 ? "Who holds the key" : "Who holds the key, by tokens";
  const holding = el(
    "ul.holders",
    {},
    holders.map((h) => holder(h, about, evict)),
  );
  const requests = about.requests.map((r) => [
    `For ${duration(since(r.since))}: `,
    foreign(r.text, 600),
  ]);
  return [
    el("p.headline", {}, headline(lock, about)),
    about.electorate.ready ? "" : notCounting(about.electorate),
    holders.length > 0 ? section(title, holding) : "",
    items("What would free the key", whatFrees(lock, about)),
    queue(lock),
    items("Why the requests of this node wait", requests),
  ];
}

// explainUnknown returns the explanation for a key with unknown holders.
export function explainUnknown(electorate) {
  return [
    el("p.headline", {}, "Who holds the key isn't known now, since too few voters answer."),
    notCounting(electorate),
    items("What would free the key", [
      ["First of all, more voters must count: ", missing(electorate)],
      "A lease that its node can't renew meanwhile ends by itself.",
    ]),
  ];
}

// notCounting lists the voters that don't count.
function notCounting(e) {
  const not = e.voters.filter((v) => v.state !== "reachable");
  const words = (v) => [el("b", {}, foreign(v.name, 60)), " ", foreign(voterWords(v), 400)];
  return items("Which voters don't count", not.map(words));
}

// items makes a section of a list, unless the list is empty.
function items(title, all) {
  if (all.length === 0) return "";
  const list = el(
    "ul",
    {},
    all.map((one) => el("li", {}, one)),
  );
  return section(title, list);
}

const section = (title, ...children) => el("section", {}, el("h3", {}, title), children);

function headline(lock, { electorate }) {
  const { holders, waiters, permits } = lock;
  const stop = electorate.ready ? "" : " No lock can be granted now: too few voters count.";
  if (holders.length === 0) {
    if (lock.delayed_ms > 0)
      return (
        `No node holds the key, and it is kept free for another ${countdown(lock.delayed_ms)}.` +
        stop
      );
    if (waiters.length > 0)
      return (
        (electorate.ready
          ? "The key is about to go to the first that waits."
          : "No node holds the key.") + stop
      );
    return electorate.ready
      ? "The key is free. A request gets it at once."
      : "No node holds the key." + stop;
  }
  const mode = holders[0].mode;
  if (mode === "permit") {
    const free = Math.max(0, permits - holders.length);
    const rest =
      free > 0 && waiters.length === 0
        ? ` A request gets one of the other ${free} at once.`
        : " A request waits until a permit is free.";
    return `${holders.length} of ${count(permits, "permit")} are taken.` + (stop || rest);
  }
  if (mode === "shared") {
    const behind = waiters.some((w) => w.mode === "exclusive");
    return (
      `${count(holders.length, "holder shares", "holders share")} the key.` +
      (stop ||
        (behind
          ? " An exclusive request waits for all of them, and further requests wait behind it."
          : " Another shared request gets it at once; an exclusive request waits for all of them."))
    );
  }
  const h = holders[0];
  return [
    foreign(h.node, 60),
    ` has held the key for ${duration(since(h.since))}, and no other can hold it meanwhile.`,
    stop,
  ];
}

function holder(h, about, evict) {
  const facts = [
    `${h.mode === "permit" ? `permit ${h.slot}` : h.mode}, for ${duration(since(h.since))}`,
    `token ${h.token}`,
    `≤ ${countdown(h.left_ms)} left if the node crashed now`,
  ];
  if (h.unsure) facts.unshift("unsure: no voter within reach has heard of the grant");
  return el(
    "li",
    {},
    el(
      "div",
      {},
      el("b", {}, foreign(h.node, 60)),
      h.node === about.self ? " (this node)" : "",
      el("span.facts", {}, facts.join(" · ")),
      h.value === undefined ? "" : el("div.value", {}, "Value: ", valueOf(h.value)),
    ),
    evict
      ? el(
          "button.danger",
          { type: "button", "data-token": h.token, click: () => evict(h.token) },
          "Evict …",
        )
      : "",
  );
}

// whatFrees lists the ways to free the key.
function whatFrees(lock, about) {
  const all = [];
  if (!about.electorate.ready)
    all.push(["First of all, more voters must count: ", missing(about.electorate)]);
  if (lock.delayed_ms > 0) {
    all.push(
      "Time: an earlier lease asked that the key be kept free for a while after it " +
        "(a lock-delay, or a minimum hold).",
    );
  }
  const nodes = [...new Set(lock.holders.map((h) => h.node))];
  for (const node of nodes.slice(0, 10)) {
    const left = countdown(
      Math.max(...lock.holders.filter((h) => h.node === node).map((h) => h.left_ms)),
    );
    const seen = about.members.find((m) => m.name === node);
    if (seen && seen.state === "alive") {
      all.push([
        foreign(node, 60),
        " unlocks the key when its work is done. Should it crash, its lease ends by itself within ",
        left,
        ".",
      ]);
    } else {
      const how = seen
        ? seen.state === "left"
          ? "has left the mesh"
          : "doesn't answer the other nodes"
        : "isn't known to this node";
      all.push([
        foreign(node, 60),
        ` ${how}. If it is dead, its lease ends by itself within ${left}. If the `,
        "time that is left rises again, the node is alive, and renews its lease.",
      ]);
    }
  }
  if (nodes.length > 10) all.push(`And so with ${nodes.length - 10} more nodes.`);
  return all;
}

// The most waiting requests in the list.
const queueMost = 50;

function queue(lock) {
  const { waiters } = lock;
  if (waiters.length === 0) return section("Who waits", el("p", {}, "No request waits."));
  const item = (w) =>
    el(
      "li",
      {},
      el("b", {}, foreign(w.node, 60)),
      ` waits for ${duration(since(w.since))}`,
      w.mode === "exclusive" ? "" : ` (${w.mode})`,
      w.try ? ", without getting in line" : "",
      w.value === undefined ? "" : [", with the value ", valueOf(w.value, 60)],
    );
  const more =
    waiters.length > queueMost ? el("p", {}, `And ${waiters.length - queueMost} more.`) : "";
  return section(
    "Who waits, in the order in which they get the key",
    el("ol", {}, waiters.slice(0, queueMost).map(item)),
    more,
    el("p.note", {}, `A new request would be number ${waiters.length + 1} of those that wait.`),
  );
}
