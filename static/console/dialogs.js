// @ts-check
// Dialogs close by a click beside them. The script of the search comes when it is opened.

export async function openSearch() {
  (await import("./search.js")).openSearch();
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
