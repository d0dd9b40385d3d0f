// What passes over the socket.
import type { Accepted, Choice, Event, Json, JsonValue, RunView, TextDelta } from "./types.gen";

export interface ToolInfo {
  name: string;
  description?: string;
  effect?: string;
  schema?: Json;
}

export interface AgentInfo {
  name: string;
  description?: string;
  schema?: Json;
  text_field?: string | null;
  plan?: [string, string][];
  redirects?: boolean;
  models?: string[];
  tools?: ToolInfo[];
}

export type Right = "view" | "pause" | "redirect" | "cancel" | "resolve" | "forensics" | "operator";

export interface Me {
  name: string | null;
  rights?: string[];
  runs?: string[] | null; // confined to these and their children
  labels?: { [key: string]: string };
  expires?: number | null;
}

/** A right that was given, without its secret. */
export interface TokenInfo {
  id: string;
  name: string;
  rights: Right[];
  run: string | null;
  made: number;
  by: string | null;
  expires: number | null;
  revoked: number | null;
  /** May this actor revoke it? */
  revocable?: boolean;
}

export interface Problem {
  type?: string;
  title: string;
  status?: number;
  detail?: string;
  hint?: string;
}

export type Answer =
  | ({ answer: "accepted"; run?: RunView } & Partial<Accepted>)
  | { answer: "refused"; why: string; choices: Choice[] }
  | { answer: "too_late"; status: RunView["status"] };

export interface Filter {
  status?: string[];
  agent?: string;
  labels?: { [key: string]: string };
  needs?: boolean;
  text?: string;
  limit?: number;
}

export type Verb =
  | "start" | "fork" | "pause" | "resume" | "step_once" | "redirect" | "message" | "resend" | "drop" | "cancel" | "edit" | "resolve" | "approve"
  | "deny" | "answer" | "abandon" | "return_to" | "rewind" | "take_over" | "hand_back" | "perform" | "force";

/** What somebody's hand was on: recorded by the verbs that stop something. */
export type Hand = "button" | "key";
const STOPPING: readonly Verb[] = ["pause", "redirect", "cancel", "rewind", "take_over"];

export function askedWith(hand: Hand, verb: Verb, args: { [key: string]: JsonValue }): { [key: string]: JsonValue } {
  return STOPPING.includes(verb) ? { ...args, trigger: hand } : args;
}

export type ToServer =
  | { op: "watch"; run: string; after: number }
  | { op: "unwatch"; run: string }
  | { op: "list"; filter: Filter }
  | { op: "verb"; n: number; run?: string; verb: Verb; args: { [key: string]: JsonValue }; request_id: string }
  | { op: "ping"; n: number };

export type FromServer =
  | { op: "hello"; version: string; me: Me; now: number; agents: AgentInfo[]; verbs?: Verb[]; shares?: boolean }
  | { op: "view"; run: string; view: RunView }
  | { op: "event"; run: string; event: Event }
  | { op: "delta"; run: string; delta: TextDelta }
  | { op: "runs"; runs: RunView[] }
  | { op: "answer"; n: number; answer?: Answer; problem?: Problem }
  | { op: "gone"; run: string; why: string }
  | { op: "pong"; n: number; now: number }
  | { op: "bye"; why: string };
