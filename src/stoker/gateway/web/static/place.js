// Where the address points: `#/PAGE/NAME?field=value`.
import { signal } from "./kit.js";

/** `{ path: "serves", rest: "NAME", query: { field: "value" } }` */
export const place = signal(read());

function read() {
  const [where, query = ""] = split(location.hash.replace(/^#\/?/, ""), "?");
  const [path = "", ...rest] = where.split("/");
  return { path, rest: rest.map(decoded).join("/"), query: Object.fromEntries(new URLSearchParams(query)) };
}

function split(text, sign) {
  const at = text.indexOf(sign);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** `rest`: names, each of which may hold any character. Fields of `query` that are empty are left out. */
export function address(path, rest = [], query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "" && value != null);
  const asked = new URLSearchParams(given).toString();
  return `#/${[path, ...rest.map(encodeURIComponent)].join("/")}${asked ? `?${asked}` : ""}`;
}

/** Change the query of the address, without a step in the browser's history. */
export function setQuery(query) {
  const { path, rest } = place.peek();
  show(path, rest ? [rest] : [], query);
}

/** Go to an address, without a step in the browser's history. */
export function show(path, rest, query) {
  history.replaceState(null, "", address(path, rest, query));
  place.value = read();
}

addEventListener("hashchange", () => { place.value = read(); });
