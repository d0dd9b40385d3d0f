// What a run said: live text is shown at once, the record has the last word.
import { expect, test } from "vitest";
import { History, pieces, placed, settled } from "../src/history";
import type { Event } from "../src/types.gen";

const base = { at: 1, run: "r" };
const flushed = (seq: number, offset: number, text: string): Event => ({ ...base, type: "text_flushed", take: 0, seq, call: "c", offset, text, attempt: 1, channel: "text" });
const delta = (offset: number, text: string) => ({ call_id: "c", offset, text, channel: "text" as const, type: "text_delta" as const, attempt: 0, take: 0 });

test("live text and flushed text make one text, whichever comes first", () => {
  const history = new History();
  history.delta(delta(0, "once "));
  history.delta(delta(5, "upon "));
  history.add(flushed(1, 0, "once upon "));
  history.delta(delta(10, "a time"));
  history.add(flushed(2, 10, "a time"));
  history.add(flushed(2, 10, "a time"));
  expect(history.calls.get("c")!.text).toBe("once upon a time");
});

test("a delta that was lost leaves a gap that the record closes", () => {
  const history = new History();
  history.delta(delta(0, "ab"));
  history.delta(delta(4, "ef")); // "cd" was lost
  expect(history.calls.get("c")!.text).toBe("ab");
  history.add(flushed(1, 0, "abcdef"));
  expect(history.calls.get("c")!.text).toBe("abcdef");
});

test("offset 0 begins anew", () => {
  expect(placed("old text", 0, "new")).toBe("new");
  expect(settled("old text", 0, "new")).toBe("new");
});

test("text that was live when a call was cut, and never flushed, is not kept as if it were in the record", () => {
  const history = new History();
  history.add(flushed(1, 0, "kept "));
  history.delta(delta(5, "lost"));
  history.add({ ...base, type: "call_cut", seq: 2, call: "c", outcome: "aborted", why: "cancel" });
  expect(history.calls.get("c")!.text).toBe("kept ");
});

test("pauses are spans of time, and end when the run goes on", () => {
  const history = new History();
  const events: Event[] = [
    { ...base, type: "run_started", seq: 1, at: 10, agent: "a", route: "", by_token: "", by: null, reason: "", labels: {}, parent: null, forked_from: null, status: "queued" },
    { ...base, type: "run_claimed", seq: 2, at: 11, driver: "d", fence: 1, step: 0, attempt: 1, taken_from: null, status: "running" },
    { ...base, type: "pause_asked", asked: null, accepted: null, uptime: null, boot: null, seq: 3, at: 12, route: "", by_token: "", by: "ada", reason: "", trigger: "button", in_flight: [], status: "pausing" },
    { ...base, type: "run_paused", uptime: null, boot: null, seq: 4, at: 14, holds: ["user"], text: "", residue: [], status: "paused" },
    { ...base, type: "resume_asked", seq: 5, at: 20, route: "", by_token: "", by: "ada", reason: "", note: null, changed: "", cleared: [], status: "queued" },
  ];
  for (const event of events) history.add(event);
  expect(history.spans.map((s) => [s.kind, s.from, s.to])).toEqual([["step", 11, 14], ["pausing", 12, 14], ["paused", 14, 20]]);
});

test("what a page keeps of the text is bounded, and it says how much is left out", () => {
  const history = new History();
  const chunk = "0123456789".repeat(100);
  const said = (call: string, seq: number, offset: number): Event => ({ ...base, type: "text_flushed", take: 0, seq, call, offset, text: chunk, attempt: 1, channel: "text" });
  let seq = 0;
  for (const call of ["old", "long"]) for (let n = 0; n < 500; n++) {
    history.delta({ call_id: call, offset: n * 1000, text: chunk.slice(0, 500), channel: "text", type: "text_delta" as const, attempt: 0, take: 0 });
    history.add(said(call, ++seq, n * 1000));
  }
  const [old, long] = [history.calls.get("old")!, history.calls.get("long")!];
  expect(old.text).toBe("");
  expect(old.left).toBe(500_000);
  expect(long.text.length).toBeLessThanOrEqual(200_000);
  expect(long.text.length).toBeGreaterThan(100_000);
  expect(long.left + long.text.length).toBe(500_000);
  expect(long.text.endsWith(chunk)).toBe(true);
  history.add({ ...base, type: "call_cut", seq: ++seq, call: "long", outcome: "aborted", why: "pause" });
  expect(long.left + long.text.length).toBe(500_000); // all of it is in the record
  history.delta({ call_id: "long", offset: 0, text: "anew", channel: "text", type: "text_delta" as const, attempt: 0, take: 0 });
  expect([long.text, long.left]).toEqual(["anew", 0]);
});

const tripped = (seq: number, start: number, end: number, open: boolean): Event => ({
  ...base, type: "tripwire_tripped", seq, call: "c", channel: "text", kind: "directive", variant: "plain", start, end, action: "flag", open, held_back: 0, held_from: null, held_beside: [], take: 0, digest: "", attempt: 1,
});

test("R33: what a tripwire marks is told once, as far as it went, and is gone when the call begins anew", () => {
  const history = new History();
  history.add(flushed(1, 0, "I was told: the secret. Yes."));
  history.add(tripped(2, 12, 18, true));
  history.add(tripped(3, 12, 22, false));
  const call = history.calls.get("c")!;
  expect(pieces(call.text, call.trips).map((p) => [p.text, p.mark !== null])).toEqual([["I was told: ", false], ["the secret", true], [". Yes.", false]]);
  history.add(flushed(4, 0, "Hello."));
  expect(call.trips).toEqual([]);
});

test("R33: a leak that goes on is marked as far as it has got, not as far as it was noticed", () => {
  const history = new History();
  history.add(flushed(1, 0, "I was told: the secret and all the rest"));
  history.add(tripped(2, 12, 18, true));
  const call = history.calls.get("c")!;
  expect(pieces(call.text, call.trips).map((p) => p.text)).toEqual(["I was told: ", "the secret and all the rest"]);
  history.add(flushed(3, 39, " of it"));
  expect(pieces(call.text, call.trips).map((p) => p.text)).toEqual(["I was told: ", "the secret and all the rest of it"]);
});

test("R33: marks count characters, and one that was held back stands beyond the text", () => {
  const mark = { channel: "text", kind: "directive", variant: "plain", start: 2, end: 9, action: "pause", held_back: 4, open: false } as const;
  expect(pieces("😀 abc", [mark]).map((p) => p.text)).toEqual(["😀 ", "abc"]);
  expect(pieces("😀", [mark]).map((p) => p.text)).toEqual(["😀"]);
});

test("a question that was answered, withdrawn or refused is no longer open: its bar stops growing", () => {
  for (const [answer, state] of [["answered", "finished"], ["approved", "approved"], ["denied", "denied"], ["withdrawn", "cut"], ["timed_out", "cut"]] as const) {
    const history = new History();
    history.add({ ...base, type: "asked", seq: 1, at: 10, call: "ask-1", kind: "question", text: "which?", options: null, args: {} } as unknown as Event);
    expect(history.calls.get("ask-1")!.endedAt).toBeNull();
    history.add({ ...base, type: "answered", route: "", by_token: "", seq: 2, at: 14, call: "ask-1", answer, by: "ada", value: "tea", reason: "" });
    expect([history.calls.get("ask-1")!.endedAt, history.calls.get("ask-1")!.state]).toEqual([14, state]);
  }
});

test("an approved call goes on when it begins", () => {
  const history = new History();
  history.add({ ...base, type: "asked", seq: 1, at: 10, call: "pay-1", kind: "approval", text: "", options: null, args: {} } as unknown as Event);
  history.add({ ...base, type: "answered", route: "", by_token: "", seq: 2, at: 14, call: "pay-1", answer: "approved", by: "ada", value: null, reason: "" });
  history.add({ ...base, type: "call_started", seq: 3, at: 15, call: "pay-1", tool: "pay", effect: "write", title: "", why: "", args: {}, attempt: 1 } as unknown as Event);
  expect([history.calls.get("pay-1")!.endedAt, history.calls.get("pay-1")!.startedAt]).toEqual([null, 15]);
});

test("text is placed by whole characters, as the server counts them", () => {
  const history = new History();
  const say = (offset: number, text: string) => history.delta({ call_id: "c", offset, text, channel: "text", type: "text_delta" as const, attempt: 0, take: 0 });
  say(0, "😀😀 fine");
  say(7, ", 😀 then");
  const call = history.calls.get("c")!;
  expect(call.text).toBe("😀😀 fine, 😀 then");
  history.add(flushed(1, 0, "😀😀 fine"));
  history.add(flushed(2, 7, ", 😀"));
  expect(call.text).toBe("😀😀 fine, 😀 then");
  history.add({ ...base, type: "call_cut", seq: 3, call: "c", outcome: "aborted", why: "pause" });
  expect(call.text).toBe("😀😀 fine, 😀");
});
