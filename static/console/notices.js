// @ts-check
// What must be said outside the transcript: an undo, or something that went wrong. Never a success.

const SECONDS = 12;

/**
 * @param {string} text
 * @param {{action?: string, onAction?: () => void, isWrong?: boolean, seconds?: number}} options
 */
export function notify(text, { action, onAction, isWrong = false, seconds = SECONDS } = {}) {
  const room = document.querySelector("[data-notices]");
  if (!(room instanceof HTMLElement)) return;
  const notice = document.createElement("div");
  notice.className = isWrong ? "notice wrong" : "notice";
  const words = document.createElement("span");
  words.textContent = text;
  notice.append(words);
  const close = () => notice.remove();
  if (action && onAction) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "button quiet small";
    button.textContent = action;
    button.addEventListener("click", () => {
      close();
      onAction();
    });
    notice.append(button);
  }
  const dismiss = document.createElement("button");
  dismiss.type = "button";
  dismiss.className = "icon-button small";
  dismiss.setAttribute("aria-label", room.dataset.close ?? "");
  dismiss.textContent = "✕";
  dismiss.addEventListener("click", close);
  notice.append(dismiss);
  room.append(notice);
  let timer = 0;
  const wait = () => {
    timer = window.setTimeout(close, seconds * 1000);
  };
  // Whoever points at it or has reached it by keyboard is still reading.
  for (const kind of ["pointerenter", "focusin"]) notice.addEventListener(kind, () => window.clearTimeout(timer));
  for (const kind of ["pointerleave", "focusout"]) notice.addEventListener(kind, wait);
  wait();
}

/** Say something to those who listen to the page. @param {string} text */
export function announce(text) {
  const announcer = document.querySelector("[data-announcer]");
  if (announcer) announcer.textContent = text;
}
