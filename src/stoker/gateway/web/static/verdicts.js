// The words and signs of verdicts, as the glossary has them. Pure.
import { seconds } from "./format.js";
import { now } from "./live.js";

/** `kind`: the class of the style. */
export const STATES = {
  allow: { sign: "✓", word: "allow", kind: "allow", means: "may serve" },
  "allow-with-verify": { sign: "◐", word: "verify", kind: "verify", means: "may serve; its answers are checked" },
  deny: { sign: "✕", word: "deny", kind: "deny", means: "is not used" },
  stale: { sign: "↻", word: "stale", kind: "stale", means: "measured on something else than runs now, or its answers became worse" },
  "not-measured": { sign: "–", word: "not measured", kind: "none", means: "checked; at high risk not used" },
  "not-its-class": { sign: "·", word: "not its class", kind: "none" },
  "no-cloud": { sign: "·", word: "no cloud here", kind: "none" },
};

export function wordOf({ state, verdict }) {
  const word = STATES[state]?.word ?? state;
  return state === "stale" ? `${word}, ${STATES[verdict]?.word ?? verdict}` : word;
}

/** "3 d": how long ago, in one unit; the page draws it anew with other things. */
export function ageOf(at) {
  if (at == null) return "no date";
  const age = Math.max(0, now.peek() - at);
  if (age >= 86400) return `${Math.floor(age / 86400)} d`;
  return age >= 3600 ? `${Math.floor(age / 3600)} h` : age >= 60 ? `${Math.floor(age / 60)} min` : seconds(Math.floor(age));
}
