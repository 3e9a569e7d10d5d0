// Why a serve is not there when it is wanted. Pure.

/** `{ title, text, next }`: what is wrong, why, and what follows; null: nothing is known to be wrong. */
export function problemOf({ parked, last_error: last }) {
  if (parked) return { title: "Parked.", text: parked, next: "It is not started again before somebody loads it." };
  return last ? { title: "The last failure.", text: last, next: "" } : null;
}
