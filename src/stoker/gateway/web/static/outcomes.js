// How requests end, and which of them a filter shows. Pure.

/** As `stoker explain` says it, in short. */
export const OUTCOMES = {
  served: { sign: "✓", word: "answered" },
  client_left: { sign: "○", word: "client left" },
  refused: { sign: "✕", word: "refused", isBad: true },
  upstream_failed: { sign: "✕", word: "engine failed", isBad: true },
  cut: { sign: "✕", word: "cut", isBad: true },
  stalled: { sign: "✕", word: "stalled", isBad: true },
  bug: { sign: "✕", word: "internal error", isBad: true },
  reading: { sign: "◌", word: "arriving", isOpen: true },
  waiting: { sign: "◔", word: "waiting", isOpen: true },
  prompt: { sign: "◐", word: "reading the prompt", isOpen: true },
  answering: { sign: "●", word: "answering", isOpen: true },
};

const FAILURES = ["upstream_failed", "cut", "stalled", "bug"];

/** No whole answer, through no fault of the client: not wrong requests, limits, and clients that left. */
export function isFailed(one) {
  return FAILURES.includes(one.outcome) || one.status >= 500;
}

/** Values of the filter `outcome` that mean several outcomes. */
export const GROUPS = {
  in_flight: { word: "in flight", holds: (one) => one.state != null },
  waiting: { word: "waiting", holds: (one) => one.state === "waiting" },
  failed: { word: "failed", holds: (one) => one.state == null && isFailed(one) },
  not_served: { word: "not answered", holds: (one) => one.state == null && one.outcome !== "served" },
};

export const SLOW = {
  waited: { word: "Waited", holds: (one) => one.state === "waiting" || (one.queued ?? 0) >= 0.05 },
  first2: { word: "First token after 2 s or more", holds: (one) => (one.ttft ?? 0) >= 2 },
  whole10: { word: "10 s or longer", holds: (one, now) => lasted(one, now) >= 10 },
  whole60: { word: "A minute or longer", holds: (one, now) => lasted(one, now) >= 60 },
};

/** Values of the filter `last` that are offered: seconds until now in which a request ended. */
export const LAST = { 300: "5 minutes", 900: "15 minutes", 3600: "hour", 86_400: "24 hours", 604_800: "7 days", 2_592_000: "30 days" };

export function outcomeOf(one) {
  return OUTCOMES[one.state ?? one.outcome] ?? { sign: "?", word: one.outcome };
}

export function classOf(one) {
  return one.routed?.task ?? one.class ?? "";
}

/** Unix seconds at which a request that has ended did so. */
export function endOf(one) {
  return one.at + (one.latency ?? 0);
}

/** Seconds from its arrival to its end, or until now. */
export function lasted(one, now) {
  return one.state == null ? one.latency ?? 0 : Math.max(0, now - one.at);
}

/** Those of `found` that the filter shows, in their order. Fields that the filter does not know are ignored. */
export function filtered(found, filter, now) {
  const tests = [];
  const { q, serve, key, outcome, slow, last } = filter;
  if (serve) tests.push((one) => one.serve === serve || one.replica === serve);
  if (key) tests.push((one) => one.key === key);
  if (filter.session) tests.push((one) => one.session === filter.session);
  if (filter.class) tests.push((one) => classOf(one) === filter.class);
  if (outcome) tests.push(GROUPS[outcome]?.holds ?? ((one) => one.state == null && one.outcome === outcome));
  if (SLOW[slow]) tests.push((one) => SLOW[slow].holds(one, now));
  if (last > 0) tests.push((one) => one.state == null && endOf(one) >= now - last);
  if (q) {
    const wanted = q.toLowerCase();
    tests.push((one) => [one.id, one.model, one.serve, one.replica, one.key, one.endpoint, one.reason, one.routed?.tier, classOf(one)]
      .some((text) => text?.toLowerCase().includes(wanted)));
  }
  return tests.length ? found.filter((one) => tests.every((test) => test(one))) : found;
}
