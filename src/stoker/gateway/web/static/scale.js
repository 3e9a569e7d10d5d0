// Round ends for axes and bars. Pure.

/** The next round number: the top of an axis. */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10].map((step) => step * size).find((round) => round >= value * 0.999);
}

/** Bars that are longer than most are cut at the end of the scale, so that the others can be compared. */
const MOST = 0.95;

/** The end of one linear scale for bars of these lengths; it begins at 0. */
export function scaleFor(lengths) {
  const sorted = [...lengths].sort((a, b) => a - b);
  return roundUp(sorted[Math.ceil(sorted.length * MOST) - 1]);
}
