// Shows the state of the connection to the node.

import { $, announce, setText } from "./dom.js";
import { clock, countdown } from "./words.js";

const linkWords = {
  connecting: "connecting …",
  live: "live",
  waiting: "not connected",
  unseen: "paused",
  barred: "connected",
};

export class Link {
  // events is the list of events; again begins another attempt to connect at once.
  constructor({ events, again }) {
    this.events = events;
    this.now = {};
    this.stopped = false; // whether the node has said that it stops
    this.lostAt = 0; // when the connection was lost; zero while there is one
    $("retry").addEventListener("click", again);
  }

  get state() {
    return this.now.state;
  }

  // tell shows a change of the connection: see Live.
  tell(now) {
    const before = this.now;
    if (now.state === "connecting" && before.state === "waiting") now = { ...before, at: 0 };
    this.now = now;
    if (["stopping", "closed"].includes(now.error?.code)) this.stopped = true;
    if (now.state === before.state && now.state !== "waiting") return;
    $("link").dataset.state = now.state;
    setText($("link"), linkWords[now.state]);
    if (now.state === "live") this.found();
    else if (before.state === "live") this.lost(now.state);
    document.body.classList.toggle("stale", now.state === "waiting");
    this.tick();
    if (now.state === "waiting" && before.state !== "waiting")
      announce(`${this.why()} The page tries again by itself.`);
  }

  found() {
    performance.mark("lockmesh-live"); // for measurements
    if (this.lostAt) {
      const from = clock(this.lostAt);
      this.events.note(`Connected again. What happened since ${from} is missing here.`);
      announce("Connected again.");
    }
    this.lostAt = 0;
    this.stopped = false;
  }

  lost(state) {
    this.lostAt = Date.now();
    const text =
      state === "unseen"
        ? "The page was out of sight, and has let the connection go."
        : "The connection is lost.";
    this.events.note(text);
  }

  why() {
    const { error } = this.now;
    if (this.stopped) return "The node has stopped.";
    return error?.status ? `The node refuses: ${error.message}.` : "The node doesn't answer.";
  }

  // tick shows the banner, with its countdown.
  tick() {
    const shown = this.state === "waiting";
    $("banner").hidden = !shown;
    if (!shown) return;
    const left = this.now.at - Date.now();
    const old = this.lostAt ? ` What you see is from ${clock(this.lostAt)}.` : "";
    const next = left > 0 ? `Trying again in ${countdown(left)}.` : "Trying again …";
    setText($("banner-text"), `${this.why()}${old} ${next}`);
    $("retry").hidden = left <= 0;
  }
}
