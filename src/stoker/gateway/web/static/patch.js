// How the document of /status follows its deltas: a JSON merge patch (RFC 7396) that also reaches into lists by `name`.

/** `old` after `patch`; what did not change is the same object. Pure. */
export function patched(old, patch) {
  if (patch === null || typeof patch !== "object" || Array.isArray(patch)) return patch;
  if (Array.isArray(old)) return old.map((one) => (Object.hasOwn(patch, one.name) ? patched(one, patch[one.name]) : one));
  const result = old !== null && typeof old === "object" ? { ...old } : {};
  for (const [name, change] of Object.entries(patch)) {
    if (change === null) delete result[name];
    else result[name] = patched(result[name], change);
  }
  return result;
}
