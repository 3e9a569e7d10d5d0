import { html, useEffect, useState } from "./kit.js";

/** A block of code with a button that copies it. */
export function Code({ text, language = "", label = "Code", copy = text }) {
  return html`<figure class="code"><figcaption><span class="dim">${language || label}</span><${Copy} text=${copy} /></figcaption>
    <pre tabindex="0" role="group" aria-label=${language ? `${label}: ${language}` : label}><code>${text}</code></pre></figure>`;
}

export function Copy({ text, what = "" }) {
  const [said, say] = useState("Copy");
  useEffect(() => {
    if (said === "Copy") return undefined;
    const timer = setTimeout(() => say("Copy"), 2000);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = () => navigator.clipboard?.writeText(text).then(() => say("Copied"), () => say("Not allowed by the browser"));
  return html`<button type="button" class="quiet tiny" onClick=${copy}>${said}<span class="hidden">${what && ` ${what}`}</span></button>`;
}
