// Shows the rights of this client, and the form for the token, which gives more rights.

import { get, token } from "./api.js";
import { $, setText } from "./dom.js";

export class Access {
  // Access calls again when another token may change the rights of the client.
  constructor({ again }) {
    this.may = { read: false, act: false };
    this.again = again;
    this.asking = false; // whether the form for the token is open
    $("sign-in-form").addEventListener("submit", (e) => {
      e.preventDefault();
      this.enter($("token").value.trim());
    });
    $("token-open").addEventListener("click", () =>
      this.ask("With the token you can also act: ask a holder to release a key, or end a lease."),
    );
    $("sign-in-cancel").addEventListener("click", () => {
      this.asking = false;
      this.show();
    });
    $("token-forget").addEventListener("click", () => {
      token.set("");
      this.again();
    });
    const local = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
    $("plain-text").hidden = location.protocol === "https:" || local;
  }

  // look asks the node, and returns whether this client may read. If the token is wrong, look
  // forgets the token and asks the user for another.
  async look(signal) {
    let error = "";
    try {
      this.may = await get("v1/access", {}, signal);
    } catch (e) {
      if (e.status !== 401) throw e;
      token.set("");
      error = "The token is wrong.";
      this.may = await get("v1/access", {}, signal);
    }
    if (error) this.ask("", error);
    else if (!this.may.read && this.may.token && !this.asking)
      this.ask("Without the token this node shows nothing of the mesh.");
    else this.show();
    return this.may.read;
  }

  // show shows the elements for the client's rights.
  show() {
    const { read, act, token: more, reason } = this.may;
    $("content").hidden = !read;
    $("sign-in").hidden = !more || (read && !this.asking);
    $("denied").hidden = read || more;
    setText($("denied-why"), reason ? `The node says: ${reason}.` : "");
    setText($("rights-text"), !read ? "" : act ? "You may look and act." : "You may look only.");
    $("token-open").hidden = !read || act || !more || this.asking;
    $("token-forget").hidden = !token.value;
  }

  // ask shows the form for the token.
  ask(why, error = "") {
    this.asking = true;
    this.show();
    setText($("sign-in-why"), why);
    setText($("sign-in-error"), error);
    $("sign-in-cancel").hidden = !this.may.read;
    $("token").value = "";
    $("token").focus();
  }

  enter(value) {
    if (!/^[!-~]+$/.test(value)) {
      setText($("sign-in-error"), "A token has only printable ASCII characters, and no blanks.");
      return;
    }
    token.set(value);
    this.asking = false;
    this.again();
  }
}
