// What people read: the word for each state, what becomes of what they sent. What each control would do now
// is in the view: the server tells it from the ledger.
import { hasEnded, times, type Hold, type Status } from "./reduce";
import type { CallRef, Json, MailView, Receipt, RunView } from "./types.gen";

export type Trigger = Receipt["trigger"];

/** What set a stop off. */
export const TRIGGER_WORDS: Record<Trigger, string> = {
  api: "a program", button: "a button", key: "a key", terminal: "a typed command", operator: "an operator’s halt",
  parent: "the run above it", deadline: "its deadline", budget: "its budget", tripwire: "a tripwire", run: "the run itself",
};
/** Those that are a person’s, or a program’s in their name. */
export const HANDS: readonly Trigger[] = ["api", "button", "key", "terminal"];

/** With a capital letter. */
export function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export const STATE_WORDS: Record<Status, string> = {
  queued: "Queued", running: "Running", pausing: "Pausing", paused: "Paused", cancelling: "Cancelling",
  cancelled: "Cancelled", done: "Done", failed: "Failed",
};

/** A shape for each state, drawn in a square of 16: no two are alike, with or without colour. */
export const STATE_SHAPES: Record<Status, string> = {
  queued: "M8 2.2a5.8 5.8 0 1 0 0 11.6A5.8 5.8 0 0 0 8 2.2Zm0 1.8a4 4 0 1 1 0 8 4 4 0 0 1 0-8Z",
  running: "M4 2.2v11.6L14 8Z",
  pausing: "M3 2h4v12H3Zm1.5 1.5v9h1v-9ZM9 2h4v12H9Zm1.5 1.5v9h1v-9Z",
  paused: "M3 2h4v12H3ZM9 2h4v12H9Z",
  cancelling: "M2.5 2.5h11v11h-11ZM4.3 4.3v7.4h7.4V4.3Z",
  cancelled: "M2.5 2.5h11v11h-11Z",
  done: "M6.2 13.2 1.6 8.6l1.7-1.7 2.9 2.9 6.5-6.6 1.7 1.7Z",
  failed: "M8 .8 15.6 14.6H.4ZM7.1 5.4v4.4h1.8V5.4Zm0 5.5v1.8h1.8v-1.8Z",
};

export const HOLD_WORDS: Record<Hold, string> = {
  user: "by a person", budget: "budget reached", loop: "repeats itself", asks: "asks you", waiting: "waits for mail",
  in_doubt: "in doubt", stale: "the world changed", diverged: "took another path", error: "an error",
  tripwire: "tripwire", halted: "halted by an operator", taken: "taken over",
};

/** Why a run is paused, in a few words. */
export function whyPaused(holds: readonly Hold[]): string {
  return holds.map((h) => HOLD_WORDS[h] ?? String(h).replace(/_/g, " ")).join(", ");
}

/** Is it about a child run that has left a redirect unread? */
export function isUnread(childNeeds: string): boolean {
  return childNeeds.includes("a redirect was not read");
}

export function names(calls: readonly CallRef[]): string {
  return [...new Set(calls.map((c) => c.title || c.tool))].join(", ");
}

/** What the run is doing: the message it answers, else the item of the plan that runs, and the calls in flight. */
export function doing(view: RunView): string {
  const top = view.frames.at(-1);
  const item = view.plan.find((i) => i.status === "running");
  const what = top && top["status"] === "active" && top["mail"] ? `answers “${shortened(String(top["goal"]))}”` : item?.title;
  return [what, names(view.in_flight)].filter(Boolean).join(" · ");
}

/** When a redirect that was not read yet applies. */
export function redirectWaits(mail: MailView): string {
  return mail.disposition === "now" ? "now: the step is taken again with it" : mail.disposition || "at the next reading";
}

/** What came of something that was asked for, as a whole sentence; empty if there is nothing to say. */
export function outcomeWords(verb: string, args: Json, note: string): string {
  if (!note) return "";
  if (verb !== "message" && verb !== "redirect") return note;
  const what = verb === "message" ? "Message" : "Redirect";
  const when = note === "now" ? "is read now" : note === "after this step" ? "will be read after this step" : note.startsWith("read ") ? `will be ${note}` : note;
  return `${what} “${shortened(String(args["text"] ?? ""))}”: ${when}`;
}

/** A verb that waits for the connection. */
export function unsentWords(verb: string): string {
  const word = verb.replace(/_/g, " ");
  return `${word.charAt(0).toUpperCase()}${word.slice(1)}: no connection; it is sent as soon as there is one again.`;
}

export function shortened(text: string, most = 60): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
}

/** What force stop would kill. */
export function forceWords(view: RunView): string {
  const flying = view.in_flight.length ? `kills ${names(view.in_flight)}` : "kills what is left";
  return view.driver ? `${flying} and its worker (other runs of it recover)` : flying;
}

/** Where in the plan it is: "3/7"; empty without a plan. */
export function planPosition(view: RunView): string {
  const items = view.plan.filter((i) => i.status !== "dropped");
  if (!items.length) return "";
  const done = items.filter((i) => i.status === "done").length;
  const running = items.some((i) => i.status === "running");
  return `${Math.min(items.length, done + (running && !hasEnded(view) ? 1 : 0))}/${items.length}`;
}

export interface Meter {
  label: string;
  used: string;
  fraction: number;
}

/** The cap that is nearest. */
export function meter(view: RunView, now: number): Meter | null {
  const { budget, spent } = view;
  const running = times(view, now);
  const all: [string, number, number | null, (n: number) => string][] = [
    ["steps", spent.steps, budget.steps, String],
    ["calls", spent.calls, budget.calls, String],
    ["tokens", spent.input_tokens + spent.output_tokens, budget.tokens, thousands],
    ["cost", spent.cost, budget.cost, money],
    ["time", Math.max(spent.seconds, view.status === "running" ? Math.min(running.elapsed - running.paused, spent.seconds + 60) : 0), budget.seconds, duration],
  ];
  let nearest: Meter | null = null;
  for (const [label, used, cap, show] of all) {
    if (cap === null || cap <= 0) continue;
    const fraction = Math.min(1, used / cap);
    if (!nearest || fraction > nearest.fraction) nearest = { label, used: `${show(used)} of ${show(cap)}`, fraction };
  }
  return nearest;
}

export function thousands(n: number): string {
  return n < 10_000 ? String(Math.round(n)) : n < 1e6 ? `${(n / 1000).toFixed(n < 1e5 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`;
}

export function money(n: number): string {
  return n === 0 ? "$0" : n < 0.01 ? `$${n.toFixed(4)}` : `$${n.toFixed(2)}`;
}

/** 4.2 s, 1:07, 2:03:09. */
export function clock(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  const two = (n: number) => String(n).padStart(2, "0");
  const h = Math.floor(s / 3600);
  return h ? `${h}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}` : `${Math.floor(s / 60)}:${two(s % 60)}`;
}

export function duration(seconds: number): string {
  if (seconds < 0.0995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`;
}
