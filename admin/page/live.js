// Keeps the page connected: reads the state, watches, and after an end begins again with a pause.

import { stream } from "./api.js";

// The first and the longest pause before another attempt, in milliseconds. Each pause is twice as
// long as the pause before, less a random part, so that many pages don't connect at once.
const firstPause = 500;
const longestPause = 30_000;

// The time for which a hidden page stays connected, in milliseconds. A browser opens six
// connections to a server, two for each page, and further pages would wait without end.
const unseenPatience = 60_000;

export class Live {
  // look reads the state of the node, or throws. Each watch has the path and the query of a stream,
  // and takes batches of events. Live calls tell with each change of the connection:
  // {state, error, at}.
  constructor({ look, watches, tell }) {
    Object.assign(this, { look, watches, tell, attempts: 0, controllers: new Map() });
    document.addEventListener("visibilitychange", () => this.visibility());
    this.visibility(); // the page may begin in a tab out of sight
  }

  // run never returns.
  async run() {
    for (;;) {
      await this.visible();
      this.attempt = new AbortController();
      let error;
      try {
        this.tell({ state: "connecting" });
        await this.look(this.attempt.signal);
        await Promise.all(this.watches.map((w) => this.watch(w, this.attempt.signal)));
      } catch (e) {
        error = e;
      }
      const reason = this.attempt.signal.aborted ? this.attempt.signal.reason : undefined;
      this.attempt.abort();
      if (reason === "again") continue;
      if (reason === "unseen") {
        this.tell({ state: "unseen" });
        continue;
      }
      await this.pause(error);
    }
  }

  // watch reads a stream, and begins anew when the query has changed.
  async watch(w, signal) {
    for (;;) {
      const own = new AbortController();
      this.controllers.set(w, own);
      try {
        for await (const batch of stream(
          w.path,
          w.query(),
          AbortSignal.any([signal, own.signal]),
        )) {
          this.attempts = 0;
          this.tell({ state: "live" });
          w.take(batch);
        }
      } catch (e) {
        if (!own.signal.aborted || signal.aborted) {
          this.attempt.abort("failed");
          throw e;
        }
      }
    }
  }

  // changed makes a watch begin anew, with another query.
  changed(w) {
    this.controllers.get(w)?.abort();
  }

  // again ends the present attempt or pause, and begins another at once.
  again() {
    this.attempts = 0;
    this.attempt?.abort("again");
    this.wake?.();
  }

  async pause(error) {
    const most = Math.min(firstPause * 2 ** this.attempts++, longestPause);
    const ms = most / 2 + (Math.random() * most) / 2;
    this.tell({ state: "waiting", error, at: Date.now() + ms });
    await new Promise((resolve) => {
      this.wake = resolve;
      setTimeout(resolve, ms);
    });
  }

  visibility() {
    clearTimeout(this.unseen);
    if (document.visibilityState === "hidden") {
      this.unseen = setTimeout(() => this.attempt?.abort("unseen"), unseenPatience);
    } else {
      this.seen?.();
    }
  }

  visible() {
    if (document.visibilityState !== "hidden" || (this.attempts === 0 && !this.attempt)) return;
    return new Promise((resolve) => (this.seen = resolve));
  }
}
