// A page of the documentation, made ready for `#/docs/`. Pure.

const FENCE = /^\s*(```|~~~)/;
const LINK = /(!?)\[([^\]]*)\]\(([^)\s]+)\)/g;

/**
 * `{ title, text }` of the Markdown of page `name`, such as `guides/share`: links lead to `#/docs/` below `here`, the
 * page's own address; those to files that are no pages become plain words, pictures and comments nothing.
 */
export function prepared(markdown, name, here) {
  let isCode = false;
  let title = "";
  const lines = [];
  for (const line of markdown.replaceAll(/^<!--.*?-->\n?/gms, "").split("\n")) {
    if (FENCE.test(line)) isCode = !isCode;
    if (!title && !isCode && line.startsWith("# ")) title = line.slice(2).replaceAll("`", "");
    else lines.push(isCode ? line : line.replaceAll(LINK, (whole, picture, words, to) => (picture ? "" : linked(words, to, name, here))));
  }
  return { title: title || name, text: lines.join("\n") };
}

function linked(words, to, name, here) {
  if (/^[a-z]+:/i.test(to)) return `[${words}](${to})`;
  const { pathname, hash } = new URL(to, `http://x/docs/${name}`);
  const page = pathname.match(/^\/docs\/(.*)\.md$/)?.[1] ?? (to.startsWith("#") ? name : null);
  return page == null ? words : `[${words}](${here}#${addressOf(page, hash.slice(1))})`;
}

function addressOf(page, section) {
  return `/docs/${page === "README" ? "" : page}${section ? `?at=${encodeURIComponent(section)}` : ""}`;
}

/** The anchor of a heading, as GitHub spells it. */
export function anchor(heading) {
  return heading.toLowerCase().replaceAll(/[^\p{L}\p{N}_\- ]/gu, "").replaceAll(" ", "-");
}
