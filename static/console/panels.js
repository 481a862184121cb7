// @ts-check
// The panels at the sides. Where there is room the inspector folds away; where there is none both slide over the page,
// one at a time, and take the focus with them.

const veil = document.querySelector("[data-veil]");
const FOLDED = "inspector-folded";

/** @param {Element} panel */
function slidesOver(panel) {
  return getComputedStyle(panel).position === "fixed";
}

/** @param {string} id */
function openers(id) {
  return document.querySelectorAll(`[data-open-panel="${id}"]`);
}

/** @param {HTMLElement} panel @param {boolean} isOpen */
function tell(panel, isOpen) {
  for (const opener of openers(panel.id)) opener.setAttribute("aria-expanded", String(isOpen));
}

/** @param {HTMLElement} panel */
function open(panel) {
  closeAll();
  panel.classList.add("is-open");
  tell(panel, true);
  if (veil instanceof HTMLElement) veil.hidden = false;
  const first = panel.querySelector("[data-close-panel]");
  if (first instanceof HTMLElement) first.focus();
}

/** @returns {boolean} whether there was anything to close */
export function closeAll() {
  let closed = false;
  for (const panel of document.querySelectorAll("[data-panel].is-open")) {
    if (!(panel instanceof HTMLElement)) continue;
    panel.classList.remove("is-open");
    tell(panel, false);
    const opener = openers(panel.id)[0];
    if (panel.contains(document.activeElement) && opener instanceof HTMLElement) opener.focus();
    closed = true;
  }
  if (veil instanceof HTMLElement) veil.hidden = true;
  return closed;
}

/** @param {HTMLElement} panel */
function fold(panel) {
  const isFolded = panel.classList.toggle("is-folded");
  tell(panel, !isFolded);
  localStorage.setItem(FOLDED, isFolded ? "yes" : "no");
}

document.addEventListener("click", (event) => {
  if (!(event.target instanceof Element)) return;
  const opener = event.target.closest("[data-open-panel]");
  if (opener instanceof HTMLElement) {
    const panel = document.getElementById(opener.dataset.openPanel ?? "");
    if (!panel) return;
    if (!slidesOver(panel)) fold(panel);
    else if (panel.classList.contains("is-open")) closeAll();
    else open(panel);
  } else if (event.target.closest("[data-close-panel]") || event.target === veil) {
    closeAll();
  }
});

const inspector = document.getElementById("inspector");
if (inspector) {
  if (localStorage.getItem(FOLDED) === "yes") inspector.classList.add("is-folded");
  const isShown = !slidesOver(inspector) && !inspector.classList.contains("is-folded");
  tell(inspector, isShown);
}
