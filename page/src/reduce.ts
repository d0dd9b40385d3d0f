// The view after an event: pure, typed, the same in every client. What no event tells (what a
// run waits for, its driver, its budget after a resume, what the controls would do) comes with the
// server's own views.
import { byWords, nameWords } from "./names";
import type { CallRef, Event, Json, JsonValue, MailView, Need, PlanItem, RunView } from "./types.gen";

export type Status = RunView["status"];
export type Hold = RunView["holds"][number];

export const ENDED: readonly Status[] = ["cancelled", "done", "failed"];
export const IN_TRANSIT: readonly Status[] = ["pausing", "cancelling"];

const ENDED_UNREAD = "ended without reading it";

export function hasEnded(view: RunView): boolean {
  return ENDED.includes(view.status);
}

/** A run of which nothing is known yet but its id. */
export function emptyView(id: string): RunView {
  return {
    id, agent: "", status: "queued", holds: [], waiting_for: "", step: 0, attempt: 0, epoch: 0, seq: 0, plan: [],
    elapsed: 0, paused_for: 0, created_at: 0,
    budget: { steps: null, calls: null, tokens: null, cost: null, seconds: null, repeats: null, then: null },
    spent: { steps: 0, calls: 0, input_tokens: 0, output_tokens: 0, cost: 0, seconds: 0 },
    frames: [], held_tokens: 0, mail: [], needs: [], in_flight: [], labels: {}, parent: null, changed: "", error: "",
    traceback: "", driver: "", taken_by: "", taken_route: "", taken_token: "", not_read: [], child_needs: {}, consequences: UNTOLD,
  };
}

/** What the controls would do after a change of state is for the server to say. */
const UNTOLD: RunView["consequences"] = { pause: "", redirect: "", cancel: "", no_redirect: "" };

/** Elapsed and paused time of a run at `now`, both in seconds. */
export function times(view: RunView, now: number): { elapsed: number; paused: number } {
  if (!view.created_at || hasEnded(view)) return { elapsed: view.elapsed, paused: view.paused_for };
  const passed = Math.max(0, now - view.created_at - view.elapsed);
  return { elapsed: view.elapsed + passed, paused: view.paused_for + (view.status === "paused" ? passed : 0) };
}

/** The view after `event`. An event the view has seen already changes nothing. */
export function reduce(view: RunView, event: Event): RunView {
  if (event.seq <= view.seq) return view;
  const next = { ...timed(view, event.at), ...change(view, event), seq: event.seq };
  return next.status === view.status ? next : { ...next, consequences: UNTOLD };
}

/** Times as of `at`: what passes while a run is held counts as paused. */
function timed(view: RunView, at: number): RunView {
  if (!view.created_at || ENDED.includes(view.status)) return view;
  const elapsed = Math.max(view.elapsed, at - view.created_at);
  const passed = elapsed - view.elapsed;
  return { ...view, elapsed, paused_for: view.paused_for + (view.status === "paused" ? passed : 0) };
}

function change(view: RunView, event: Event): Partial<RunView> {
  switch (event.type) {
    case "run_started":
      return { agent: event.agent, status: event.status, labels: event.labels, parent: event.parent, created_at: event.at };
    case "run_claimed":
      return {
        status: view.status === "queued" ? event.status : view.status, step: event.step, attempt: event.attempt,
        driver: event.driver, holds: view.status === "queued" ? [] : view.holds,
        changed: view.status === "queued" ? "" : view.changed,
      };
    case "run_released":
      return { status: event.status, driver: "", in_flight: [], waiting_for: "" };
    case "pause_asked":
      return { status: event.status, holds: event.status === "paused" ? withHold(view.holds, "user") : view.holds };
    case "run_halted":
      return { status: event.status, holds: withHold(view.holds, "halted"), ...(event.status === "paused" ? { waiting_for: `halted: ${event.reason} (${byWords(event.by, event.by_token, "somebody")})` } : {}) };
    case "run_lifted":
      return { holds: event.holds as Hold[] };
    case "run_paused":
      return {
        status: "paused", holds: event.holds as Hold[], in_flight: [], driver: "", waiting_for: event.text,
        needs: event.holds.includes("in_doubt") ? view.needs : view.needs.filter((n) => n.kind !== "doubt"), // asked on resume
      };
    case "resume_asked":
      return {
        status: event.status, changed: "", error: "", traceback: "",
        ...(event.status === "queued" ? released(view, view.holds.filter((h) => !event.cleared.includes(h))) : {}),
      };
    case "run_queued":
      return { status: event.status, ...released(view, event.holds as Hold[]) };
    case "cancel_asked":
      return { status: event.status, holds: [], needs: view.needs.filter((n) => n.kind === "doubt"), waiting_for: "" };
    case "run_cancelled":
    case "run_done":
      return { ...ended(view), status: event.status };
    case "run_failed":
      return { ...ended(view), status: event.status, error: event.error, traceback: event.traceback };
    case "step_finished":
      return {
        step: event.step + 1, attempt: event.attempt + 1, changed: "",
        spent: { ...view.spent, steps: view.spent.steps + 1 },
      };
    case "step_set_back":
      return { attempt: Math.max(view.attempt, event.attempt) };
    case "step_failed":
      return { error: event.error, traceback: event.traceback };
    case "plan_changed":
      return { plan: event.plan };
    case "call_started":
      return {
        in_flight: [...without(view.in_flight, event.call), flying(view, event)],
        needs: view.needs.filter((n) => n.id !== event.call),
        spent: { ...view.spent, calls: view.spent.calls + 1 },
      };
    case "call_finished":
    case "call_failed":
    case "call_cut":
      return { in_flight: without(view.in_flight, event.call) };
    case "call_in_doubt":
      return { in_flight: without(view.in_flight, event.call), needs: addNeed(view.needs, doubt(event)) };
    case "call_resolved":
      return settle(view, event.call, "in_doubt", "doubt");
    case "usage_counted":
      return {
        spent: {
          ...view.spent, input_tokens: view.spent.input_tokens + event.input_tokens, calls: view.spent.calls + event.calls,
          output_tokens: view.spent.output_tokens + event.output_tokens, cost: view.spent.cost + event.cost,
        },
      };
    case "asked":
      return { needs: addNeed(view.needs, asked(event)) };
    case "answered":
      return settle(view, event.call, "asks", "approval", "question");
    case "mail_received":
      return { mail: [...view.mail.filter((m) => m.id !== event.mail), mail(event)], attempt: interrupts(view, event) };
    case "mail_consumed":
      return withMail(view, event.mail, { status: "consumed", step: event.step, fate: "applied", disposition: `read at step ${event.step}, applied` });
    case "mail_not_read": {
      const words = `not read: ${event.item ? `“${event.item}” (step ${event.step})` : `step ${event.step}`} ${ENDED_UNREAD}`;
      const next = withMail(view, event.mail, { step: event.step, fate: "not_read", disposition: words });
      const letter = next.mail?.find((m) => m.id === event.mail);
      return letter ? { ...next, needs: addNeed(view.needs, unread(letter, event.at)) } : next;
    }
    case "mail_resent":
      return withMail(view, event.mail, { when: "next", step: null, fate: "sent", disposition: event.disposition });
    case "mail_returned":
      return withMail(view, event.mail, { status: "returned", reason: event.reason, ...returned(view.mail.find((m) => m.id === event.mail), event.reason) });
    case "frame_opened":
      return { frames: [...view.frames, frame(event)] };
    case "frame_advanced":
      return { frames: changed(view.frames, event.frame, { done: event.done, next: event.next, returned: "", reconstructed: "", ...noted(event.note) }) };
    case "frame_held":
      return { frames: changed(view.frames, event.frame, { status: "held", place: event.at_step, held_at: event.at }) };
    case "frame_returned":
      return { frames: onTop(changed(view.frames, event.frame, { status: "active", returned: event.text, reconstructed: event.why }), event.frame) };
    case "frame_finished":
    case "frame_abandoned":
      return { frames: view.frames.filter((f) => f["id"] !== event.frame) };
    case "taken_over":
      return {
        status: event.status, taken_by: event.by || "somebody", taken_route: event.route, taken_token: event.by_token,
        holds: event.status === "paused" ? withHold(view.holds, "taken") : view.holds,
      };
    case "handed_back":
      return { taken_by: "", taken_route: "", taken_token: "", holds: view.holds.filter((h) => h !== "taken") };
    case "state_edited":
      return { changed: [view.changed, event.changed].filter(Boolean).join("; ") };
    case "rewind_asked":
      return { status: event.status, epoch: event.epoch, needs: [], attempt: view.attempt + 1 };
    case "rewound":
      return { step: event.to, attempt: view.attempt + 1, in_flight: [], plan: before(view.plan, event.to) };
    default:
      return {};
  }
}

function ended(view: RunView): Partial<RunView> {
  return {
    holds: [], in_flight: [], frames: [], waiting_for: "", driver: "", taken_by: "", taken_route: "", taken_token: "",
    needs: view.needs.filter((n) => n.kind === "doubt"), not_read: notRead(view.mail, true), child_needs: {},
  };
}

/** It goes on; `holds` still hold the agent while a person performs something. */
function released(view: RunView, holds: Hold[]): Partial<RunView> {
  return { holds, waiting_for: "", needs: view.needs.filter((n) => n.kind === "approval" || n.kind === "question" || n.kind === "unread") };
}

function settle(view: RunView, call: string, hold: Hold, ...kinds: Need["kind"][]): Partial<RunView> {
  const needs = view.needs.filter((n) => n.id !== call);
  const open = needs.some((n) => kinds.includes(n.kind));
  return { needs, holds: open ? view.holds : view.holds.filter((h) => h !== hold) };
}

function interrupts(view: RunView, event: Extract<Event, { type: "mail_received" }>): number {
  const waits = event.kind === "message" && /^(held|later)/.test(event.disposition);
  const now = event.when === "now" && view.status === "running" && event.kind !== "order" && !waits;
  return now && !event.disposition.includes("is taken next with it") ? view.attempt + 1 : view.attempt;
}

function withHold(holds: Hold[], hold: Hold): Hold[] {
  return holds.includes(hold) ? holds : [...holds, hold];
}

function without(calls: CallRef[], id: string): CallRef[] {
  return calls.filter((c) => c.id !== id);
}

function flying(view: RunView, event: Extract<Event, { type: "call_started" }>): CallRef {
  return { id: event.call, tool: event.tool, effect: event.effect, since: event.at, title: event.title, run: view.id };
}

function addNeed(needs: Need[], need: Need): Need[] {
  return [...needs.filter((n) => n.id !== need.id), need];
}

function doubt(event: Extract<Event, { type: "call_in_doubt" }>): Need {
  return { id: event.call, kind: "doubt", text: `Did ${event.tool} happen? ${event.why}`, call: event.call, since: event.at, choices: [], about: "" };
}

function asked(event: Extract<Event, { type: "asked" }>): Need {
  const id = { call_id: event.call };
  const approval: JsonValue[] = [
    { verb: "approve", args: id, label: "let it pass" },
    { verb: "approve", args: { ...id, args: event.args }, label: "let it pass with these arguments (change them)" },
    { verb: "deny", args: { ...id, reason: "" }, label: "refuse it" },
  ];
  const choices = event.kind === "approval" ? approval : Array.isArray(event.options) ? event.options : [];
  const tool = event.call.replace(/-[0-9a-f]{24}$/, "");
  const about = event.kind === "approval" ? `${tool}(${JSON.stringify(event.args)})` : "";
  return { id: event.call, kind: event.kind, text: event.text, call: event.call, since: event.at, choices, about };
}

function mail(event: Extract<Event, { type: "mail_received" }>): MailView {
  return {
    id: event.mail, kind: event.kind, text: event.text, when: event.when, by: event.by, at: event.at, status: "pending",
    step: null, reason: "", disposition: event.disposition, fate: "sent", route: event.route, by_token: event.by_token,
  };
}

/** What has become of a piece of mail; whether it still needs somebody, and the lines about what nobody has read, follow. */
function withMail(view: RunView, id: string, now: Partial<MailView>): Partial<RunView> {
  const mail = view.mail.map((m) => (m.id === id ? { ...m, ...now } : m));
  return { mail, needs: view.needs.filter((n) => n.id !== id), not_read: notRead(mail, hasEnded(view)) };
}

function notRead(mail: MailView[], over: boolean): string[] {
  return mail.filter((m) => m.fate === "not_read").map((m) => `redirect ${quoted(m)} ${m.disposition}${over ? "; fork the run to have it done" : ""}`);
}

/** A redirect that no step has read before the run ended is not read, whoever ended it; one that a person dropped is returned. */
function returned(mail: MailView | undefined, reason: string): Partial<MailView> {
  if (mail?.kind !== "redirect" || reason.startsWith("dropped by ")) return { fate: "returned", step: null, disposition: `returned: ${reason}` };
  if (mail.fate === "not_read") return {};
  return reason === ENDED_UNREAD ? { fate: "not_read", disposition: `not read: the run ${ENDED_UNREAD}` } : { fate: "returned", disposition: `returned: ${reason}` };
}

function unread(mail: MailView, since: number): Need {
  const choices: JsonValue[] = [
    { verb: "resend", args: { mail: mail.id }, label: "send it again, to the next step" },
    { verb: "drop", args: { mail: mail.id }, label: "drop it" },
  ];
  return { id: mail.id, kind: "unread", text: `${quoted(mail)} ${mail.disposition}`, call: null, since, choices, about: "" };
}

function quoted(mail: MailView): string {
  const text = mail.text.split(/\s+/).filter(Boolean).join(" ");
  return `“${text.length <= 80 ? text : `${text.slice(0, 79)}…`}”${mail.by ? ` from ${nameWords(mail.by, mail.by_token)}` : ""}`;
}

function frame(event: Extract<Event, { type: "frame_opened" }>): Json {
  return {
    id: event.frame, goal: event.goal, steps: event.steps, done: 0, next: event.steps[0] ?? null, status: "active",
    kind: event.kind, mail: event.mail, place: "", age: 0, held_for: null, expires_at: null, expired: false, tokens: 0,
    note: "", returned: "", reconstructed: "", ordered: "", opened_at: event.at,
  };
}

/** The plan as it was before a step. */
function before(plan: PlanItem[], step: number): PlanItem[] {
  return plan.map((i) => (i.step === null || i.step < step ? i : { ...i, status: "queued", step: null }));
}

function noted(note: string): Json {
  return note ? { note } : {};
}

function changed(frames: Json[], id: string, now: Json): Json[] {
  return frames.map((f) => (f["id"] === id ? { ...f, ...now } : f));
}

/** The active frame is the last one. */
function onTop(frames: Json[], id: string): Json[] {
  return [...frames.filter((f) => f["id"] !== id), ...frames.filter((f) => f["id"] === id)];
}
