// How fast an answer was written, where its times can tell: the rule of `domain/speed.py`. Pure.

const FEWEST_TOKENS = 5;
/** Seconds after the first token. */
const SHORTEST = 0.05;

/** Tokens per second after the first token; null: too short to tell, or unknown. */
export function perSecond(tokens, seconds) {
  return tokens >= FEWEST_TOKENS && seconds >= SHORTEST ? (tokens - 1) / seconds : null;
}

/** That of a decision. */
export function speedOf({ stream, orchestrated, output_tokens: tokens, ttft, latency }) {
  if (!stream || orchestrated?.policy === "block_by_block" || tokens == null || ttft == null || latency == null) return null;
  return perSecond(tokens, latency - ttft);
}
