// Numbers and times as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** 5368709120 → "5.0 GiB"; unknown → "–". The command line writes sizes the same way (`domain/figures.py`). */
export function bytes(value) {
  if (value == null) return "–";
  let unit = 0;
  while (Math.round(value) >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit && (value < 100 || unit === UNITS.length - 1) ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

/** 0.034 → "34 ms", 3.14 → "3.1 s", 75 → "1 min 15 s", 7300 → "2 h 1 min". */
export function seconds(value) {
  if (value == null) return "–";
  if (value < 0.0995) return `${Math.round(value * 1000)} ms`;
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 60) return `${Math.round(value)} s`;
  const whole = Math.round(value);
  if (whole < 3600) return whole % 60 ? `${Math.floor(whole / 60)} min ${whole % 60} s` : `${whole / 60} min`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

export function number(value) {
  return value == null ? "–" : value.toLocaleString("en");
}

/** "1 request", "3,000 requests"; for nouns that take an s. */
export function counted(value, noun) {
  return `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
}

/** Tokens per second: 9.2, 312, 1,204; unknown → "–". */
export function rate(value) {
  return value == null || value < 100 ? value?.toFixed(1) ?? "–" : number(Math.round(value));
}

/** Unix seconds as the time of day; with the date if it is not today's. */
export function clock(at) {
  const when = new Date(at * 1000);
  const time = when.toLocaleTimeString("en-GB");
  return when.toDateString() === new Date().toDateString() ? time : `${when.toLocaleDateString("en-CA")} ${time}`;
}

/** With a capital at its beginning. */
export function upper(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** Serve names from a list: "a", "a and b", "a, b and c". */
export function list(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
