// @ts-check
// Hears that something of the person's has begun, ended or waits, and tells the page: `overview-changed` on document. It
// also says so when the page is looked at again.

const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 30000;

const list = document.querySelector("[data-conversations]");
let pause = FIRST_PAUSE;
let timer = 0;
/** @type {WebSocket | null} */
let socket = null;

function tell() {
  document.dispatchEvent(new CustomEvent("overview-changed"));
}

function connect() {
  if (!(list instanceof HTMLElement) || socket) return;
  window.clearTimeout(timer);
  const address = new URL(list.dataset.socket ?? "", location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  socket = new WebSocket(address);
  socket.addEventListener("open", () => {
    pause = FIRST_PAUSE;
  });
  // The first one comes as soon as somebody listens, for what has changed until then.
  socket.addEventListener("message", tell);
  socket.addEventListener("close", () => {
    socket = null;
    pause = Math.min(pause * 2, LONGEST_PAUSE);
    timer = window.setTimeout(connect, pause * (0.5 + Math.random() / 2));
  });
}

connect();
window.addEventListener("online", connect);
window.addEventListener("pageshow", (event) => {
  if (event.persisted) tell();
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState !== "visible") return;
  connect();
  tell();
});
