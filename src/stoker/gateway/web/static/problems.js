// Why a serve is not there when it is wanted. Pure.

/** States that end only when a person or a change of its files mends something; as does what the watchdog finds. */
const BROKEN = ["cannot_load", "parked"];

export function isBroken({ state, watchdog }) {
  return BROKEN.includes(state) || watchdog?.health === "sick";
}

/** Drivers whose serves write their log somewhere else: `elsewhere` of `stoker watchdog` says where. */
const WITHOUT_LOG = ["external", "systemd", "box"];

/** Whether its log is here and says more: of a serve that a check found wanting, nothing was started. */
export function hasLog({ driver, cannot_load: why, failed_start: failure }) {
  return !WITHOUT_LOG.includes(driver) && (!why || Boolean(failure));
}

/** `{ title, text, next }`: what is wrong, why, and what follows; null: nothing is known to be wrong. */
export function problemOf({ parked, cannot_load: why, last_error: last, watchdog }) {
  if (parked) return { title: "Parked:", text: sentence(parked), next: "It is not started again before somebody loads it." };
  if (why) {
    return { title: "It cannot load:", text: sentence(why), next: "It is not started again before its files or its configuration change, or somebody loads it." };
  }
  if (watchdog?.health === "sick") {
    const wrong = watchdog.findings.filter((one) => one.ok === false).map((one) => `${one.assertion}: ${one.detail}`);
    return { title: "It does not work as it should:", text: sentence(wrong.join("; ")), next: "" };
  }
  return last ? { title: "The last failure:", text: sentence(last), next: "" } : null;
}

function sentence(text) {
  return /[.!?]$/.test(text.trimEnd()) ? text : `${text}.`;
}
