// Ending a request for its client: shown only to those who may.
import { html, signal } from "./kit.js";
import { ask } from "./api.js";
import { Confirm } from "./parts.js";

/** The request that somebody wants to cancel. Its row may be gone before the answer is there. */
const asked = signal(null);

export function Cancel({ id, one, isSmall }) {
  return html`<button class=${`quiet${isSmall ? " small" : ""}`} onClick=${() => { asked.value = { ...one, id }; }}>Cancel<span class="hidden"> the request to ${one.model}</span></button>`;
}

export function CancelDialog() {
  const one = asked.value;
  if (!one) return null;
  const body = { request_id: one.id };
  const act = async () => {
    await ask("admin/cancel", { method: "POST", body });
    return "The request has ended.";
  };
  const steps = [
    one.state === "waiting" ? `It leaves the queue of ${one.serve}.` : `Its place at ${one.serve ?? "the serve"} becomes free at once.`,
    one.state !== "answering" ? "Its client gets an error, 503, that says an operator cancelled it." : "Its client gets an error event after what it has already got.",
  ];
  return html`<${Confirm} key=${one.id} title=${`Cancel the request to ${one.model || one.endpoint}?`} steps=${steps} verb="Cancel the request" dismiss="Let it run" act=${act}
    close=${() => { asked.value = null; }} request=${`POST /admin/cancel ${JSON.stringify(body)}`} />`;
}
