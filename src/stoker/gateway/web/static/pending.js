// What a request for a model waits for, by the status that the page has.
import { seconds } from "./format.js";
import { html } from "./kit.js";
import { now, status } from "./live.js";
import { serveOf, swapFor } from "./model_list.js";
import { Swap } from "./overview.js";
import { slotsOf } from "./plan.js";
import { waitingFor } from "./waiting.js";

/** `began`: Unix seconds. `ready`: what it waits for if the model is loaded. */
export function Pending({ model, began, ready = "Waiting for the first token" }) {
  const serve = serveOf(model);
  const swap = swapFor(model);
  const passed = Math.floor(now.value - began);
  return html`<div class="pending">
    ${!(serve && swap) && html`<p class="dim"><span class="spin" aria-hidden="true" />${reason(serve, ready)}${passed > 1 ? ` · ${seconds(passed)} so far` : ""}</p>`}
    ${swap && html`<${Swap} swap=${swap} />`}</div>`;
}

function reason(serve, ready) {
  if (!serve) return "Stoker chooses who answers";
  if (serve.state === "ready" && !serve.queued) return ready;
  const slot = status.value.slots.find((one) => slotsOf(serve).includes(one.name)) ?? { resident: [], swap: null };
  return `${serve.state === "ready" ? "Waiting for a place" : "Not loaded yet"}: ${waitingFor(serve, slot)}`;
}
