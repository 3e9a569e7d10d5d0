// The lines that start each coding agent with a model. A key's value is in them only if it was made on this page just now.
import { html, useEffect, useState } from "./kit.js";
import { useAnswer } from "./answer.js";
import { base } from "./api.js";
import { Code } from "./code_block.js";
import { number } from "./format.js";
import { MakeKey } from "./key_making.js";
import { serves } from "./live.js";
import { look, ModelChoice } from "./model_list.js";
import { Problem } from "./parts.js";
import { address } from "./place.js";
import { mayAct } from "./session.js";

export function Launch({ rest }) {
  const [made, setMade] = useState("");
  useEffect(() => {
    let isOver = false;
    look(() => isOver);
    return () => { isOver = true; };
  }, [serves.value.length]);
  const asked = new URLSearchParams({ address: base.href, ...(rest && { model: rest }) });
  const [found, problem] = useAnswer(`admin/launch?${asked}`, serves.value.length);
  const choose = (model) => { location.hash = address("launch", [model]); };
  return html`
    <div class="head"><h1>Launch</h1></div>
    <p>One line starts a coding agent with a model of this Stoker. The agent's own files stay as they are.</p>
    <div class="one"><${ModelChoice} id="launch-model" label="Model" dialect="chat" value=${rest || found?.model || ""} choose=${choose} /></div>
    ${problem && html`<${Problem} error=${problem} />`}
    ${found && !problem && html`
      ${found.problem && html`<p class="note bad">${found.problem}</p>`}
      ${found.key.needed && html`<${Key} variable=${found.key.variable} made=${made} setMade=${setMade} />`}
      <ul class="agents">${inOrder(found.agents).map((one) => html`<${Agent} key=${one.agent} agent=${one} context=${found.context} before=${made && `export ${found.key.variable}=${made}\n`} />`)}</ul>`}`;
}

/** The installed ones first. */
function inOrder(agents) {
  return [...agents.filter((one) => one.installed), ...agents.filter((one) => !one.installed)];
}

function Key({ variable, made, setMade }) {
  if (made) return html`<p class="note good" role="status">The new key is in the lines below, until you leave this page.</p>`;
  return html`<div class="note with-button"><span>Stoker asks for a key: each line takes it from <code>$${variable}</code>. ${mayAct.value ? "Or make one now, to have it in the lines." : ""}</span>
    ${mayAct.value && html`<${MakeKey} apps=${[]} done=${setMade} />`}</div>`;
}

function Agent({ agent, context, before }) {
  const { title, installed, install, tried, command, shortage, small_model: small, context_needed: needed } = agent;
  return html`<li>
    <div class="head"><h2>${title}</h2><span class=${`outcome ${installed ? "good" : "open"}`}><span aria-hidden="true">${installed ? "✓" : "–"}</span> ${installed ? "installed" : "not installed"}</span></div>
    <${Code} label="On the machine of Stoker" text=${before + command} />
    ${!installed && html`<${Code} label="To install it" text=${install} />`}
    ${shortage && html`<p class="note warn">${shortage}. To try it all the same, add <code>--anyway</code>.</p>`}
    <p class="dim small">${contextOf(needed, context, shortage)}${small && ` · small requests go to ${small}`}${tried && ` · tried with ${tried}`}</p>
    <details><summary>On another machine, without Stoker</summary>
      ${agent.blocks.map(({ format, where, text }) => html`<${Code} key=${where} label=${where || "In a shell"} text=${format === "shell" ? before + text : text} />`)}</details></li>`;
}

function contextOf(needed, context, shortage) {
  if (needed == null) return "How much context it needs is not known";
  const needs = `Needs a context of ${number(needed)} tokens`;
  if (shortage) return needs;
  return context == null ? `${needs}; that of the model is not known` : `${needs}; the model has ${number(context)}`;
}
