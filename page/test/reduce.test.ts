// The reducer against the record of real runs: from nothing but events, it comes to the server's own view.
import { describe, expect, test } from "vitest";
import { emptyView, reduce, times } from "../src/reduce";
import type { Event, RunView } from "../src/types.gen";

interface Fixture {
  events: Event[];
  view: RunView;
}

const found = import.meta.glob<Fixture>("./fixtures/*.json", { eager: true, import: "default" });
const fixtures = Object.entries(found).map(([path, fixture]) => [path.replace(/.*\/|\.json$/g, ""), fixture] as const);

test("there is something to compare with", () => {
  expect(fixtures.length).toBeGreaterThan(10);
});

/** What events tell; the rest (what it waits for, who drives it, its caps, clocks, the steps of a thought planned anew) comes with the server's views. */
function told(view: RunView) {
  return {
    id: view.id, agent: view.agent, status: view.status, holds: [...view.holds].sort(), step: view.step, attempt: view.attempt,
    epoch: view.epoch, seq: view.seq, plan: view.plan, labels: view.labels, parent: view.parent,
    in_flight: view.in_flight.map((c) => [c.id, c.tool, c.effect, c.title]),
    spent: [view.spent.steps, view.spent.calls, view.spent.input_tokens, view.spent.output_tokens, view.spent.cost],
    mail: view.mail.map((m) => [m.id, m.kind, m.text, m.when, m.by, m.status, m.step, m.reason, m.fate]), not_read: view.not_read,
    frames: view.frames.map((f) => [f["id"], f["goal"], f["status"], f["done"], f["kind"], f["mail"]]),
    asked: view.needs.filter((n) => ["approval", "question", "doubt", "unread"].includes(n.kind)).map((n) => [n.id, n.kind, n.call]),
    elapsed: ["done", "cancelled", "failed"].includes(view.status) ? Math.round(view.elapsed * 1000) : null,
  };
}

const all = (events: Event[], from: RunView) => events.reduce(reduce, from);

describe.each(fixtures)("%s", (_, { events, view }) => {
  test("the events alone lead to the server's view", () => {
    expect(told(all(events, emptyView(view.id)))).toEqual(told(view));
  });

  test("an event that comes twice changes nothing", () => {
    const doubled = events.flatMap((e, i) => [e, e, ...events.slice(Math.max(0, i - 3), i)]);
    expect(all(doubled, emptyView(view.id))).toEqual(all(events, emptyView(view.id)));
  });

  test("a reconnect at any place goes on as if nothing had happened", () => {
    const whole = all(events, emptyView(view.id));
    for (let cut = 0; cut <= events.length; cut++) {
      const before = all(events.slice(0, cut), emptyView(view.id));
      expect(all(events.filter((e) => e.seq > before.seq), before)).toEqual(whole);
    }
  });

  test("a view is never changed in place", () => {
    let current = emptyView(view.id);
    for (const event of events) {
      const frozen = JSON.stringify(current);
      const next = reduce(Object.freeze(current), event);
      expect(JSON.stringify(current)).toBe(frozen);
      current = next;
    }
  });
});

test("events that are not known are passed over", () => {
  const view = { ...emptyView("run-1"), status: "running" as const, created_at: 1 };
  const next = reduce(view, { type: "brand_new", seq: 5, at: 3, run: "run-1" } as unknown as Event);
  expect(next.status).toBe("running");
  expect(next.seq).toBe(5);
});

test("time goes on while it is live, and counts as paused while it is held", () => {
  const view = { ...emptyView("run-1"), created_at: 100, elapsed: 10, paused_for: 2, status: "paused" as const };
  expect(times(view, 115)).toEqual({ elapsed: 15, paused: 7 });
  expect(times({ ...view, status: "running" }, 115)).toEqual({ elapsed: 15, paused: 2 });
  expect(times({ ...view, status: "done" }, 500)).toEqual({ elapsed: 10, paused: 2 });
});

test("what the controls would do is not guessed after a change of state", () => {
  const consequences = { pause: "holds it here at once", redirect: "rewrites the next step", cancel: "keeps 1 finished step", no_redirect: "" };
  const view = { ...emptyView("run-1"), status: "running" as const, created_at: 1, consequences };
  const asked = { type: "pause_asked", asked: null, uptime: null, boot: null, seq: 5, at: 3, run: "run-1", by: null, reason: "", in_flight: [], status: "pausing" } as unknown as Event;
  expect(reduce(view, asked).consequences).toEqual({ pause: "", redirect: "", cancel: "", no_redirect: "" });
  const noted = { type: "noted", seq: 5, at: 3, run: "run-1", text: "x", attempt: 0 } as unknown as Event;
  expect(reduce(view, noted).consequences).toEqual(consequences);
});
