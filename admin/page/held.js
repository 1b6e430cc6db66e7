// Counts the keys that are held, from the events of a watch.

// The state at the beginning of a watch has up to so many leases and waiting requests. Where there
// are more, the count isn't known.
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
        // An exclusive lease is alone, whatever was said about earlier ones.
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

  // size is how many keys are held, as far as known.
  get size() {
    return this.keys.size;
  }

  get known() {
    return this.synced && this.states < stateMost;
  }
}
