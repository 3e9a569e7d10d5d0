// Usage as tables with bars, and as files.
import { html, useState } from "./kit.js";
import { ask } from "./api.js";
import { number, seconds } from "./format.js";
import { Problem } from "./parts.js";

const FIGURES = [
  "requests", "failed", "input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "cost", "accelerator_seconds", "swap_seconds",
  "ttft", "tokens_per_second", "audio_seconds", "characters", "images", "cache_write_tokens", "joules", "joules_per_1000_tokens",
];
/** Rows that Stoker answers at most. */
const MOST = 10_000;

export function money(value) {
  return value ? value.toFixed(value < 10 ? 4 : 2) : "–";
}

export function tokensOf(row) {
  return row.input_tokens + row.output_tokens;
}

/** `rows`: as GET /v1/usage has them; `first(row)`: what the row is about. */
export function UsageTable({ label, head, rows, first }) {
  const most = Math.max(1, ...rows.map(tokensOf));
  const hasCost = rows.some((row) => row.cost > 0);
  if (!rows.length) return html`<p class="dim">Nothing was used in this time.</p>`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}><table class="wide used"><caption class="hidden">${label}</caption>
    <thead><tr><th scope="col">${head}</th><th scope="col" class="num">Requests</th><th scope="col" class="num">Prompt tokens</th><th scope="col" class="num">Answer tokens</th>
      ${hasCost && html`<th scope="col" class="num">Cost</th>`}<th scope="col" class="num">Accelerator time</th><th class="share" aria-hidden="true">All tokens, 0 to ${number(most)}</th></tr></thead>
    <tbody>${rows.map((row, index) => html`<tr key=${index}><th scope="row">${first(row)}</th><${UsageCells} row=${row} hasCost=${hasCost} />
      <td class="meter" aria-hidden="true"><i style=${{ width: `${(tokensOf(row) / most) * 100}%` }} /></td></tr>`)}</tbody></table></div>`;
}

/** `data-head`: what stands before a cell where the table is one column. */
export function UsageCells({ row, hasCost }) {
  const cells = {
    Requests: row && html`${number(row.requests)}${row.failed > 0 && html`<br /><span class="small bad-text">${number(row.failed)} failed</span>`}`,
    "Prompt tokens": row && html`${number(row.input_tokens)}${row.cached_tokens > 0 && html`<br /><span class="small dim">${number(row.cached_tokens)} cached</span>`}`,
    "Answer tokens": row && number(row.output_tokens),
    ...(hasCost && { Cost: row && money(row.cost) }),
    "Accelerator time": row && (row.accelerator_seconds ? seconds(row.accelerator_seconds) : "–"),
  };
  return Object.entries(cells).map(([head, value]) => html`<td key=${head} class=${row ? "num" : "num dim"} data-head=${head}>${value ?? "–"}</td>`);
}

/** The totals of a time. `failed`: the address of the requests that failed. */
export function Totals({ total, failed }) {
  const tiles = [
    ["Requests", number(total?.requests ?? 0)], ["Failed", html`<a href=${failed}>${number(total?.failed ?? 0)}<span class="hidden"> failed: show these requests</span></a>`, total?.failed > 0],
    ["Prompt tokens", number(total?.input_tokens ?? 0)], ["Answer tokens", number(total?.output_tokens ?? 0)],
    total?.cost > 0 ? ["Cost", money(total.cost)] : ["Accelerator time", total ? seconds(total.accelerator_seconds) : "–"],
  ];
  return html`<dl class="figures">${tiles.map(([name, value, isBad]) => html`<div class=${isBad ? "bad" : ""}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

/** Buttons that save the usage of `since` seconds; of one key, if there is a `name`. */
export function Export({ since, name }) {
  const [error, setError] = useState(null);
  const [said, setSaid] = useState("");
  const only = name ? `&key=${encodeURIComponent(name)}` : "";
  const keep = async (kind) => {
    try {
      const answer = await ask(`v1/usage?by=key,app,model,class,day&since=${since}${only}`);
      const text = kind === "csv" ? csv(answer) : JSON.stringify(answer, null, 1);
      offer(`usage${name ? `-${name}` : ""}.${kind}`, text, kind === "csv" ? "text/csv" : "application/json");
      setError(null);
      setSaid(answer.data.length < MOST ? `${number(answer.data.length)} rows are saved.` : `It has the first ${number(MOST)} rows: choose a shorter time for all.`);
    } catch (problem) {
      setError(problem);
    }
  };
  return html`<div class="buttons"><button class="quiet" onClick=${() => keep("csv")}>Save as CSV</button><button class="quiet" onClick=${() => keep("json")}>Save as JSON</button></div>
    <p class="dim small" role="status">${said || "A row for each key, application, model, class and day."}</p>${error && html`<${Problem} error=${error} />`}`;
}

/** As `stoker usage --csv` prints it. Pure. */
export function csv({ by, data }) {
  const name = (value) => cell(/^[=+\-@\t]/.test(value) ? `'${value}` : value);
  const lines = data.map((row) => [...by.map((one) => name(row[one])), ...FIGURES.map((one) => row[one] ?? "")].join(","));
  return `${[[...by, ...FIGURES].join(","), ...lines].join("\r\n")}\r\n`;
}

function cell(text) {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function offer(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name.replace(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
