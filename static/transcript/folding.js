// @ts-check
// What is folded: cards that open by themselves while a tool works, long texts that show all of themselves on request.

const LATER = 600; // a tool that is done sooner need not open

/** @param {Element} node */
export function openRunning(node, isAtOnce = false) {
  const cards = node.matches("details[data-opens]") ? [node] : [...node.querySelectorAll("details[data-opens]")];
  for (const card of cards) {
    if (!(card instanceof HTMLDetailsElement)) continue;
    const open = () => {
      if (!card.dataset.touched) card.open = true;
    };
    if (isAtOnce) open();
    else setTimeout(open, LATER);
  }
}

/** @param {HTMLElement} button */
async function showAll(button) {
  const part = button.parentElement;
  const address = button.dataset.fetch;
  if (address) {
    const response = await fetch(address).catch(() => null);
    const text = part?.querySelector("pre");
    if (!response?.ok || !text) return;
    text.textContent = await response.text();
    button.remove();
    part?.classList.add("whole");
    return;
  }
  const isWhole = part?.classList.toggle("whole") ?? false;
  button.setAttribute("aria-expanded", String(isWhole));
  const words = button.dataset.less ?? "";
  button.dataset.less = button.textContent ?? "";
  button.textContent = words;
}

/** @param {HTMLElement} box */
export function letFold(box) {
  box.addEventListener("click", (event) => {
    if (!(event.target instanceof Element)) return;
    const card = event.target.closest("summary")?.parentElement;
    if (card instanceof HTMLElement) card.dataset.touched = "yes";
    const button = event.target.closest("[data-more], [data-fetch]");
    if (button instanceof HTMLElement) showAll(button);
  });
  openRunning(box, true);
}
