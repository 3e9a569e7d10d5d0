// What slots did while no page looked, as far as the swaps that ended tell. Pure.

/** Seconds; a shorter drain or stop is not drawn. */
const SHORTEST = 0.1;

export function beganAt(swap) {
  return swap.at - Object.values(swap.phases).reduce((sum, one) => sum + one, 0);
}

/**
 * By serve: `{state, from, to}`, the oldest first. `swaps`: the newest first; none of those after `since` is missing,
 * so a serve that had to leave without having been loaded since then was there all the time.
 */
export function pastOf(swaps, since) {
  const bars = new Map();
  const readyAt = new Map(); // null: not loaded
  const add = (name, state, from, to, shortest = 0) => {
    if (to > from && to - from >= shortest) bars.set(name, [...(bars.get(name) ?? []), { state, from, to }]);
  };
  for (const swap of swaps.toReversed()) {
    const { drain = 0, check = 0, stop = 0, start = 0, ready = 0 } = swap.phases;
    const began = beganAt(swap);
    for (const name of "stop" in swap.phases ? swap.victims : []) {
      const from = readyAt.has(name) ? readyAt.get(name) : since;
      if (from != null) add(name, "ready", from, began);
      add(name, "draining", began, began + drain + check, SHORTEST);
      add(name, "stopping", began + drain + check, began + drain + check + stop, SHORTEST);
      readyAt.set(name, null);
    }
    if (!swap.serve) continue;
    const isReady = swap.outcome === "ready";
    if (isReady) add(swap.serve, "starting", swap.at - start - ready, swap.at);
    readyAt.set(swap.serve, isReady ? swap.at : null);
  }
  return bars;
}

/** The parts of `bars` outside `spans`. Both: the oldest first, `{from, to}`. */
export function outside(bars, spans) {
  return spans.reduce((left, span) => left.flatMap((bar) => cutOut(bar, span)), bars);
}

function cutOut(bar, span) {
  if (span.to <= bar.from || span.from >= bar.to) return [bar];
  return [{ ...bar, to: span.from }, { ...bar, from: span.to }].filter((one) => one.to > one.from);
}

/** Past and seen bars of one serve as one list. A seen bar whose beginning was only concluded (`seen` is later than
 * `from`) begins after what the past tells. `watched`: when the page looked. */
export function joined(past, seen, watched) {
  const before = outside(past, watched);
  const later = seen.map((one) => {
    const ends = before.filter((bar) => bar.to <= one.seen + 1).map((bar) => bar.to);
    return one.seen > one.from ? { ...one, from: Math.max(one.from, ...ends) } : one;
  });
  return [...outside(before, later), ...later].sort((one, other) => one.from - other.from);
}
