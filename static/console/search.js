// @ts-check
// Search in a dialog: results while one types, arrows to choose, Enter to go.

import { localiseTimes } from "../transcript/clocks.js";

const dialog = document.querySelector("dialog[data-search]");
const input = dialog?.querySelector("input");
const results = dialog?.querySelector("[data-results]");
const count = dialog?.querySelector("[data-count]");
const PAUSE = 150;

let timer = 0;
let number = 0;
let chosen = -1;

function options() {
  return /** @type {HTMLAnchorElement[]} */ (Array.from(results?.querySelectorAll("[role=option]") ?? []));
}

/** @param {number} index -1 for none */
function choose(index) {
  const found = options();
  chosen = index;
  for (const [at, option] of found.entries()) option.setAttribute("aria-selected", String(at === chosen));
  const option = found[chosen];
  if (option) {
    input?.setAttribute("aria-activedescendant", option.id);
    option.scrollIntoView({ block: "nearest" });
  } else {
    input?.removeAttribute("aria-activedescendant");
  }
}

export async function look() {
  if (!(dialog instanceof HTMLDialogElement) || !input || !results) return;
  const mine = ++number;
  const address = new URL(dialog.dataset.source ?? "", location.href);
  address.searchParams.set("q", input.value);
  address.searchParams.set("fragment", "");
  try {
    const response = await fetch(address, { redirect: "error" });
    if (!response.ok || mine !== number) return;
    const html = await response.text();
    const made = document.createRange().createContextualFragment(html);
    const said = made.querySelector("[data-said]");
    results.replaceChildren(...made.querySelectorAll("[role=option]"));
    localiseTimes(results);
    if (count) count.textContent = said?.textContent ?? "";
    if (!results.firstChild && said) results.append(said);
    choose(input.value && options().length ? 0 : -1);
  } catch {
    // Nobody answers: what was found before stays.
  }
}

// The page of the search has its own list, for who opens it in a tab.
for (const list of document.querySelectorAll(".found-list")) localiseTimes(list);

if (dialog instanceof HTMLDialogElement && input) {
  input.addEventListener("input", () => {
    window.clearTimeout(timer);
    timer = window.setTimeout(look, PAUSE);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const most = options().length - 1;
      if (event.key === "ArrowDown") choose(chosen >= most ? Math.min(0, most) : chosen + 1);
      else choose(chosen <= 0 ? most : chosen - 1);
    } else if (event.key === "Enter" && options()[chosen]) {
      event.preventDefault();
      options()[chosen].click();
    }
  });
}
