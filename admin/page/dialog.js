// The dialog about a key: the explanation, kept up to date, and the actions of an operator.

import { Failure, fault, get, keyPath, post } from "./api.js";
import { $, el, fill, foreign, setText } from "./dom.js";
import { Look } from "./look.js";
import { explain, explainUnknown } from "./why.js";
import { countdown } from "./words.js";

// The pauses between two queries of the key in milliseconds: after an event, and without events.
const keyEventPause = 150;
const keyIdlePause = 1000;

export class KeyDialog {
  // about returns the electorate and self; mayAct returns whether this client may act.
  constructor({ about, mayAct, failed }) {
    Object.assign(this, { about, mayAct, failed });
    this.looks = new Look((signal) => this.look(signal), keyEventPause, keyIdlePause);
    this.signal = AbortSignal.abort(); // not connected yet
    this.dialog = $("key-dialog");
    this.dialog.addEventListener("close", () => this.closed());
    $("key-close").addEventListener("click", () => this.dialog.close());
    $("revoke").addEventListener("submit", (e) => {
      e.preventDefault();
      this.revoke();
    });
    $("evict-cancel").addEventListener("click", () => $("evict-dialog").close());
    $("evict").addEventListener("submit", (e) => {
      e.preventDefault();
      this.evict();
    });
  }

  // start queries the key of an open dialog again and again, until the signal of a connection ends.
  start(signal) {
    this.signal = signal;
    signal.addEventListener("abort", () => this.stale());
    if (this.key !== undefined) this.looks.begin(signal);
  }

  // stale tells the user of an open dialog about the lost connection: the dialog shows old data.
  stale() {
    if (this.key === undefined) return;
    setText($("key-error"), "The page isn't connected, and looks at the key again once it is.");
  }

  open(key) {
    this.key = key;
    this.lock = undefined;
    fill($("key-name"), foreign(key));
    fill($("key-body"), el("p.note", {}, "Asking the voters …"));
    setText($("key-error"), "");
    setText($("key-done"), "");
    $("revoke").hidden = true;
    if (!this.dialog.open) this.dialog.showModal();
    history.replaceState(null, "", "#key=" + encodeURIComponent(key));
    if (this.signal.aborted) this.stale();
    this.looks.begin(this.signal);
  }

  closed() {
    if (this.dialog.open) return; // opened again since
    this.key = undefined;
    this.looks.stop();
    $("evict-dialog").close();
    history.replaceState(null, "", location.pathname + location.search);
  }

  // touched queries the key again soon if an event is about the key.
  touched(key) {
    if (key === this.key) this.looks.news();
  }

  async look(signal) {
    const key = this.key;
    try {
      const [lock, status] = await Promise.all([
        get(keyPath(key), {}, signal),
        get("v1/status", { key }, signal),
      ]);
      this.lock = lock;
      this.status = status;
      setText($("key-error"), "");
      this.draw();
    } catch (e) {
      if (signal.aborted) return;
      this.failed(e);
      const unknown = e.code === "no_quorum" || e.code === "timeout";
      if (unknown || !this.lock) this.lock = undefined;
      fill($("key-body"), unknown ? explainUnknown(this.about().electorate) : "");
      setText($("key-error"), unknown ? "" : fault(e));
      $("revoke").hidden = true;
    }
  }

  draw() {
    const { electorate, self } = this.about();
    const acts = this.mayAct();
    fill(
      $("key-body"),
      explain(
        this.lock,
        { electorate, self, members: this.status.members, requests: this.status.waiting },
        acts ? (token) => this.ask(token) : undefined,
      ),
    );
    $("revoke").hidden = !acts || this.lock.holders.length === 0;
  }

  async revoke() {
    const key = this.key;
    this.tell(key, "Asking …");
    try {
      await post(keyPath(key, "revoke"), { reason: $("revoke-reason").value });
      this.tell(key, "The holder was asked to release the key. It decides.");
      $("revoke-reason").value = "";
    } catch (e) {
      this.failed(e);
      this.tell(key, undone("The holder wasn't asked: ", e));
    }
  }

  // tell shows the outcome of an action, unless the dialog is about another key by now.
  tell(key, ...text) {
    if (key === this.key) fill($("key-done"), ...text);
  }

  // ask explains an eviction, and asks the operator to confirm.
  ask(token) {
    const h = this.lock?.holders.find((h) => h.token === token);
    if (!h) return; // the lease has just ended
    this.victim = h;
    fill(
      $("evict-text"),
      el(
        "p",
        {},
        "This ends the lease of ",
        el("b", {}, foreign(h.node, 60)),
        " on ",
        el("b", {}, foreign(this.key, 200)),
        ` (token ${h.token}) against its will.`,
      ),
      el(
        "ul",
        {},
        el(
          "li",
          {},
          foreign(h.node, 60),
          " is told that the lease is lost, and must stop the work that the key protects. ",
          "The work may go on for a moment before its program learns of the end.",
        ),
        el("li", {}, "The key goes to the next request that waits."),
        el(
          "li",
          {},
          "If the node is dead or cut off, nothing ends sooner: it can't be told, and its lease ",
          `ends by itself within ${countdown(h.left_ms)}.`,
        ),
      ),
    );
    setText($("evict-error"), "");
    $("evict-dialog").showModal();
    $("evict-cancel").focus();
  }

  async evict() {
    const key = this.key;
    const { node, token } = this.victim;
    $("evict-go").disabled = true;
    setText($("evict-go"), "Evicting …");
    try {
      await post(keyPath(key, "evict"), { token, node, reason: $("evict-reason").value });
      $("evict-dialog").close();
      $("evict-reason").value = "";
      this.tell(key, "The lease of ", foreign(node, 60), " has ended.");
      this.looks.news();
    } catch (e) {
      this.failed(e);
      setText($("evict-error"), undone("The lease hasn't ended: ", e));
    } finally {
      $("evict-go").disabled = false;
      setText($("evict-go"), "Evict");
      const dialog = $("evict-dialog"); // some browsers take the focus from a disabled button
      if (dialog.open && !dialog.contains(document.activeElement)) $("evict-go").focus();
    }
  }
}

// undone returns the text for a failed action. If the answer is lost, the outcome is unknown.
function undone(text, e) {
  if (e instanceof Failure) return text + e.message;
  return "The node doesn't answer: it isn't known whether this was done.";
}
