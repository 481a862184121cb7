// @ts-check
// Dialogs close by a click beside them. That of the search opens at once, and its script looks for what is typed by then.

export async function openSearch() {
  const dialog = document.querySelector("dialog[data-search]");
  if (!(dialog instanceof HTMLDialogElement) || dialog.open) return;
  dialog.showModal();
  dialog.querySelector("input")?.select();
  (await import("./search.js")).look();
}

document.addEventListener("click", (event) => {
  if (!(event.target instanceof Element) || event.ctrlKey || event.metaKey) return;
  if (!event.target.closest("[data-open-search]")) return;
  event.preventDefault();
  openSearch();
});

for (const one of document.querySelectorAll("dialog")) {
  one.addEventListener("click", (event) => {
    // A click beside the dialog meets the dialog itself; one inside meets its content.
    const isBeside = event.target === one;
    if (isBeside || (event.target instanceof Element && event.target.closest("[data-close-dialog]"))) one.close();
  });
}
