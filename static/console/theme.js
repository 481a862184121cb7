// @ts-check
// Light, dark, or what the system says: applied at once, kept in the cookie that the server reads for the next page.

const YEAR = 365 * 24 * 3600;

for (const choice of document.querySelectorAll("[data-theme-choice]")) {
  choice.addEventListener("change", (event) => {
    const input = event.target;
    if (!(input instanceof HTMLInputElement)) return;
    document.documentElement.dataset.theme = input.value;
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `theme=${input.value}; path=/; max-age=${YEAR}; samesite=lax${secure}`;
  });
}
