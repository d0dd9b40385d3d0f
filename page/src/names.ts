// Who did it, in words: the same on every surface. src/standfast/names.py has them too; test/names.json is for both.
// A name is known where a server was shown a token (`by_token` of the record). Elsewhere it is what somebody typed.

/** Who stopped a run; null for what nobody asked for: a tripwire's own stop, as its trigger says. */
export function named(by: string | null, trigger: string): string | null {
  return trigger === "tripwire" && by === trigger ? null : by;
}

/** `by ann`, `claimed by ann`. */
export function byWords(by: string | null, token: string, nobody = "someone"): string {
  return !by ? `by ${nobody}` : token ? `by ${by}` : `claimed by ${by}`;
}

/** `ann`, `ann (claimed)`. */
export function nameWords(by: string | null, token: string, nobody = "someone"): string {
  return !by || by === nobody ? nobody : token ? by : `${by} (claimed)`;
}
