// Which of several choices is drawn as the one to take.
import type { Choice } from "../types.gen";

/** Which choice is offered first to the eye: never the one that lets pass what the run was held for, nor what is lost. */
export function filled(kind: string, choices: readonly (Choice | null)[]): number {
  const lets = ["tripwire", "stale", "diverged"].includes(kind);
  return choices.findIndex((c) => c !== null && c.verb !== "drop" && (!lets || (c.verb !== "resume" && c.verb !== "cancel")));
}
