// The record in words: what happened, who did it, and whether a person had a hand in it.
import { named, nameWords } from "./names";
import type { Event } from "./types.gen";
import { HANDS, TRIGGER_WORDS, duration, names, whyPaused, type Trigger } from "./words";
import type { Hold } from "./reduce";

export interface Told {
  text: string;
  by: string | null;
  token: string; // that a server was shown for it; empty: `by` is what they called themselves
  person: boolean;
  call?: string;
}

const short = (text: string, most = 90) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const withIts = (trigger: Trigger) => (trigger === "api" ? "" : ` (by ${TRIGGER_WORDS[trigger]})`);
const stillHeld = (holds: string[]) => (holds.length ? `; still held (${whyPaused(holds as Hold[])})` : "");
const because = (reason: string) => (reason ? `: ${reason}` : "");

export function tell(event: Event): Told {
  const it = (text: string, call?: string): Told => ({ text, by: null, token: "", person: false, ...(call ? { call } : {}) });
  const someone = (by: string | null, text: string, call?: string): Told => ({ ...it(text, call), by, token: "by_token" in event ? event.by_token : "", person: true });
  const asked = (by: string | null, trigger: Trigger, text: string, why: string): Told =>
    HANDS.includes(trigger) || named(by, trigger) ? someone(by, text + withIts(trigger) + why) : it(`${TRIGGER_WORDS[trigger]} ${text}${why}`);
  switch (event.type) {
    case "run_started":
      return someone(event.by, `started ${event.agent}${event.forked_from ? `, forked from ${event.forked_from}` : ""}${because(event.reason)}`);
    case "run_claimed":
      return it(event.taken_from ? `taken over from ${event.taken_from}` : `running at step ${event.step}`);
    case "run_released":
      return it(`released${because(event.why)}`);
    case "driver_fenced":
      return it(`driver ${event.driver} was fenced off`);
    case "pause_asked":
      return asked(event.by, event.trigger, "asked for a pause", `${event.in_flight.length ? `; in flight: ${names(event.in_flight)}` : ""}${because(event.reason)}`);
    case "run_halted":
      return someone(event.by, `halted it${event.in_flight.length ? `; in flight: ${names(event.in_flight)}` : ""}${because(event.reason)}`);
    case "run_lifted":
      return someone(event.by, `lifted a halt${stillHeld(event.holds)}${because(event.reason)}`);
    case "run_paused":
      return it(`paused (${whyPaused(event.holds as Hold[])})${because(short(event.text))}`);
    case "resume_asked":
      return someone(event.by, `resumed${event.changed ? `; changed: ${event.changed}` : ""}${because(event.note || event.reason)}`);
    case "run_queued":
      return it(`queued: ${event.why}${stillHeld(event.holds)}`);
    case "cancel_asked":
      return asked(event.by, event.trigger, `asked to cancel (undo: ${event.undo}${event.soft ? ", soft" : ""})`, `${event.in_flight.length ? `; in flight: ${names(event.in_flight)}` : ""}${because(event.reason)}`);
    case "output_suspected":
      return someone(event.by, event.call === null ? "called its output suspicious" : `called the output of ${nameOf(event.call)} suspicious after ${event.offset} characters`, event.call ?? undefined);
    case "run_cancelled":
      return it(`cancelled; ${event.receipt.finished_steps} finished steps kept`);
    case "run_done":
      return it("done");
    case "run_failed":
      return it(`failed: ${event.error}`);
    case "step_finished":
      return it(`step ${event.step} finished`);
    case "step_set_back":
      return it(`step ${event.step} is taken again: ${event.why}`);
    case "step_failed":
      return it(`step ${event.step} failed: ${event.error}`);
    case "noted":
      return it(event.text);
    case "emitted":
      return it(`${event.name} ${short(JSON.stringify(event.data))}`);
    case "plan_changed":
      return it(`plan: ${event.plan.filter((i) => i.status === "done").length} of ${event.plan.length} done`);
    case "left_behind":
      return it(`left behind: ${event.what} (${event.where})`);
    case "call_started":
      return it(`${event.title || event.tool} started`, event.call);
    case "call_finished":
      return it(`${nameOf(event.call)} finished`, event.call);
    case "call_failed":
      return it(`${nameOf(event.call)} failed: ${event.message}${event.effect_unknown ? " (effect unknown)" : ""}`, event.call);
    case "call_cut":
      return it(`${nameOf(event.call)} was cut (${event.outcome.replace(/_/g, " ")})${because(event.why)}`, event.call);
    case "call_in_doubt":
      return it(`${event.tool} is in doubt: ${event.why}`, event.call);
    case "call_resolved":
      return someone(event.by, `settled the doubt about ${nameOf(event.call)}: ${event.decision.replace("_", " ")}${because(event.reason)}`, event.call);
    case "late_result":
      return it(`a late result of ${nameOf(event.call)} was kept out of the run`, event.call);
    case "usage_counted":
      return it(`used ${event.input_tokens + event.output_tokens} tokens`);
    case "call_progress":
      return it(`${nameOf(event.call)}: ${event.text}`, event.call);
    case "call_waits":
      return it(`${nameOf(event.call)} waits ${duration(event.seconds)}: ${event.why}`, event.call);
    case "text_flushed":
      return it(short(event.text), event.call);
    case "tripwire_tripped":
      return it(`${event.kind === "canary" ? "a canary" : "its instructions"} came out in ${nameOf(event.call)}${event.variant === "plain" ? "" : ` (${event.variant})`}, characters ${event.start} to ${event.end}: ${event.action === "flag" ? "marked" : `${event.action}, ${event.held_back} characters held back`}`, event.call);
    case "tripwire_excused":
      return it(`the tripwire let ${event.hits} matches pass in ${nameOf(event.call)}: ${event.why === "user" ? "the user had said them" : "everybody may know them"}`, event.call);
    case "stream_ended":
      return it(`the stream of ${event.tool} had ended: ${event.outcome.replace("_", " ")}`, event.call);
    case "clients_reached":
      return it(`${event.clients.length + event.left_out} clients of ${event.server}: what they had been handed is in the stop record`);
    case "asked":
      return it(`asks (${event.kind}): ${short(event.text)}`, event.call);
    case "answered":
      return event.answer === "withdrawn" || event.answer === "timed_out"
        ? it(`the question was ${event.answer.replace("_", " ")}`, event.call)
        : someone(event.by, `${event.answer} ${nameOf(event.call)}${event.answer === "answered" ? `: ${short(JSON.stringify(event.value))}` : because(event.reason)}`, event.call);
    case "mail_received":
      return someone(event.by, `${event.kind === "redirect" ? "redirected" : event.kind === "message" ? "wrote" : "ordered"}: “${short(event.text)}” (${event.disposition})`);
    case "mail_consumed":
      return it(`mail read at step ${event.step}, applied`);
    case "mail_not_read":
      return it(`redirect not read: ${event.item ? `“${event.item}” (step ${event.step})` : `step ${event.step}`} ended without reading it`);
    case "mail_resent":
      return someone(event.by, `sent a redirect again that was not read (${event.disposition})`);
    case "mail_returned":
      return it(`mail returned: ${event.reason}`);
    case "frame_opened":
      return it(`thought begun: ${event.goal}`);
    case "frame_advanced":
      return it(`thought at ${event.done} of ${event.of}${event.next ? `, next: ${event.next}` : ""}`);
    case "frame_held":
      return it(`on hold: ${event.goal} ${event.at_step}`);
    case "frame_returned":
      return it(event.text);
    case "frame_finished":
      return it(`thought finished: ${event.goal}`);
    case "frame_abandoned":
      return someone(event.by, `abandoned ${event.goal}: ${event.reason}`);
    case "replied":
      return it(`replied: ${short(event.text)}`);
    case "taken_over":
      return someone(event.by, `took the run over${event.in_flight.length ? `; in flight: ${names(event.in_flight)}` : ""}${because(event.reason)}`);
    case "person_acted":
      return someone(event.by, `performed ${event.tool}${event.error ? `: ${event.error}: ${event.message}` : ""}`, event.call);
    case "handed_back":
      return someone(event.by, `handed it back${because(event.note)}`);
    case "state_edited":
      return someone(event.by, `edited the state: ${event.changed}${because(event.reason)}`);
    case "rewind_asked":
      return someone(event.by, `asked to go back to step ${event.to}${because(event.reason)}`);
    case "rewound":
      return it(`back before step ${event.to}`);
    case "forked":
      return someone(event.by, `forked at step ${event.at_step} into ${event.fork}`);
    case "verb_noted":
      return event.by === null
        ? it(`${event.verb.replace(/_/g, " ")}${because(event.text || event.reason)}`)
        : someone(event.by, `${event.verb.replace(/_/g, " ")} was noted${because(event.text || event.reason)}`);
    case "undo_ended":
      return it(`undo of ${event.tool}: ${event.outcome.replace("_", " ")}${because(event.reason)}`, event.call);
    default:
      return it((event as { type: string }).type.replace(/_/g, " "));
  }
}

export function nameOf(call: string): string {
  return call.replace(/-[0-9a-f]{6,}$/, "");
}

/** What a screen reader is told of it; empty for what would only be noise. */
export function announcement(event: Event): string {
  switch (event.type) {
    case "step_finished":
      return `Step ${event.step} finished`;
    case "run_paused":
      return `Paused: ${whyPaused(event.holds as Hold[])}`;
    case "run_halted":
      return `Halted: ${event.reason}`;
    case "run_lifted":
      return event.holds.length ? `A halt is lifted${stillHeld(event.holds)}` : "The halt is lifted";
    case "pause_asked":
      return event.status === "pausing" ? "Pausing" : "Paused";
    case "resume_asked":
      return "Resumed";
    case "cancel_asked":
      return "Cancelling";
    case "run_cancelled":
      return "Cancelled";
    case "run_done":
      return "Done";
    case "run_failed":
      return "Failed";
    case "asked":
      return event.kind === "approval" ? "Asks for approval" : "Asks a question";
    case "call_in_doubt":
      return `${event.tool} is in doubt`;
    case "taken_over":
      return `${nameWords(event.by, event.by_token, "Somebody")} has taken the run over`;
    case "handed_back":
      return "Handed back";
    case "frame_returned":
      return event.text;
    case "mail_consumed":
      return "Your message was read";
    case "mail_not_read":
      return "A redirect was not read";
    default:
      return "";
  }
}
