// @ts-check
// The list on the left stays true: it is fetched again, as the server renders it, whenever something has changed.

const room = document.querySelector("[data-conversations]");
const LEAST_PAUSE = 400;

let isFetching = false;
let isWanted = false;
let limit = "";

/** Where the focus is, in words that hold after the list was replaced. @param {Element} list */
function placeOfFocus(list) {
  const active = document.activeElement;
  if (!active || !list.contains(active)) return "";
  const entry = active.closest("[data-conversation]");
  const kind = ["data-stop", "data-rename", "data-delete"].find((name) => active.hasAttribute(name));
  if (!(entry instanceof HTMLElement)) return "[data-more]";
  return `[data-conversation="${entry.dataset.conversation}"] ${kind ? `[${kind}]` : ".entry-link"}`;
}

/** @param {string} html */
function show(html) {
  const list = room?.querySelector("[data-list]");
  // Somebody types a new title: what changed meanwhile is fetched when that is done.
  if (!list || list.querySelector("li form")) return;
  const place = placeOfFocus(list);
  const made = document.createRange().createContextualFragment(html).querySelector("[data-list]");
  if (!(made instanceof HTMLElement)) return;
  list.replaceWith(made);
  if (place) {
    const again = made.querySelector(place) ?? made.querySelector(place.replace(/\[data-stop\]$/, ".entry-link"));
    if (again instanceof HTMLElement) again.focus({ preventScroll: true });
  }
  const waiting = made.dataset.waitingNow ?? "0";
  for (const badge of document.querySelectorAll("[data-waiting]")) {
    if (!(badge instanceof HTMLElement)) continue;
    badge.textContent = waiting;
    badge.hidden = waiting === "0";
  }
}

export async function refresh() {
  if (!(room instanceof HTMLElement)) return;
  if (isFetching) {
    isWanted = true;
    return;
  }
  isFetching = true;
  isWanted = false;
  try {
    const address = new URL(room.dataset.source ?? "", location.href);
    if (limit) address.searchParams.set("limit", limit);
    address.searchParams.set("current", room.dataset.current ?? "");
    const response = await fetch(address, { redirect: "error" });
    if (response.ok) show(await response.text());
  } catch {
    // The server is away, or nobody is signed in any more; the next ring or the next look brings it back.
  }
  window.setTimeout(() => {
    isFetching = false;
    if (isWanted) refresh();
  }, LEAST_PAUSE);
}

document.addEventListener("overview-changed", refresh);
room?.addEventListener("click", (event) => {
  const more = event.target instanceof Element ? event.target.closest("[data-more]") : null;
  if (!(more instanceof HTMLElement)) return;
  event.preventDefault();
  limit = more.dataset.more ?? "";
  refresh();
});
