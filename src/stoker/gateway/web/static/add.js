// Adding a model, by the road of `stoker add`: name it, choose among what is offered, watch it come, use it.
import { Code } from "./code_block.js";
import { bytes, number, upper } from "./format.js";
import { html, useState } from "./kit.js";
import { begin, Checks, JobProgress, JobState, jobsOf, Notes, OVER, useJob } from "./jobs.js";
import { status } from "./live.js";
import { Ago, Problem } from "./parts.js";
import { address } from "./place.js";

export function Add({ rest }) {
  if (!rest) return html`<${Asking} />`;
  return html`<${One} key=${rest} id=${rest} />`;
}

function go(job) {
  location.hash = address("add", [job.id]);
}

function Asking() {
  return html`<div class="head"><h1>Add a model</h1></div>
    <p>Stoker fetches a model, adds it to <code>stoker.toml</code> and checks that it answers.</p>
    <${Model} />
    <${Before} />`;
}

function Model({ given = "" }) {
  const [model, setModel] = useState(given);
  const [slot, setSlot] = useState("");
  const [error, setError] = useState(null);
  const slots = status.value.slots.map((one) => one.name);
  const look = (event) => {
    event.preventDefault();
    begin({ kind: "look", model: model.trim(), ...(slot && { slot }) }).then(go, setError);
  };
  return html`<form class="asking" onSubmit=${look}>
      <div class="field"><label for="add-model">Model</label>
        <input id="add-model" required maxlength="1000" autocomplete="off" spellcheck="false" placeholder="hf:ORG/REPO" aria-describedby="add-forms" value=${model} onInput=${(event) => setModel(event.target.value)} /></div>
      ${slots.length > 1 && html`<div class="field"><label for="add-slot">Slot</label>
        <select id="add-slot" onChange=${(event) => setSlot(event.target.value)}><option value="">chosen by Stoker</option>${slots.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}</select></div>`}
      <button>Look</button>
    </form>
    <p id="add-forms" class="dim small">A repository of the hub (<code>hf:ORG/REPO</code>, <code>hf:ORG/REPO:QUANT</code>, or its page's address), <code>https://HOST/FILE.gguf</code>, a path on Stoker's machine, or a model of another program there (<code>ollama:NAME</code>, <code>lmstudio:NAME</code>).</p>
    ${error && html`<${Problem} error=${error} />`}`;
}

function Before() {
  const jobs = jobsOf("add");
  if (!jobs.length) return null;
  return html`<section class="part"><h2>Begun here</h2>
    <ul class="jobs">${jobs.map((one) => html`<li key=${one.id}><a href=${address("add", [one.id])}>${one.subject}</a> <${JobState} of=${one.state} /> <span class="dim small"><${Ago} at=${one.ended ?? one.at} /></span></li>`)}</ul></section>`;
}

function One({ id }) {
  const [job, error] = useJob(id);
  const crumb = html`<p class="crumb"><a href="#/add">Add a model</a></p>`;
  if (!job) return html`${crumb}<div class="head"><h1>Add a model</h1></div>${error ? html`<${Problem} error=${error} />` : html`<p class="dim">Asking …</p>`}`;
  return html`${crumb}<div class="head"><h1>${job.subject}</h1>${job.kind === "add" && html`<${JobState} of=${job.state} />`}</div>
    ${!OVER.includes(job.state) ? html`<${JobProgress} job=${job} kept=${job.kind === "add" ? "What was fetched is kept if you cancel." : ""} />`
      : job.kind === "look" ? html`<${Offer} job=${job} />` : html`<${Ended} job=${job} />`}`;
}

/** What there is to choose from. */
function Offer({ job }) {
  const { result, error, request } = job;
  if (result?.already) {
    return html`<p class="note good">It is there already: serve <a href=${address("serves", [result.name])}>${result.name}</a> of <code>${result.config}</code>.</p><${Use} name=${result.name} next=${result.next} />`;
  }
  const models = result?.models?.length ? result.models : result?.chosen ? [{ ...result.chosen, add: request.model }] : [];
  return html`${error && html`<${Problem} error=${error} />`}
    ${!error && !result && html`<p class="note warn">The look was cancelled.</p>`}
    ${models.length > 0 && html`<${Choosing} models=${models} result=${result} request=${request} />`}
    ${(error || !result) && html`<${Model} given=${request.model} />`}`;
}

function Choosing({ models, result, request }) {
  const proposed = models.find((one) => one.file === result.chosen?.file);
  const [file, choose] = useState(proposed?.file ?? "");
  const [name, setName] = useState("");
  const [check, setCheck] = useState(true);
  const [error, setError] = useState(null);
  const chosen = models.find((one) => one.file === file);
  const mayRun = (one) => one.verdict !== "does not fit" && (one.context != null || models.length === 1);
  const add = (event) => {
    event.preventDefault();
    const slot = result.slot ?? request.slot;
    begin({ kind: "add", model: chosen.add, ...(slot && { slot }), ...(name.trim() && { name: name.trim() }), check }).then(go, (refused) => {
      const running = refused.code === "already_running" && jobsOf("add").find((one) => !OVER.includes(one.state) && one.subject === chosen.add);
      if (running) go(running);
      else setError(refused);
    });
  };
  return html`<form onSubmit=${add}>
    <fieldset class="offers"><legend class="hidden">Which one</legend>
      ${models.map((one) => html`<label key=${one.file} class=${`offer ${one.file === file ? "chosen" : ""}`}>
        <input type="radio" name="offer" value=${one.file} checked=${one.file === file} disabled=${!mayRun(one)} onChange=${() => choose(one.file)} />
        <span class="what"><b>${one.file}</b>${one === proposed && models.length > 1 && html` <span class="tag">proposed</span>`}<span class="dim small">${[one.precision, one.size ? bytes(one.size) : null].filter(Boolean).join(" · ")}</span></span>
        <span class="fit"><${Verdict} of=${one} /><span class="dim small">${[one.context != null && `${number(one.context)} tokens of context`, one.speed && `about ${number(Math.round(one.speed.tokens_per_second))} tokens/s`].filter(Boolean).join(" · ")}</span>
          ${one.problem && html`<span class="small">${upper(one.problem)}</span>`}</span>
        <${FitBar} memory=${one.memory} /></label>`)}
    </fieldset>
    <${Legend} models=${models} slot=${result.slot} />
    ${result.shares_slot_with?.length > 0 && html`<p class="small">In slot ${result.slot} one model is loaded at a time: when it loads, ${result.shares_slot_with.join(" or ")} makes room.</p>`}
    <div class="asking"><div class="field"><label for="add-name">Name</label><input id="add-name" maxlength="64" autocomplete="off" placeholder=${chosen === proposed ? result.name ?? "" : "from the file's name"} value=${name} onInput=${(event) => setName(event.target.value)} /></div>
      <label class="sure"><input type="checkbox" checked=${check} onChange=${(event) => setCheck(event.target.checked)} /> <span>Load it at the end, and check that it answers</span></label></div>
    ${error && html`<${Problem} error=${error} />`}
    <div class="buttons"><button disabled=${!chosen}>Add</button><a class="button quiet" href="#/add">Another model</a></div>
  </form>`;
}

const SIGNS = { fits: ["✓", "good"], "does not fit": ["✕", "bad"], unknown: ["?", "open"] };

function Verdict({ of: { verdict } }) {
  const [sign, kind] = SIGNS[verdict] ?? ["◐", "good"];
  return html`<span class=${`outcome ${kind}`}><span aria-hidden="true">${sign}</span> ${verdict}</span>`;
}

/** What of the slot's memory it takes: weights, context, the rest. */
function FitBar({ memory }) {
  if (!memory?.room) return html`<span class="fitbar none" />`;
  const { weights, cache, overhead, room } = memory;
  const taken = weights + cache + overhead;
  const width = (value) => ({ width: `${(100 * value) / Math.max(room, taken)}%` });
  const words = `${bytes(taken)} of ${bytes(room)}: weights ${bytes(weights)}, context ${bytes(cache)}, engine ${bytes(overhead)}`;
  return html`<span class="fitbar"><span class=${`track ${taken > room ? "over" : ""}`} role="img" aria-label=${words} title=${words}><i class="weights" style=${width(weights)} /><i class="cache" style=${width(cache)} /><i class="rest" style=${width(overhead)} /></span>
    <span class="small dim">${bytes(taken)} of ${bytes(room)}</span></span>`;
}

function Legend({ models, slot }) {
  if (!models.some((one) => one.memory?.room)) return null;
  return html`<p class="small dim fit-legend"><span><i class="weights" /> weights</span><span><i class="cache" /> context</span><span><i class="rest" /> engine</span><span>of the memory of ${slot ? `slot ${slot}` : "the slot"}</span></p>`;
}

/** A job that is over: what came of it, and what to do next. */
function Ended({ job }) {
  const { result, error, state, request, notes } = job;
  const [refused, setRefused] = useState(null);
  const again = () => { begin(request).then(go, setRefused); };
  const checked = result?.preflight;
  return html`
    ${result && html`<p class="note good">${result.already ? "It was there already: " : "Added: "}serve <a href=${address("serves", [result.name])}>${result.name}</a> of <code>${result.config}</code>${result.reloaded ? ", and Stoker has reloaded it" : ""}.</p>`}
    ${error && html`<${Problem} error=${error} />`}
    ${!result && state === "cancelled" && html`<p class="note warn">It was cancelled. What was fetched is kept.</p>`}
    ${!result && html`<div class="buttons"><button onClick=${again}>${state === "failed" ? "Try again" : "Go on"}</button><a class="button quiet" href="#/add">Another model</a></div>`}
    ${refused && html`<${Problem} error=${refused} />`}
    ${checked && html`<section class="part"><h2>${checked.outcome === "passed" ? "It answers" : checked.outcome === "interrupted" ? "The check was cancelled" : "It was checked"}</h2>${checked.error ? html`<p class="note bad">${checked.error.message}</p>` : html`<${Checks} checks=${checked.checks} />`}</section>`}
    ${result && !checked && request.check && !result.already && html`<p class="note warn">It was not checked.${notes.length > 0 && ` ${upper(notes.at(-1).replace(/^stoker: /, ""))}`}</p>`}
    ${result?.next && html`<${Use} name=${result.name} next=${result.next} />`}
    ${result?.diff && html`<section class="part"><h2>What changed in the file</h2><${Code} label=${result.config} text=${result.diff} /></section>`}
    <${Notes} lines=${notes} />`;
}

function Use({ name, next }) {
  return html`<section class="part"><h2>Use it</h2><${Code} label="On the machine of Stoker" text=${next} />
    <p class="small"><a href=${address("launch", [name])}>Start a coding agent with it</a> · <a href=${address("playground", [name])}>Try it in the playground</a></p></section>`;
}
