// Why a queue waits, and until when, as far as /status tells. Pure.
import { seconds } from "./format.js";

/** A sentence's end about the requests that wait for `serve` in `slot`. */
export function waitingFor(serve, slot) {
  if (serve.state === "ready") return "all its places are in use";
  if (serve.state === "held") return "an operator drains it";
  const swap = slot.swap;
  if (swap?.target === serve.name) {
    const left = swap.expected == null ? null : swap.expected - (swap.phase === "draining" ? 0 : swap.elapsed);
    if (swap.phase === "draining") return `${swap.stopping.join(" and ")} ends its requests first, then about ${seconds(swap.expected)} to load`;
    if (left == null) return "it is being loaded";
    return left > 0.5 ? `ready in about ${seconds(left)}` : "ready any moment: it takes longer than usual";
  }
  const about = serve.swap_seconds_assumed ? "" : `, then about ${seconds(serve.swap_seconds)} to load`;
  if (swap) return `the slot changes to ${swap.target ?? "nothing"} first${about}`;
  if (slot.resident.length) return `its turn comes when ${slot.resident.join(" and ")} may stop${about}`;
  return `it is loaded next${about}`;
}
