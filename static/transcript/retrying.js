// @ts-check
// Retry: what was asked is asked again, as a new run. The key makes a double click one run.

import { call } from "./api.js";

/** @param {HTMLElement} box */
export function offerRetries(box) {
  box.addEventListener("click", async (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-retry]");
    if (!(button instanceof HTMLButtonElement)) return;
    const run = button.dataset.retry ?? "";
    const status = button.parentElement?.querySelector("[data-retry-status]");
    button.disabled = true;
    try {
      const { input } = await call("GET", `/v1/runs/${run}`);
      const conversation = box.dataset.conversation;
      await call("POST", "/v1/runs", { input, conversation }, { "Idempotency-Key": `retry-${run}` });
      document.dispatchEvent(new CustomEvent("scroll-to-end"));
    } catch (error) {
      button.disabled = false;
      if (status) status.textContent = error instanceof Error ? error.message : String(error);
    }
  });
}
