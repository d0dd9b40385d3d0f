// What a run has done, for looking at: its calls, what they said, its steps and pauses as spans of
// time, and the record itself. Grows with the record; one event costs the same however long it is.
import type { CallStarted, Event, JsonValue, Receipt, TextDelta, TripwireTripped } from "./types.gen";
import type { Status } from "./reduce";

export type CallState = "asking" | "started" | "finished" | "failed" | "cut" | "in_doubt" | "undone" | "denied" | "approved";

export interface CallInfo {
  id: string;
  tool: string;
  effect: CallStarted["effect"] | ""; // empty until it has begun
  title: string;
  why: string;
  args: JsonValue;
  step: number;
  attempts: number;
  state: CallState;
  startedAt: number;
  endedAt: number | null;
  result: JsonValue;
  error: string;
  note: string;
  undo: string;
  progress: { fraction: number; text: string } | null;
  text: string;
  reasoning: string;
  marks: number[]; // where it was stopped as suspicious, in characters as the server counts them
  durable: number; // how much of what it said is in the record; the rest is live and may be lost
  left: number; // characters before `text` that are no longer kept here: the transcript has them
  leftReasoning: number;
  trips: Trip[]; // where it gave its instructions away
}

/** A span that a tripwire has marked; places count characters, not UTF-16 units. */
export type Trip = Pick<TripwireTripped, "channel" | "kind" | "variant" | "start" | "end" | "action" | "held_back" | "open">;

export interface Span {
  kind: "step" | "paused" | "pausing" | "cancelling";
  label: string;
  from: number;
  to: number | null;
}

/** What one tells people when it happens, in the record's order. */
export type Entry = Event;

const MOST_TEXT = 200_000; // characters of all calls together: a page that is open for days must not grow with them

const QUIET = new Set<Event["type"]>(["text_flushed", "call_progress"]);

export class History {
  seq = 0;
  readonly calls = new Map<string, CallInfo>();
  readonly spans: Span[] = [];
  readonly entries: Entry[] = [];
  readonly replies: { at: number; text: string; lines: string[] }[] = [];
  receipt: Receipt | null = null;
  result: JsonValue = undefined as unknown as JsonValue;
  startedAt = 0;
  endedAt: number | null = null;
  lastCall = ""; // the call that spoke last
  private step = 0;
  private characters = 0;
  private status: Status = "queued";

  /** Takes an event in; false if it was known already. */
  add(event: Event): boolean {
    if (event.seq <= this.seq) return false;
    this.seq = event.seq;
    if (!QUIET.has(event.type)) this.entries.push(event);
    this.take(event);
    if ("status" in event) this.enter(event.status, event.at);
    return true;
  }

  /** Live text: shown at once, replaced by what the record says. */
  delta(delta: TextDelta): void {
    this.speak(this.call(delta.call_id), delta.channel, delta.offset, delta.text, placed);
  }

  private take(event: Event): void {
    switch (event.type) {
      case "run_started":
        this.startedAt = event.at;
        return;
      case "run_claimed":
        this.beginStep(event.step, event.at);
        return;
      case "step_finished":
        this.endSpan("step", event.at);
        this.step = event.step + 1;
        this.beginStep(this.step, event.at);
        return;
      case "step_set_back":
        this.endSpan("step", event.at);
        this.beginStep(event.step, event.at);
        return;
      case "rewound":
        this.endSpan("step", event.at);
        this.step = event.to;
        return;
      case "call_started":
        this.started(event);
        return;
      case "call_finished":
        this.end(event.call, event.at, "finished", { result: event.result });
        return;
      case "call_failed":
        this.end(event.call, event.at, "failed", { error: `${event.error}: ${event.message}`, note: event.effect_unknown ? "effect unknown" : "" });
        return;
      case "call_cut":
        this.end(event.call, event.at, "cut", { note: event.why });
        return;
      case "call_in_doubt":
        this.end(event.call, event.at, "in_doubt", { note: event.why });
        return;
      case "call_resolved":
        this.end(event.call, event.at, event.decision === "happened" ? "finished" : "in_doubt", { note: event.decision.replace("_", " "), result: event.result });
        return;
      case "call_progress":
        this.call(event.call).progress = { fraction: event.fraction, text: event.text };
        return;
      case "call_waits":
        this.call(event.call).note = `${event.why}: tries again in ${Math.round(event.seconds)} s`;
        return;
      case "asked": {
        const call = this.call(event.call);
        call.state = "asking";
        call.args = event.args;
        call.startedAt ||= event.at;
        return;
      }
      case "answered":
        this.answered(event);
        return;
      case "undo_ended":
        this.call(event.call).undo = event.outcome;
        return;
      case "text_flushed":
        this.flushed(event);
        return;
      case "output_suspected":
        if (event.call !== null) this.call(event.call).marks.push(event.offset);
        return;
      case "tripwire_tripped": {
        const call = this.call(event.call);
        call.trips = [...call.trips.filter((m) => m.channel !== event.channel || m.start !== event.start), event];
        return;
      }
      case "replied":
        this.replies.push({ at: event.at, text: event.text, lines: event.lines });
        return;
      case "run_cancelled":
        this.receipt = event.receipt;
        return;
      case "run_done":
        this.result = event.result;
        return;
      default:
        return;
    }
  }

  /** What was asked is no longer open, whatever came of it; an approved call begins by itself. */
  private answered(event: Extract<Event, { type: "answered" }>): void {
    const { call, at, answer } = event;
    if (answer === "answered") this.end(call, at, "finished", { result: event.value });
    else if (answer === "approved") this.end(call, at, "approved", {});
    else if (answer === "denied") this.end(call, at, "denied", { note: event.reason });
    else this.end(call, at, "cut", { note: answer.replace("_", " ") });
  }

  private started(event: CallStarted): void {
    const call = this.call(event.call);
    Object.assign(call, {
      tool: event.tool, effect: event.effect, title: event.title, why: event.why, args: event.args, step: this.step,
      state: "started", endedAt: null, attempts: call.attempts + 1, error: "", note: "", trips: [],
      startedAt: event.at,
    });
  }

  private flushed(event: Extract<Event, { type: "text_flushed" }>): void {
    const call = this.call(event.call);
    if (!event.offset) call.trips = call.trips.filter((m) => m.channel !== event.channel); // said anew
    this.speak(call, event.channel, event.offset, event.text, settled);
    if (event.channel === "text") call.durable = event.offset + characters(event.text);
  }

  private speak(call: CallInfo, channel: TextDelta["channel"], offset: number, more: string, how: typeof placed): void {
    if (channel !== "text" && channel !== "reasoning") return;
    const left = channel === "text" ? "left" : "leftReasoning";
    const before = call[channel].length;
    if (offset === 0 && call[left]) {
      call[channel] = ""; // it is said anew
      call[left] = 0;
    }
    if (offset < call[left]) more = more.slice(placeOf(more, call[left] - offset));
    call[channel] = how(call[channel], Math.max(0, offset - call[left]), more);
    if (channel === "text") this.lastCall = call.id;
    this.characters += call[channel].length - before;
    if (this.characters > MOST_TEXT) this.forget(call);
  }

  /** The oldest words go first, those of the call that speaks last of all, and a good deal at once. */
  private forget(speaking: CallInfo): void {
    let much = this.characters - MOST_TEXT * 0.75;
    for (const call of [...[...this.calls.values()].filter((c) => c !== speaking), speaking]) {
      for (const [channel, left] of [["reasoning", "leftReasoning"], ["text", "left"]] as const) {
        let n = Math.min(call[channel].length, Math.ceil(much));
        if (n <= 0) continue;
        if (HIGH.test(call[channel].charAt(n - 1))) n += 1; // no character is cut in two
        call[left] += characters(call[channel].slice(0, n));
        call[channel] = call[channel].slice(n);
        this.characters -= n;
        much -= n;
      }
      if (much <= 0) return;
    }
  }

  private end(id: string, at: number, state: CallState, rest: Partial<CallInfo>): void {
    const call = this.call(id);
    Object.assign(call, rest, { state, endedAt: at, progress: null });
    if (state === "cut" || state === "in_doubt") {
      const kept = call.text.slice(0, placeOf(call.text, Math.max(call.durable - call.left, 0)));
      this.characters -= call.text.length - kept.length;
      call.text = kept;
    }
  }

  private call(id: string): CallInfo {
    let call = this.calls.get(id);
    if (!call) {
      call = {
        id, tool: id.replace(/-[0-9a-f]{6,}$/, ""), effect: "", title: "", why: "", args: null, step: this.step, attempts: 0,
        state: "started", startedAt: 0, endedAt: null, result: null, error: "", note: "", undo: "", progress: null,
        text: "", reasoning: "", marks: [], trips: [], durable: 0, left: 0, leftReasoning: 0,
      };
      this.calls.set(id, call);
    }
    return call;
  }

  private enter(status: Status, at: number): void {
    if (status === this.status) return;
    for (const kind of ["paused", "pausing", "cancelling"] as const) {
      if (this.status === kind) this.endSpan(kind, at);
      if (status === kind) this.spans.push({ kind, label: kind, from: at, to: null });
    }
    if (status !== "running" && status !== "pausing" && status !== "cancelling") this.endSpan("step", at);
    if (status === "cancelled" || status === "done" || status === "failed") this.endedAt = at;
    this.status = status;
  }

  private beginStep(step: number, at: number): void {
    this.step = step;
    this.endSpan("step", at);
    this.spans.push({ kind: "step", label: `step ${step}`, from: at, to: null });
  }

  private endSpan(kind: Span["kind"], at: number): void {
    for (let i = this.spans.length - 1; i >= 0 && i > this.spans.length - 8; i--) {
      const span = this.spans[i]!;
      if (span.kind === kind && span.to === null) span.to = at;
    }
  }
}

const HIGH = /[\uD800-\uDBFF]/; // the first half of a character that takes two places here, and is one for the server
const PAIR = /[\uD800-\uDBFF][\uDC00-\uDFFF]/g;

/** How many characters a text has, as the server counts them. */
export function characters(text: string): number {
  return HIGH.test(text) ? text.length - (text.match(PAIR)?.length ?? 0) : text.length;
}

/** Where a text's n-th character stands; beyond its end for more than it has. */
export function placeOf(text: string, n: number): number {
  if (!HIGH.test(text)) return n;
  let at = 0;
  for (; n > 0 && at < text.length; n--) at += text.codePointAt(at)! > 0xffff ? 2 : 1;
  return at + n;
}

/** `text` with `more` at `offset`; offset 0 begins anew, a gap is left out: the record closes it. */
export function placed(text: string, offset: number, more: string): string {
  if (offset === 0) return more;
  const at = placeOf(text, offset);
  return at > text.length ? text : text.slice(0, at) + more;
}

/** What the record says stands; live text beyond it stays. */
export function settled(text: string, offset: number, more: string): string {
  const at = placeOf(text, offset);
  if (at > text.length) return text + more;
  const ahead = text.startsWith(more, at) ? text.slice(at + more.length) : "";
  return text.slice(0, at) + more + ahead;
}

/** Text in pieces, those that are marked and those that are not. */
export function pieces(text: string, marks: Trip[]): { text: string; mark: Trip | null }[] {
  const letters = Array.from(text);
  const out: { text: string; mark: Trip | null }[] = [];
  let at = 0;
  for (const mark of [...marks].sort((a, b) => a.start - b.start)) {
    const from = Math.max(at, Math.min(mark.start, letters.length));
    const to = Math.max(from, mark.open ? letters.length : Math.min(mark.end, letters.length)); // it goes on until the record says where it ended
    if (from > at) out.push({ text: letters.slice(at, from).join(""), mark: null });
    if (to > from) out.push({ text: letters.slice(from, to).join(""), mark });
    at = to;
  }
  if (at < letters.length) out.push({ text: letters.slice(at).join(""), mark: null });
  return out;
}
