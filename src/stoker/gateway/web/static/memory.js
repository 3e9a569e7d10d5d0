// How much memory the loaded serves hold together. Pure.
import { bytes } from "./format.js";
import { GONE } from "./plan.js";


/**
 * `used`: bytes as text; `isPart`: that of some is unknown; `of`: the budgets of all slots, null if one has none. Serves that
 * run elsewhere hold nothing here.
 */
export function totalMemory({ serves, slots }) {
  const loaded = serves.filter((one) => !GONE.includes(one.state) && one.driver !== "external");
  const sizes = loaded.map((one) => one.measured ?? one.memory);
  const known = sizes.filter((one) => one != null);
  const isPart = known.length < sizes.length;
  const used = isPart && !known.length ? "–" : bytes(known.reduce((total, one) => total + one, 0));
  const hasAll = slots.length > 0 && slots.every((one) => one.memory != null);
  return { used, isPart: isPart && known.length > 0, of: hasAll ? bytes(slots.reduce((total, one) => total + one.memory, 0)) : null };
}
