// Counts the keys that are held, from the events of a watch.

// The largest number of leases and waiting requests in the state at the beginning of a watch. If
// there are more, the count of held keys is unknown.
const stateMost = 65_536;

export class Held {
  constructor() {
    this.clear();
  }

  clear() {
    this.keys = new Map(); // the tokens of the leases, by key
    this.synced = false;
    this.states = 0;
  }

  take(e) {
    if (e.kind === "gap") return this.clear();
    if (e.kind === "synced") {
      this.synced = true;
      return;
    }
    if (e.current) this.states++;
    const tokens = this.keys.get(e.key) || new Set();
    switch (e.kind) {
      case "granted":
        // An exclusive lease is alone: earlier leases are over.
        if (e.mode === "exclusive") tokens.clear();
        tokens.add(e.token);
        break;
      case "changed":
        if (e.previous) tokens.delete(e.previous);
        tokens.add(e.token);
        break;
      case "released":
      case "lost":
        if (e.mode === "exclusive") tokens.clear();
        tokens.delete(e.token);
        break;
    }
    if (tokens.size > 0) this.keys.set(e.key, tokens);
    else this.keys.delete(e.key);
  }

  // size is the number of held keys, as far as known.
  get size() {
    return this.keys.size;
  }

  get known() {
    return this.synced && this.states < stateMost;
  }
}
