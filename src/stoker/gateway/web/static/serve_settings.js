// The settings of a serve as a form: fields from the configuration's own definitions, values from the file.
import { useAnswer } from "./answer.js";
import { ask } from "./api.js";
import { Code } from "./code_block.js";
import { list } from "./format.js";
import { html, useState } from "./kit.js";
import { Problem } from "./parts.js";
import { address } from "./place.js";

export function ServeSettings({ name }) {
  const [again, setAgain] = useState(0);
  const [form, error] = useAnswer(`admin/settings/${encodeURIComponent(name)}`, again);
  return html`<p class="crumb"><a href=${address("serves", [name])}>${name}</a></p>
    <div class="head"><h1>Settings of ${name}</h1></div>
    ${error && html`<${Problem} error=${error} />`}
    ${form && html`<${Form} key=${form.version} form=${form} reread=${() => setAgain(again + 1)} />`}`;
}

function Form({ form, reread }) {
  const [given, setGiven] = useState({});
  const [find, setFind] = useState("");
  const [state, setState] = useState({ kind: "editing" });
  const { answer, error } = state;
  const problems = answer?.problems ?? [];
  const known = new Set(form.fields.map((one) => one.name));
  const set = (field, value) => {
    const next = { ...given, [field]: value };
    if (same(value, form.fields.find((one) => one.name === field).value)) delete next[field];
    setGiven(next);
    setState({ kind: "editing" });
  };
  const send = (dry) => async (event) => {
    event?.preventDefault();
    const asking = { ...state, kind: "asking" };
    setState(asking);
    // Nothing is shown, and so nothing can be written, for values that were changed while the answer came.
    const answered = (next) => setState((now) => (now === asking || next.kind === "done" ? next : now));
    try {
      const found = await ask(`admin/settings/${encodeURIComponent(form.serve)}`, { method: "POST", body: { values: given, version: form.version, dry_run: dry } });
      answered({ kind: found.written ? "done" : "shown", answer: found });
    } catch (refused) {
      answered({ kind: "editing", error: refused });
    }
  };
  if (state.kind === "done") {
    return html`<p class="note good" role="status">Written to <code>${form.file}</code>${answer.reloaded ? ", and Stoker has reloaded it" : "; Stoker runs with another file, and has not reloaded it"}.</p>
      <${Code} label=${form.file} text=${answer.diff} />
      <div class="buttons"><a class="button quiet" href=${address("serves", [form.serve])}>To the serve</a><button class="quiet" onClick=${reread}>Change more</button></div>`;
  }
  const count = Object.keys(given).length;
  const matches = (one) => one.name.includes(find.toLowerCase()) || one.description.toLowerCase().includes(find.toLowerCase());
  const groups = [["In the file", form.fields.filter((one) => one.value != null)], ["Not set: the default counts", form.fields.filter((one) => one.value == null)]];
  return html`
    <p>What is empty is not in the file. Nothing changes before you have seen the difference; comments and all other lines of <code>${form.file}</code> stay.${form.inherits && ` What it inherits of ${form.inherits} is not shown.`}</p>
    ${form.elsewhere.length > 0 && html`<p class="small dim">Only in the file: ${form.elsewhere.map((one, index) => html`${index > 0 && ", "}<code>${one}</code>`)}. Keys that name programs, files or other machines, and tables, are changed there.</p>`}
    <input type="search" aria-label="Find a setting" placeholder="Find a setting" value=${find} onInput=${(event) => setFind(event.target.value)} />
    <form class="settings" onSubmit=${send(true)}>
      ${groups.map(([title, fields]) => fields.some(matches) && html`<section key=${title} class="part"><h2>${title}</h2>
        <div class="setting-list">${fields.filter(matches).map((one) => html`<${Setting} key=${one.name} field=${one} value=${one.name in given ? given[one.name] : one.value} isChanged=${one.name in given} set=${set} problem=${problems.find((found) => found.field === one.name)?.message} />`)}</div></section>`)}
      ${error && html`<${Problem} error=${error} />`}
      ${problems.filter((one) => !known.has(one.field)).map((one) => html`<p class="note bad" role="alert">${one.message}</p>`)}
      ${problems.length > 0 && html`<p class="note bad" role="alert">Nothing was written. Not valid: ${list([...new Set(problems.map((one) => one.field ?? "the file"))])}.</p>`}
      ${state.kind === "shown" && problems.length === 0 && html`<section class="part settings-diff"><h2>The difference</h2><${Code} label=${form.file} text=${answer.diff || "Nothing changes."} />
        ${answer.diff && html`<p class="small">If the serve is loaded and its engine has to start anew, it is drained and started again.</p>`}</section>`}
      <div class="buttons">
        ${state.kind === "shown" && problems.length === 0 && answer.diff ? html`<button type="button" onClick=${send(false)}>Write and reload</button>` : html`<button disabled=${!count || state.kind === "asking"}>Show the difference</button>`}
        ${count > 0 && html`<button type="button" class="quiet" onClick=${() => { setGiven({}); setState({ kind: "editing" }); }}>Undo</button>`}</div>
    </form>`;
}

/** null and an empty field are the same; lists by their items. */
function same(one, other) {
  return JSON.stringify(one ?? null) === JSON.stringify(other ?? null);
}

function Setting({ field, value, isChanged, set, problem }) {
  const { name, kind, description, default: usual } = field;
  const id = `setting-${name}`;
  const told = `${id}-about`;
  const common = { id, "aria-describedby": told, "aria-invalid": problem ? "true" : null };
  const hint = usual == null || usual === "" || (Array.isArray(usual) && !usual.length) ? (field.examples ?? []).join(", ") : shown(usual);
  return html`<div class=${`field setting ${isChanged ? "changed" : ""} ${problem ? "wrong" : ""}`}>
    <span class="named"><label for=${id}>${name}</label>${isChanged && html`<span class="tag">changed</span>`}</span>
    ${kind === "boolean" || kind === "choice" ? html`<select ...${common} onChange=${(event) => set(name, read(kind, event.target.value))}>
        <option value="" selected=${value == null}>not set${usual == null ? "" : `: ${shown(usual)}`}</option>
        ${(kind === "boolean" ? ["true", "false"] : field.choices).map((one) => html`<option key=${one} value=${one} selected=${value != null && shown(value) === one}>${one}</option>`)}</select>`
      : html`<input ...${common} type=${kind === "integer" || kind === "number" ? "number" : "text"} step=${kind === "integer" ? "1" : "any"} autocomplete="off" spellcheck="false" placeholder=${hint} value=${value == null ? "" : shown(value)} onChange=${(event) => set(name, read(kind, event.target.value))} />`}
    ${problem && html`<p class="bad-text small" role="alert">${problem}</p>`}
    <p id=${told} class="dim small">${plain(description)}</p></div>`;
}

function shown(value) {
  return Array.isArray(value) ? value.join(", ") : String(value);
}

/** What a field says, as JSON; null: nothing. */
function read(kind, text) {
  const trimmed = text.trim();
  if (!trimmed) return null;
  if (kind === "boolean") return trimmed === "true";
  if (kind === "integer" || kind === "number") return Number(trimmed);
  return kind === "list" ? trimmed.split(",").map((one) => one.trim()).filter(Boolean) : trimmed;
}

/** Words of a description between backticks, as code. */
function plain(text) {
  return text.split("`").map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}
