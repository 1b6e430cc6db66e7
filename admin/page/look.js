// Repeats a query to the node, with at most a single query under way.

export class Look {
  // act sends the query, until a signal ends, and handles errors. The pauses are in milliseconds:
  // after news, and without news.
  constructor(act, afterNews, without) {
    Object.assign(this, { act, afterNews, without });
  }

  // begin sends a query at once, in place of a query under way, and then again and again until
  // stop, or until a signal ends.
  begin(signal) {
    this.stop();
    this.own = new AbortController();
    this.run(signal ? AbortSignal.any([signal, this.own.signal]) : this.own.signal);
  }

  // later is begin with a pause before the first query.
  later(signal) {
    this.rest(signal).then(() => signal.aborted || this.begin(signal));
  }

  stop() {
    this.own?.abort();
  }

  // news makes the next query come soon.
  news() {
    this.fresh = true;
    this.wake?.();
  }

  async run(signal) {
    while (!signal.aborted) {
      this.fresh = false;
      await this.act(signal);
      if (!signal.aborted) await this.rest(signal);
    }
  }

  rest(signal) {
    return new Promise((resolve) => {
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end); // the signal may live for days
        resolve();
      };
      let timer = setTimeout(end, this.fresh ? this.afterNews : this.without);
      this.wake = () => {
        this.wake = undefined;
        clearTimeout(timer);
        timer = setTimeout(end, this.afterNews);
      };
      signal.addEventListener("abort", end);
    });
  }
}
