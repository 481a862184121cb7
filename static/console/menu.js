// @ts-check
// The menu of the account closes when somebody goes elsewhere.

for (const menu of document.querySelectorAll("details[data-menu]")) {
  if (!(menu instanceof HTMLDetailsElement)) continue;
  document.addEventListener("click", (event) => {
    if (event.target instanceof Node && !menu.contains(event.target)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    event.preventDefault();
    menu.open = false;
    menu.querySelector("summary")?.focus();
  });
}
