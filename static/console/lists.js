// @ts-check
// Inbox and history stay true: their rows are fetched again, as the server renders them, when something has changed.

import { localiseTimes } from "../transcript/clocks.js";
import { focused } from "./focus.js";

const room = document.querySelector("[data-live-list]");
let isFetching = false;
let isWanted = false;

/** @param {ParentNode} root */
function kept(root) {
  return /** @type {HTMLElement[]} */ (Array.from(root.querySelectorAll("[data-keep]")));
}

/** Whether the same things wait as before: then nobody's half-filled form is touched. @param {ParentNode} made */
function isSame(made) {
  const names = [made, /** @type {HTMLElement} */ (room)].map((root) => kept(root).map((one) => one.dataset.keep).join(" "));
  return names[0] !== "" && names[0] === names[1];
}

/** What is still asked stays as it is, with whatever somebody has typed into it. @param {ParentNode} made */
function keep(made) {
  const before = new Map(kept(/** @type {HTMLElement} */ (room)).map((one) => [one.dataset.keep, one]));
  for (const one of kept(made)) {
    const old = before.get(one.dataset.keep);
    if (old) one.replaceWith(old);
  }
}

/** What is typed into goes on being typed into. Stop stays Stop, or else the row; and where the row is gone, the list.
 * @param {Element} active what had the focus */
function giveFocusBack(active) {
  const list = /** @type {HTMLElement} */ (room);
  const row = `[data-run="${/** @type {HTMLElement | null} */ (active.closest("[data-run]"))?.dataset.run}"]`;
  const stop = active.hasAttribute("data-stop") ? list.querySelector(`${row} [data-stop]`) : null;
  const place = active.isConnected ? active : stop ?? list.querySelector(`${row} a`) ?? list;
  if (place === list) list.tabIndex = -1;
  /** @type {HTMLElement} */ (place).focus({ preventScroll: true });
}

async function refresh() {
  if (!(room instanceof HTMLElement)) return;
  if (isFetching) {
    isWanted = true;
    return;
  }
  isFetching = true;
  isWanted = false;
  try {
    const response = await fetch(room.dataset.liveList ?? "", { redirect: "error" });
    if (response.ok) {
      const made = document.createRange().createContextualFragment(await response.text());
      const active = focused();
      const isHere = active !== null && active !== room && room.contains(active);
      if (isSame(made)) return;
      keep(made);
      room.replaceChildren(made);
      localiseTimes(room);
      if (isHere) giveFocusBack(active);
    }
  } catch {
    // The next ring or the next look brings it back.
  } finally {
    isFetching = false;
    if (isWanted) refresh();
  }
}

if (room) localiseTimes(room);
document.addEventListener("overview-changed", refresh);

// A filter answers as soon as it is chosen.
for (const form of document.querySelectorAll("[data-filters]")) {
  form.addEventListener("change", (event) => {
    if (event.target instanceof HTMLSelectElement && form instanceof HTMLFormElement) form.requestSubmit();
  });
}
