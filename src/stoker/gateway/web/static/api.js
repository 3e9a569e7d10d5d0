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

/** Stoker answers a question long before; after that, the connection is taken for lost. In milliseconds. */
export const LONGEST_SILENCE = 40_000;

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

/** The answer's JSON. Throws Refused. A question that stays without an answer is given up; what acts may take longer. */
export async function ask(path, options = {}) {
  const aborter = new AbortController();
  options.signal?.addEventListener("abort", () => aborter.abort());
  const isQuestion = (options.method ?? "GET") === "GET";
  let isLate = false;
  const giveUp = () => {
    isLate = true;
    aborter.abort();
  };
  const timer = isQuestion ? setTimeout(giveUp, LONGEST_SILENCE) : 0;
  try {
    const reply = await send(path, { ...options, signal: aborter.signal });
    if (!reply.ok) throw await refusal(reply);
    return await reply.json();
  } catch (error) {
    if (error instanceof Refused || error instanceof SyntaxError || options.signal?.aborted) throw error;
    if (isLate) throw new Refused(0, "no_answer", `There was no answer for ${LONGEST_SILENCE / 1000} s.`);
    throw new Refused(0, "no_answer", "Stoker does not answer. Is it still running? `stoker up` starts it.");
  } finally {
    clearTimeout(timer);
  }
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
