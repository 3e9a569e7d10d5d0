// Why a queue waits, and until when, as far as /status tells. Pure.
import { list, seconds } from "./format.js";

/** Seconds beyond the usual time, or this share of it, after which a load is late. */
const LATE = 1;
const LATE_SHARE = 0.25;

/** A sentence's end about the requests that wait for `serve` in `slot`. */
export function waitingFor(serve, slot) {
  if (serve.state === "ready") return "all its places are in use";
  if (serve.state === "held") return "an operator drains it";
  const swap = slot.swap;
  if (swap?.target === serve.name) return untilLoaded(swap, usually(swap, serve));
  const about = serve.swap_seconds_assumed ? "" : `, then about ${seconds(serve.swap_seconds)} to load`;
  if (swap) return `the slot changes to ${swap.target ?? "nothing"} first${about}`;
  if (slot.resident.length) return `its turn comes when ${list(slot.resident)} may stop${about}`;
  return `it is loaded next${about}`;
}

/** Seconds that the load of `serve` by `swap` usually takes; null: it was never measured. */
export function usually(swap, serve) {
  return serve == null || serve.swap_seconds_assumed ? null : swap.expected;
}

/** `elapsed` and `expected` count from the end of the drain. */
function untilLoaded({ phase, stopping, elapsed }, expected) {
  if (phase === "draining") {
    const who = stopping.length ? `${list(stopping)} ${stopping.length === 1 ? "ends its" : "end their"} requests first` : "the slot is made free first";
    return expected == null ? who : `${who}, then about ${seconds(expected)} to load`;
  }
  if (expected == null) return "it is being loaded";
  const left = expected - elapsed;
  if (left > 0.5) return `ready in about ${seconds(left)}`;
  return -left < Math.max(LATE, expected * LATE_SHARE) ? "ready any moment" : "ready any moment: it takes longer than usual";
}
