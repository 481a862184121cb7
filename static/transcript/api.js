// @ts-check
// Calls to /v1 in the name of whoever is signed in.

const PATIENCE = 15000; // in milliseconds, with a server that does not answer

export class ApiError extends Error {
  /** @param {number} status @param {string} code @param {string} message @param {string} [param] */
  constructor(status, code, message, param = "") {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
  }
}

/** @returns {string} */
function csrfToken() {
  return /(?:^|; )csrftoken=([^;]*)/.exec(document.cookie)?.[1] ?? "";
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {Record<string, string>} [headers]
 * @returns {Promise<any>} what the server answers; throws ApiError
 */
export async function call(method, path, body, headers = {}) {
  /** @type {Response} */
  let response;
  try {
    response = await fetch(path, {
      method,
      signal: AbortSignal.timeout(PATIENCE),
      headers: { Accept: "application/json", "Content-Type": "application/json", "X-CSRFToken": csrfToken(), ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    const words = document.querySelector("[data-unreachable]")?.getAttribute("data-unreachable");
    throw new ApiError(0, "unreachable", words || "The server cannot be reached.");
  }
  const answer = await response.json().catch(() => null);
  if (response.status === 401) location.reload(); // whoever was signed out meanwhile is sent to the sign-in
  if (!response.ok) {
    const error = answer?.error ?? {};
    throw new ApiError(response.status, error.code ?? "error", error.message ?? response.statusText, error.param ?? "");
  }
  return answer;
}
