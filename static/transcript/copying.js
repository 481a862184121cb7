// @ts-check
// Copy: a block of code as it stands, or a whole message as the model wrote it.

/** @param {HTMLButtonElement} button @returns {Promise<string>} */
async function textFor(button) {
  if (button.dataset.copy === "code") return button.closest(".code")?.querySelector("code")?.textContent ?? "";
  const response = await fetch(button.dataset.url ?? "");
  if (!response.ok) throw new Error(response.statusText);
  return response.text();
}

/** @param {HTMLButtonElement} button @param {HTMLElement} box */
async function copy(button, box) {
  const words = button.querySelector("span") ?? button;
  const before = words.textContent;
  let said = box.dataset.copied;
  try {
    await navigator.clipboard.writeText(await textFor(button));
  } catch {
    said = box.dataset.copyFailed;
  }
  words.textContent = said ?? "";
  setTimeout(() => (words.textContent = before), 1500);
}

/** @param {HTMLElement} box */
export function offerCopies(box) {
  box.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-copy]");
    if (button instanceof HTMLButtonElement) copy(button, box);
  });
}
