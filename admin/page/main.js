// The page of a node: connects its parts.

import { Access } from "./access.js";
import { get } from "./api.js";
import { KeyDialog } from "./dialog.js";
import { $, setText } from "./dom.js";
import { Events } from "./events.js";
import { Held } from "./held.js";
import { Keys } from "./keys.js";
import { Live } from "./live.js";
import { Link } from "./link.js";
import { Look } from "./look.js";
import { showState } from "./state.js";
import { Voters } from "./voters.js";
import { count, setClock } from "./words.js";

// The pauses in milliseconds between two queries for states without a watch: round trips, and
// whether the node is being drained or refuses others.
const votersPause = 2000;
const statusPause = 30_000;

let status;
let electorate;
const held = new Held();
const voters = new Voters();

const access = new Access({ again: () => live.again() });
const dialog = new KeyDialog({
  about: () => ({ electorate, self: status.name }),
  mayAct: () => access.may.act,
  failed,
});
const open = (key) => dialog.open(key);
const events = new Events({ open });
const keys = new Keys({
  open,
  failed,
  changed() {
    held.clear();
    showCount();
    events.note(
      keys.prefix
        ? "From here on: events of the keys with the searched beginning."
        : "From here on: events of all keys.",
    );
    live.changed(keyWatch);
  },
});

const electorateWatch = {
  path: "v1/electorate/watch",
  query: () => ({}),
  take: (batch) => setElectorate(batch.at(-1)),
};

const keyWatch = {
  path: "v1/watch",
  query: () => (keys.prefix ? { prefix: keys.prefix } : {}),
  take(batch) {
    for (const e of batch) {
      const happens = held.synced && !e.current;
      held.take(e);
      if (e.kind === "gap") {
        events.add(e);
        keys.looks.news();
        dialog.looks.news();
      } else if (happens && e.key) {
        events.add(e);
        keys.touched(e.key);
        dialog.touched(e.key);
      }
    }
    showCount();
  },
};

const voterLooks = new Look(
  (signal) => patiently(signal, async () => setElectorate(await get("v1/electorate", {}, signal))),
  votersPause,
  votersPause,
);
const statusLooks = new Look(
  (signal) => patiently(signal, () => lookAtStatus(signal)),
  statusPause,
  statusPause,
);

const live = new Live({
  look,
  watches: [electorateWatch, keyWatch],
  tell: (now) => link.tell(now),
});
const link = new Link({ events, again: () => live.again() });

async function look(signal) {
  // Two queries at once save the time of an answer. The query for the status fails without the
  // right to read, and with a wrong token: access.look then forgets the token.
  const looking = lookAtStatus(signal).then(
    () => true,
    () => false,
  );
  if (!(await access.look(signal))) {
    link.tell({ state: "barred" });
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  }
  if (!(await looking)) await lookAtStatus(signal);
  electorate = received(status.electorate); // drawn with the first answer of its watch
  held.clear();
  keys.start(signal);
  dialog.start(signal);
  if (!linked) openLinked();
  voterLooks.later(signal);
  statusLooks.later(signal);
}

async function lookAtStatus(signal) {
  const began = performance.now();
  // An empty key leaves out the node's leases, which may be many.
  status = await get("v1/status", { key: "" }, signal);
  setClock(status.at, performance.now() - began);
  const node = $("node");
  node.hidden = false;
  setText(node, `node ${status.name} at ${status.addr}`);
}

// patiently ignores errors of act, since the watches notice if the node is gone.
async function patiently(signal, act) {
  try {
    await act();
  } catch (e) {
    if (!signal.aborted) failed(e);
  }
}

function setElectorate(e) {
  electorate = received(e);
  drawElectorate();
}

// received records the time at which the page has read an electorate, for the countdowns.
function received(e) {
  e.readAt = performance.now();
  for (const v of e.voters) v.readAt = e.readAt;
  return e;
}

function drawElectorate() {
  showState(electorate, status);
  voters.show(electorate, status.name);
  showCount();
}

function showCount() {
  setText($("count"), countText());
}

function countText() {
  if (electorate && !electorate.ready) return "How many keys are held isn't known now.";
  if (!held.synced) return "Counting …";
  const least = held.known ? "" : "At least ";
  const scope = keys.prefix ? " with this beginning" : "";
  return `${least}${count(held.size, "key")}${scope} ${held.size === 1 ? "is" : "are"} held.`;
}

// failed handles an error of any request: the page begins anew after the token has changed, or
// after the client has lost a right.
function failed(e) {
  if (e.status === 401) live.again();
}

$("ask").addEventListener("submit", (e) => {
  e.preventDefault();
  open($("ask-key").value);
});

// Draw all texts with times every second.
setInterval(() => {
  link.tick();
  if (!electorate || link.state !== "live") return;
  keys.tick();
  drawElectorate();
}, 1000);

let linked = false;

// openLinked explains the key in the page's address.
function openLinked() {
  linked = true;
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key && electorate) open(key);
}
window.addEventListener("hashchange", openLinked);

live.run();
