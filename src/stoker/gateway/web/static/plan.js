// What an action would do, in steps, from what /status says. Pure.
import { bytes, list, seconds } from "./format.js";

/** States of a serve of which nothing runs. */
export const GONE = ["stopped", "backoff", "parked", "paused", "cannot_load"];

/** The slots of a serve: it may take several at the same time. */
export function slotsOf(serve) {
  return serve.slot == null ? [] : serve.slot.split("+");
}

/** Steps of making `name` resident. `preview`: what the scheduler says about that, of POST /admin/preview. */
export function loadPlan(status, name, preview) {
  const serve = status.serves.find((one) => one.name === name);
  if (preview.ready) return ["Nothing: it is already ready."];
  if (preview.refusal) return [`Stoker refuses: ${preview.refusal.message}`];
  const victims = status.serves.filter((one) => preview.victims.includes(one.name));
  const steps = serve.cannot_load ? [`Try it again, although it could not load: ${serve.cannot_load.replace(/\.$/, "")}.`] : [];
  if (preview.waits) steps.push("Wait until what starts or stops in its slot now is done; who has to stop then shows.");
  const needed = serve.memory ?? null;
  const looked = ["its command", ...(serve.model ? ["its weights"] : []), needed ? `memory for ${bytes(needed)}` : "memory"];
  const before = victims.length ? `, before ${list(victims.map((one) => one.name))} is stopped` : "";
  steps.push(`Check whether it can start${before}: ${list(looked)}.`);
  for (const victim of victims) steps.push(leaving(victim));
  const usual = serve.swap_seconds_assumed ? "how long that takes is not measured yet" : `it took ${seconds(serve.swap_seconds)} before`;
  steps.push(`Start ${name} and wait until it proves itself (${usual}).`);
  if (victims.length) steps.push(`If it does not become ready: start ${list(victims.map((one) => one.name))} again.`);
  return steps;
}

/** Steps of stopping `name`. */
export function unloadPlan(status, name) {
  const serve = status.serves.find((one) => one.name === name);
  if (GONE.includes(serve.state)) return ["Nothing: it is already stopped."];
  const waiting = serve.queued ? ` ${serve.queued} waiting will load it again.` : "";
  return [leaving(serve) + waiting, "A request for it loads it again."];
}

export function drainPlan(status, name) {
  const serve = status.serves.find((one) => one.name === name);
  return [
    `Admit no new request to ${name}; ${working(serve)}.`,
    "It stays loaded until somebody admits requests again.",
  ];
}

export function undrainPlan(status, name) {
  return [`Admit requests to ${name} again.`];
}

function working(serve) {
  if (!serve.in_flight) return "none is in flight";
  return serve.in_flight === 1 ? "the one in flight ends as usual" : `the ${serve.in_flight} in flight end as usual`;
}

function leaving(serve) {
  const flight = serve.in_flight ? `${serve.in_flight} in flight, at most its slot's drain_timeout` : "nothing in flight";
  return `Drain ${serve.name} (${flight}), then stop it.`;
}
