// What the whole page shares: the client, where we are, the theme, the clock.
import { effect, signal, type Signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { Client, VerbProblem, useClient, type WatchedRun } from "../client";
import { parseRoute, type Route } from "../routes";
import type { JsonValue } from "../types.gen";
import { askedWith, type Answer, type Problem, type Verb } from "../wire";
import { outcomeWords, unsentWords } from "../words";

export const client = new Client({ session: async () => (await fetch("api/me")).status !== 401 });
useClient(client);

export const changes: Signal<number> = signal(0); // of the client: connection, runs
client.subscribe(() => changes.value++);

export const seconds: Signal<number> = signal(Date.now());
setInterval(() => (seconds.value = Date.now()), 1000);

export interface Notice {
  text: string;
  tone: "plain" | "no";
  over?: (() => boolean) | undefined;
}
export const notice: Signal<Notice | null> = signal(null);
export const spoken: Signal<string> = signal(""); // what the one status region says

const NOTICE = 10_000; // ms; what went wrong stays until it is dismissed

/** `over` says when there is nothing to wait for any more: the notice goes then. */
export function say(text: string, tone: Notice["tone"] = "plain", over?: () => boolean): void {
  const said: Notice = { text, tone, over };
  notice.value = said;
  spoken.value = text;
  if (tone === "plain") setTimeout(() => notice.value === said && (notice.value = null), NOTICE);
}

/** Ask for something and tell the person what came of it; `blamed` may show a problem where it belongs. */
export async function act(
  run: string | null, verb: Verb, args: { [key: string]: JsonValue } = {}, blamed: (problem: Problem) => boolean = () => false,
): Promise<Answer | null> {
  try {
    if (client.lostAt !== null) say(unsentWords(verb));
    const answer = await client.verb(run, verb, askedWith("button", verb, args));
    if (answer.answer === "accepted") {
      const words = outcomeWords(verb, args, answer.note ?? "");
      if (words) say(words, "plain", readBy(run, answer.mail));
      else notice.value = null;
    } else if (answer.answer === "too_late") say(`Too late: already ${answer.status}.`, "no");
    else say(`Refused: ${answer.why}`, "no");
    return answer;
  } catch (error) {
    if (error instanceof VerbProblem && blamed(error.problem)) {
      notice.value = null;
      return null;
    }
    const hint = error instanceof VerbProblem ? error.problem.hint : "";
    say([error instanceof Error ? error.message : String(error), hint].filter(Boolean).join(" · "), "no");
    return null;
  }
}

/** Has this mail been read or returned? Known once it was seen in the run. */
function readBy(run: string | null, mail: string | null | undefined): (() => boolean) | undefined {
  if (run === null || !mail) return undefined;
  let seen = false;
  return () => {
    const found = client.viewOf(run)?.mail.find((m) => m.id === mail);
    seen ||= found !== undefined;
    return seen && found?.status !== "pending";
  };
}

export function accepted(answer: Answer | null): boolean {
  return answer?.answer === "accepted";
}

/** GET something of the REST API. */
export async function get<T>(path: string): Promise<T> {
  const response = await fetch(`api/${path}`, { headers: { accept: "application/json" } });
  const body: unknown = await response.json().catch(() => null);
  if (!response.ok) throw new VerbProblem((body as { title: string } | null) ?? { title: `the server answered ${response.status}` });
  return body as T;
}

// A component is drawn again when a signal it has read changes: `drawn` with everything the run on
// the page says, at most once a frame; `told` only with its views and events.
export const drawn: Signal<number> = signal(0);
export const told: Signal<number> = signal(0);

effect(() => {
  void told.value;
  void changes.value;
  if (notice.value?.over?.()) notice.value = null;
});

/** The run of the page. */
export function useRun(id: string): WatchedRun {
  void told.value;
  const [run, setRun] = useState(() => client.watch(id));
  useEffect(() => {
    const watched = run.id === id ? run : client.watch(id);
    if (watched !== run) setRun(watched);
    let frame = 0;
    const draw = () => {
      frame = 0;
      drawn.value = watched.version;
      told.value = watched.tellings;
    };
    const off = watched.subscribe(() => {
      frame ||= document.hidden ? window.setTimeout(draw, 250) : requestAnimationFrame(draw);
    });
    draw();
    return () => {
      off();
      client.unwatch(id);
    };
  }, [id]);
  return run;
}

// --- where we are ------------------------------------------------------------------------------

export const route: Signal<Route> = signal(parseRoute(location.hash));
addEventListener("hashchange", () => {
  const before = route.value;
  route.value = parseRoute(location.hash);
  notice.value = null;
  if (before.page !== route.value.page || before.run !== route.value.run) spoken.value = ""; // it was about another page
});

export const to = {
  list: () => "#/",
  start: () => "#/new",
  run: (id: string) => `#/runs/${encodeURIComponent(id)}`,
  step: (id: string, step: number) => `#/runs/${encodeURIComponent(id)}/steps/${step}`,
  call: (id: string, call: string) => `#/runs/${encodeURIComponent(id)}/calls/${encodeURIComponent(call)}`,
};

// --- dark and light ------------------------------------------------------------------------------

export type Theme = "auto" | "light" | "dark";
export const theme: Signal<Theme> = signal(stored<Theme>("theme", "auto"));
theme.subscribe((chosen) => {
  if (chosen === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = chosen;
  keep("theme", chosen);
});

export function stored<T>(name: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(`standfast.${name}`);
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise; // storage may be forbidden: the page works without
  }
}

export function keep(name: string, value: unknown): void {
  try {
    localStorage.setItem(`standfast.${name}`, JSON.stringify(value));
  } catch {
    // as above
  }
}
