// @ts-check
// The live connection. It comes back by itself: after a lost network, a sleep, a restart of the server; and it asks for
// what came after the last thing that it has.

const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 8000;
const SILENCE = 11000; // the server says something at least every five seconds
const PATIENCE = 2000; // before anybody is told
const GONE = 4404;
const REFUSED = 4400;

/** How far a page is in each run. @param {string} text `run_a:12,run_b:3` @param {Map<string, number>} places */
export function readPlaces(text, places) {
  for (const place of text.split(",").filter(Boolean)) {
    const [run, seq] = place.split(":");
    places.set(run, Number(seq));
  }
}

export class Connection {
  /**
   * @param {string} path
   * @param {() => string} after what the page has
   * @param {(frame: any) => void} onFrame
   * @param {(online: boolean) => void} onChange
   */
  constructor(path, after, onFrame, onChange) {
    this.path = path;
    this.after = after;
    this.onFrame = onFrame;
    this.onChange = onChange;
    /** @type {WebSocket | null} */
    this.socket = null;
    this.failures = 0;
    this.heardAt = 0;
    this.isOnline = true;
    this.retry = 0;
    this.complaint = 0;
    addEventListener("online", () => this.look(true));
    addEventListener("pageshow", () => this.look());
    addEventListener("focus", () => this.look());
    addEventListener("offline", () => this.drop());
    document.addEventListener("visibilitychange", () => this.look());
    setInterval(() => this.look(), SILENCE / 4);
    this.open();
  }

  open() {
    clearTimeout(this.retry);
    const address = new URL(this.path, location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    address.search = new URLSearchParams({ after: this.after() }).toString();
    const socket = new WebSocket(address);
    this.socket = socket;
    this.heardAt = Date.now();
    socket.onmessage = ({ data }) => {
      if (socket !== this.socket) return;
      this.heardAt = Date.now();
      this.failures = 0;
      this.tell(true);
      this.onFrame(JSON.parse(data));
    };
    socket.onclose = ({ code }) => {
      if (socket !== this.socket) return;
      this.socket = null;
      if (code === GONE || code === REFUSED) location.reload();
      else this.again();
    };
  }

  again() {
    this.tell(false);
    this.failures += 1;
    const pause = Math.min(FIRST_PAUSE * 2 ** (this.failures - 1), LONGEST_PAUSE) * (0.75 + Math.random() / 2);
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.open(), pause);
    if (this.failures % 4 === 3) this.checkSession();
  }

  /** Nothing was heard for too long, or something woke us: is it still alive?
   * @param {boolean} [isUrgent] */
  look(isUrgent = false) {
    if (document.visibilityState === "hidden" && !isUrgent) return;
    if (!this.socket) this.open();
    else if (Date.now() - this.heardAt > SILENCE) {
      this.drop();
      this.open();
    }
  }

  drop() {
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.tell(false);
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.open(), FIRST_PAUSE);
  }

  /** Whoever was signed out meanwhile is refused like by a broken network, but a page sends them to the sign-in. */
  async checkSession() {
    const answer = await fetch(location.href, { method: "HEAD", redirect: "manual" }).catch(() => null);
    if (answer?.type === "opaqueredirect") location.reload();
  }

  /** @param {boolean} isOnline */
  tell(isOnline) {
    if (isOnline) {
      clearTimeout(this.complaint);
      this.complaint = 0;
      if (!this.isOnline) this.onChange((this.isOnline = true));
    } else if (this.isOnline && !this.complaint) {
      this.complaint = setTimeout(() => this.onChange((this.isOnline = false)), PATIENCE);
    }
  }
}
