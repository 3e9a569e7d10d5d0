// What a GET answers, for a page that shows it.
import { useEffect, useState } from "./kit.js";
import { ask, Refused } from "./api.js";

/** `[answer, error]` of GET `path`, asked again when `again` changes; meanwhile the last answer stays. No path: nothing. */
export function useAnswer(path, again = 0) {
  const [found, setFound] = useState([null, null]);
  useEffect(() => {
    if (path == null) return undefined;
    const aborter = new AbortController();
    ask(path, { signal: aborter.signal }).then((answer) => setFound([answer, null])).catch((error) => {
      if (error instanceof Refused) setFound(([answer]) => [answer, error]);
    });
    return () => aborter.abort();
  }, [path, again]);
  return found;
}
