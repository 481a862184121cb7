// @ts-check
// Inbox and history stay true: their rows are fetched again, as the server renders them, when something has changed.

import { localiseTimes } from "../transcript/clocks.js";

const room = document.querySelector("[data-live-list]");
let isFetching = false;

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

async function refresh() {
  if (!(room instanceof HTMLElement) || isFetching) return;
  isFetching = true;
  try {
    const response = await fetch(room.dataset.liveList ?? "", { redirect: "error" });
    if (response.ok) {
      const made = document.createRange().createContextualFragment(await response.text());
      const place = document.activeElement?.closest("[data-run]");
      const id = place instanceof HTMLElement && room.contains(place) ? place.dataset.run : "";
      if (isSame(made)) return;
      keep(made);
      room.replaceChildren(made);
      localiseTimes(room);
      const again = id ? room.querySelector(`[data-run="${id}"] :is(button, a)`) : null;
      if (again instanceof HTMLElement) again.focus({ preventScroll: true });
    }
  } catch {
    // The next ring or the next look brings it back.
  } finally {
    isFetching = false;
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
