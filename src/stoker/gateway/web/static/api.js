// Requests to Stoker. Every one carries the header that a session's cookie counts with.

/** Where the API is: the page's folder is `ui/` below it, whatever prefix a proxy puts in front. */
export const base = new URL("../", document.baseURI);

/** An answer that is no success, or no answer at all (status 0). */
export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let heardNoKey = () => {};

/** `heard()` is called when a request is answered with 401: the key or the session behind the page counts no longer. */
export function whenNoKey(heard) {
  heardNoKey = heard;
}

export async function send(path, { method = "GET", body, key, signal, headers: more = {} } = {}) {
  const headers = { "x-stoker-page": "1", ...more };
  const isForm = body instanceof FormData;
  if (method !== "GET" && !isForm) headers["content-type"] = "application/json";
  if (key) headers.authorization = `Bearer ${key}`;
  const sent = method === "GET" ? undefined : isForm ? body : JSON.stringify(body ?? {});
  const reply = await fetch(new URL(path, base), { method, headers, body: sent, signal, cache: "no-store" });
  if (reply.status === 401 && !key && path !== "ui/session") heardNoKey();
  return reply;
}

/** The answer's JSON. Throws Refused. */
export async function ask(path, options) {
  let reply;
  try {
    reply = await send(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "no_answer", "Stoker does not answer. Is it still running? `stoker up` starts it.");
  }
  if (!reply.ok) throw await refusal(reply);
  return reply.json();
}

export async function refusal(reply) {
  let found;
  try {
    found = (await reply.json()).error;
  } catch {
    found = null;
  }
  const text = typeof found === "string" ? found : found?.message;
  return new Refused(reply.status, found?.code ?? "", text ?? `the answer was ${reply.status} ${reply.statusText}`);
}
