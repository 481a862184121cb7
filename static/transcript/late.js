// @ts-check
// Scripts that few conversations need come with the first part that needs them; what is pressed before waits for them.

/** @param {HTMLElement} box @param {string} part @param {() => Promise<void>} load
 * @returns {(node: Element) => void} to be told of what is new on the page */
export function bringLate(box, part, load) {
  let isHere = false;
  /** @type {Promise<void> | null} */
  let coming = null;
  const bring = () => (coming ??= load().then(() => void (isHere = true), () => void (coming = null)));

  box.addEventListener("click", async ({ target }) => {
    const button = /** @type {Element} */ (target).closest("button");
    if (isHere || !button?.closest(part)) return;
    await bring();
    if (isHere) button.click();
  });
  return (node) => {
    if (node.matches(part) || node.querySelector(part)) bring();
  };
}
