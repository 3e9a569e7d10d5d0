// Reading the configuration again: what would change is shown first.
import { ask } from "./api.js";
import { counted, list } from "./format.js";
import { html, useState } from "./kit.js";
import { Confirm, Problem } from "./parts.js";

const PATH = "admin/reload";

/** `done()` is called after a reload. */
export function Reload({ done }) {
  const [state, setState] = useState({ kind: "idle" });
  const look = async () => {
    setState({ kind: "looking" });
    try {
      setState({ kind: "asking", change: await ask(PATH, { method: "POST", body: { dry_run: true } }) });
    } catch (error) {
      setState({ kind: "failed", error });
    }
  };
  const close = () => setState({ kind: "idle" });
  const act = async () => {
    const answer = await ask(PATH, { method: "POST", body: {} });
    done();
    return said(answer);
  };
  return html`<button class="quiet" disabled=${state.kind === "looking"} onClick=${look}>Reload the configuration</button>
    ${state.kind === "failed" && html`<${Problem} error=${state.error} />`}
    ${state.kind === "asking" && html`<${Confirm} title="Reload the configuration?" steps=${steps(state.change)} verb="Reload" act=${act} close=${close} request=${`POST /${PATH} {}`} />`}`;
}

/** What a reload would do. Pure. */
export function steps({ changed, added, removed, routing, settings }) {
  const found = [
    added.length && `Add ${list(added)}.`,
    removed.length && `Remove ${list(removed)}: drained and stopped where loaded.`,
    changed.length && `Change ${list(changed)}: drained and started again where loaded.`,
    routing && "Route by other rules or measurements.",
    settings.length && `Apply ${settings.length === 1 ? "this setting" : `these ${settings.length} settings`}: ${settings.join(", ")}.`,
  ].filter(Boolean);
  return found.length ? found : ["Nothing: the file says what already counts."];
}

function said({ settings, lapsed, ended }) {
  const changed = settings.length ? `Reloaded; ${counted(settings.length, "setting")} changed.` : "Reloaded; nothing changed.";
  const words = [changed, ...ended.map((one) => `The promotion of ${one.alias} to ${one.serve} has ended, because it is no longer configured.`)].join(" ");
  const again = [...new Set(lapsed.map((one) => one.tier))];
  return again.length ? `${words} Measure again, because they may have changed: ${list(again)} (stoker eval calibrate ${again[0]}).` : words;
}
