// @ts-check
// A button that is hidden, disabled or replaced while it has the focus loses it to nothing, and the next Tab begins at the
// top of the page. This knows when that has happened, and not that somebody clicked beside everything.

/** @type {Element | null} what had the focus last */
let holder = null;

/** @param {Element} node */
function isThere(node) {
  return node.isConnected && node.checkVisibility() && !(node instanceof HTMLButtonElement && node.disabled);
}

document.addEventListener("focusin", (event) => {
  holder = event.target instanceof Element ? event.target : null;
});
document.addEventListener("focusout", () => {
  if (holder && isThere(holder)) holder = null;
});

/** @returns {Element | null} what has the focus, or had it until it was disabled or hidden */
export function focused() {
  return isFocusLost() ? holder : document.activeElement;
}

/** @returns {boolean} whether what had the focus is gone, and nothing else has it */
export function isFocusLost() {
  const active = document.activeElement;
  return holder !== null && !isThere(holder) && (!active || active === document.body || active === holder);
}
