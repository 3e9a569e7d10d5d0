// The frame around the pages: sign-in, navigation, the connection's state.
import { computed, effect, html, render, signal, useEffect, useRef, useState } from "./kit.js";
import { link, start as follow, status, trouble, want } from "./live.js";
import { look, mayAct, mayCall, mayLook, signOut, who } from "./session.js";
import { Problem } from "./parts.js";
import { SignIn } from "./sign_in.js";
import { About } from "./about.js";
import { Add } from "./add.js";
import { Content, Kept } from "./content.js";
import { Docs } from "./docs.js";
import { Launch } from "./launch.js";
import { Overview } from "./overview.js";
import { Playground } from "./playground.js";
import { Serves } from "./serves.js";
import { Requests } from "./requests.js";
import { Routing } from "./routing.js";
import { place } from "./place.js";
import { Results } from "./results.js";
import { Keys } from "./keys.js";
import { KeyMaking } from "./key_making.js";
import { hasTools, Tools } from "./tools.js";

const PAGES = [
  { path: "", title: "Overview", show: Overview, topics: ["decisions", "swaps"] },
  { path: "serves", title: "Serves", show: Serves, topics: ["decisions"] },
  { path: "requests", title: "Requests", show: Requests, topics: ["decisions", "requests"] },
  { path: "content", title: "Content", show: Content, topics: ["decisions"], isTab: false, isOffered: () => mayAct.value },
  { path: "routing", title: "Routing", show: Routing, topics: [] },
  { path: "results", title: "Results", show: Results, topics: ["results"], titled: (rest) => (rest.startsWith("compare/") ? "Compare" : rest) },
  { path: "keys", title: "Keys", show: Keys, topics: ["decisions"] },
  { path: "tools", title: "Tools", show: Tools, topics: [], get isTab() { return hasTools(); } },
  { path: "playground", title: "Playground", show: Playground, topics: ["decisions"], isOffered: () => mayCall.value },
  { path: "add", title: "Add a model", show: Add, topics: [], isTab: false, titled: () => "", isOffered: () => mayAct.value },
  { path: "launch", title: "Launch", show: Launch, topics: [], isOffered: () => mayCall.value },
  { path: "about", title: "About", show: About, topics: [] },
  { path: "docs", title: "Documentation", show: Docs, topics: [], isTab: false, guide: null },
];

/** Shown for an address that is of no page. */
const NOWHERE = { path: "", title: "No such page", show: NoSuchPage, topics: [] };

function NoSuchPage() {
  return html`<h1>No such page</h1><p>There is no page <code>${place.value.path}</code> here. <a href="#/">Overview</a></p>`;
}

/** Pages without `isOffered` are for everybody who may look. */
const offered = computed(() => PAGES.filter((one) => one.isOffered?.() ?? true));
const shown = computed(() => {
  const { path } = place.value;
  return offered.value.find((one) => one.path === path) ?? (PAGES.some((one) => one.path === path) ? PAGES[0] : NOWHERE);
});
const broken = signal(null);

const STATES = { connecting: "connecting", live: "live", lost: "no connection" };

function Link() {
  return html`<p class=${`link ${link.value}`} role="status">${STATES[link.value]}</p>`;
}

/** The pages; where they do not fit, the sides on which there are more are marked. */
function Navigation({ page }) {
  const nav = useRef(null);
  const [more, setMore] = useState("");
  const tabs = offered.value.filter((one) => one.isTab ?? true);
  useEffect(() => {
    const box = nav.current;
    const look = () => {
      const { scrollLeft: left, scrollWidth, clientWidth } = box;
      setMore([left > 1 && "before", left + clientWidth < scrollWidth - 1 && "after"].filter(Boolean).join(" "));
    };
    const observer = new ResizeObserver(look);
    observer.observe(box);
    box.addEventListener("scroll", look, { passive: true });
    look();
    return () => observer.disconnect();
  }, [tabs.length]);
  useEffect(() => {  // a tab may come with the first answer, later than its page
    nav.current.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [page.path, tabs.length]);
  return html`<div class="pages" data-more=${more}><nav aria-label="Pages" ref=${nav}>
    ${tabs.map((one) => html`<a href=${`#/${one.path}`} aria-current=${one === page ? "page" : null}>${one.title}</a>`)}</nav></div>`;
}

function Frame() {
  const { rest } = place.value;
  const page = shown.value;
  const main = useRef(null);
  const isFirst = useRef(true);
  useEffect(() => {
    document.title = `${page.titled?.(rest) || rest || page.title} · Stoker`;
    if (!isFirst.current) (document.querySelector("[data-focus]") ?? main.current)?.focus();
    isFirst.current = false;
  }, [page.path, rest]);
  return html`
    <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); main.current.focus(); }}>To the content</a>
    <header class="top">
      <a class="mark" href="#/"><img src="icon.svg" alt="" width="24" height="24" />Stoker</a>
      <${Navigation} page=${page} />
      <div class="side">
        <${Link} />
        ${who.value?.asks_for_keys && html`<button class="quiet" onClick=${leave}>Sign out ${who.value.key}</button>`}
      </div>
    </header>
    <main id="main" tabindex="-1" ref=${main}>
      ${link.value === "lost" && html`<${Lost} />`}
      ${status.value?.draining && html`<p class="note warn">Stoker is draining: it takes no new requests. <code>stoker serves undrain</code> ends that.</p>`}
      <${Kept} />
      ${status.value ? html`<${page.show} rest=${rest} />` : html`<p class="dim">Waiting for the first answer …</p>`}
    </main>
    ${page.guide !== null && html`<footer class="foot small"><a href="#/docs/guides/web-page">About this page</a> <a href="#/docs/">Documentation</a></footer>`}`;
}

function Lost() {
  if (trouble.value) return html`<${Problem} error=${trouble.value} />`;
  return html`<p class="note warn" role="alert">
    <strong>Stoker does not answer.</strong> What you see may be old. It is tried again by itself;
    if Stoker has ended, <code>stoker up</code> starts it.</p>`;
}

function leave() {
  signOut().catch((error) => { broken.value = error; });
}

function App() {
  return html`<${Shown} /><${KeyMaking} />`;
}

function Shown() {
  if (broken.value) return html`<main class="alone"><${Problem} error=${broken.value} /></main>`;
  if (!who.value) return html`<p class="boot">Stoker</p>`;
  if (who.value.needed) return html`<${SignIn} />`;
  if (!mayLook.value) {
    return html`<main class="alone"><h1>Not with this key</h1>
      <p>Key “${who.value.key}” has scope ${who.value.scope}. This page needs <code>observe</code> to look or${" "}
      <code>admin</code> to act.</p><p><code>stoker keys create NAME --scope admin</code> makes such a key.</p>${" "}
      <div class="buttons"><button class="quiet" onClick=${leave}>Sign out ${who.value.key}</button></div></main>`;
  }
  return html`<${Frame} />`;
}

effect(() => want(shown.value.topics));
follow();

async function begin() {
  try {
    await look();
    broken.value = null;
  } catch (error) {
    broken.value = error;
    setTimeout(begin, 2000);
  }
}

render(html`<${App} />`, document.getElementById("app"));
begin();
