// Words, keys, patches, forms, Markdown: everything the page decides without a browser.
import { describe, expect, test } from "vitest";
import { Drafts } from "../src/drafts";
import { filterOf } from "../src/filter";
import { DEFAULT_KEYS, Twice, actionOf, isField, keyOf, rekey } from "../src/keys";
import { PlainIfBroken, blocks, inline } from "../src/markdown";
import { mergePatch } from "../src/patch";
import { emptyView } from "../src/reduce";
import { faultOf, fieldsOf, read } from "../src/schema";
import { parseRoute } from "../src/routes";
import { announcement, tell } from "../src/telling";
import names from "./names.json";
import positions from "./plan_positions.json";
import { byWords, nameWords } from "../src/names";
import { filled } from "../src/app/safe";
import type { CallRef, Choice, Event, Json, JsonValue, PlanItem, RunView } from "../src/types.gen";
import { STATE_SHAPES, STATE_WORDS, clock, doing, meter, outcomeWords, planPosition, redirectWaits, unsentWords } from "../src/words";

const view = (part: Partial<RunView>): RunView => ({ ...emptyView("run-1"), ...part });
const call = (tool: string, effect: CallRef["effect"]): CallRef => ({ id: `${tool}-1`, tool, effect, since: 0, title: "", run: "" });

describe("words that fit the live state", () => {
  test("no two states have the same word or the same shape", () => {
    expect(new Set(Object.values(STATE_WORDS)).size).toBe(8);
    expect(new Set(Object.values(STATE_SHAPES)).size).toBe(8);
  });

  test("while a message is answered, that is what it does, and no item of the plan that is only queued", () => {
    const plan = [{ id: "a", title: "Group them", status: "queued" as const, step: null, was: "", redirects: true }];
    const frames = [{ goal: "Sort", status: "held", mail: null }, { goal: "How far are you?", status: "active", mail: "mail-1" }];
    expect(doing(view({ status: "running", plan, frames, in_flight: [call("model", "read")] }))).toBe("answers “How far are you?” · model");
    expect(doing(view({ status: "running", plan }))).toBe("");
    expect(doing(view({ status: "running", plan: [{ ...plan[0]!, status: "running" }] }))).toBe("Group them");
  });

  test("what became of a message is a whole sentence", () => {
    expect(outcomeWords("message", { text: "xyz" }, "after this step")).toBe("Message “xyz”: will be read after this step");
    expect(outcomeWords("message", { text: "xyz" }, "read when the run is resumed")).toBe("Message “xyz”: will be read when the run is resumed");
    expect(outcomeWords("message", { text: "xyz" }, "now")).toBe("Message “xyz”: is read now");
    expect(outcomeWords("message", { text: "xyz" }, "waiting for pay")).toBe("Message “xyz”: waiting for pay");
    expect(outcomeWords("edit", {}, "")).toBe("");
  });

  test("a redirect says when it applies, and what waits for the connection says so", () => {
    const mail = { id: "m", kind: "redirect" as const, text: "t", when: "now", by: null, at: 0, status: "pending" as const, step: null, reason: "", fate: "sent" as const, route: "", by_token: "" };
    expect(redirectWaits({ ...mail, disposition: "now" })).toBe("now: the step is taken again with it");
    expect(redirectWaits({ ...mail, disposition: "from step 3" })).toBe("from step 3");
    expect(unsentWords("step_once")).toContain("Step once: no connection");
  });

  test.each(names)("names are called claimed as on the command line: $what", (one) => {
    expect(byWords(one.by, one.by_token)).toBe(one.by_words);
    expect(nameWords(one.by, one.by_token)).toBe(one.name_words);
  });

  test.each(positions)("the plan's place is counted as on the command line: $what", ({ status, plan, position }) => {
    const items = (plan as PlanItem["status"][]).map((s, n) => ({ id: `${n}`, title: "", status: s, step: null, was: "", redirects: true }));
    expect(planPosition(view({ status: status as RunView["status"], plan: items }))).toBe(position);
  });

  test("the plan's place counts the item in progress, and not what was dropped", () => {
    const item = (status: "done" | "running" | "queued" | "dropped") => ({ id: status, title: "", status, step: null, was: "", redirects: true });
    expect(planPosition(view({ status: "running", plan: [item("done"), item("running"), item("dropped"), item("queued")] }))).toBe("2/3");
    expect(planPosition(view({ status: "cancelled", plan: [item("done"), item("running")] }))).toBe("1/2");
    expect(planPosition(view({}))).toBe("");
  });

  test("the meter shows the cap that is nearest", () => {
    const budget = { ...emptyView("").budget, steps: 10, cost: 1 };
    const spent = { ...emptyView("").spent, steps: 2, cost: 0.5 };
    expect(meter(view({ budget, spent }), 0)).toEqual({ label: "cost", used: "$0.50 of $1.00", fraction: 0.5 });
    expect(meter(view({}), 0)).toBeNull();
  });

  test("elapsed reads as a clock", () => {
    expect([0, 67, 7389].map(clock)).toEqual(["0:00", "1:07", "2:03:09"]);
  });
});

test("R33: the filled button is never the one that lets pass what a run was held for", () => {
  const choice = (verb: string): Choice => ({ verb, args: {}, label: "" });
  expect(filled("tripwire", ["resume", "redirect", "cancel"].map(choice))).toBe(1);
  expect(filled("stale", ["resume", "rewind", "cancel"].map(choice))).toBe(1);
  expect(filled("diverged", ["resume", "rewind", "cancel"].map(choice))).toBe(1);
  expect(filled("budget", ["resume", "cancel"].map(choice))).toBe(0);
  expect(filled("tripwire", ["resume", "cancel"].map(choice))).toBe(-1);
  expect(filled("unread", ["resend", "drop"].map(choice))).toBe(0);
  expect(filled("unread", ["drop"].map(choice))).toBe(-1);
});

describe("keys", () => {
  const press = (key: string) => ({ key, ctrlKey: false, altKey: false, metaKey: false });

  test("they count outside fields only, and without other keys held", () => {
    expect(actionOf(press("p"), DEFAULT_KEYS, false)).toBe("pause");
    expect(actionOf(press("P"), DEFAULT_KEYS, false)).toBe("pause");
    expect(actionOf(press("p"), DEFAULT_KEYS, true)).toBeNull();
    expect(actionOf({ ...press("r"), ctrlKey: true }, DEFAULT_KEYS, false)).toBeNull();
    expect(actionOf({ ...press("x"), repeat: true }, DEFAULT_KEYS, false)).toBeNull(); // held down: not pressed again
    expect(isField([{ tagName: "TEXTAREA" } as unknown as EventTarget])).toBe(true);
    expect(isField([{ tagName: "BUTTON" } as unknown as EventTarget])).toBe(false);
  });

  test("what is typed into a field of one key takes the place of the one it had", () => {
    expect(keyOf("pq", "q")).toBe("q"); // behind it
    expect(keyOf("qp", "q")).toBe("q"); // before it
    expect(keyOf("", null)).toBe(""); // emptied
    expect(keyOf("q", null)).toBe("q"); // put there by something that does not say what it typed
    expect(keyOf("p ", " ")).toBe(""); // a space presses buttons
  });

  test("cancel wants two presses within a moment", () => {
    const twice = new Twice();
    expect(twice.press(1000)).toBe(false);
    expect(twice.press(3000)).toBe(false); // too late: this is a first one again
    expect(twice.press(3500)).toBe(true);
    expect(twice.press(3600)).toBe(false);
    twice.disarm();
    expect(twice.press(3700)).toBe(false);
  });

  test("a key given to another action is swapped, never shared", () => {
    expect(rekey(DEFAULT_KEYS, "pause", "x")).toEqual({ ...DEFAULT_KEYS, pause: "x", cancel: "p" });
    expect(actionOf(press(""), rekey(DEFAULT_KEYS, "pause", ""), false)).toBeNull();
  });
});

describe("JSON Merge Patch", () => {
  const applied = (target: JsonValue, patch: JsonValue): JsonValue => {
    if (typeof patch !== "object" || patch === null || Array.isArray(patch)) return patch;
    const out: Json = typeof target === "object" && target !== null && !Array.isArray(target) ? { ...target } : {};
    for (const [key, value] of Object.entries(patch)) {
      if (value === null) delete out[key];
      else out[key] = applied(out[key] ?? null, value);
    }
    return out;
  };

  test("the patch turns one document into the other, and says no more than that", () => {
    const before = { a: 1, b: { c: [1, 2], d: "x" }, gone: true };
    const after = { a: 1, b: { c: [1], d: "x" }, more: { e: {} } };
    const patch = mergePatch(before, after);
    expect(patch).toEqual({ gone: null, b: { c: [1] }, more: { e: {} } });
    expect(applied(before, patch)).toEqual(after);
    expect(mergePatch(before, before)).toEqual({});
  });

  test("any document becomes any other", () => {
    let seed = 7;
    const random = (n: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
    const value = (depth: number): JsonValue => {
      const kind = random(depth > 2 ? 3 : 5);
      if (kind === 0) return random(5);
      if (kind === 1) return `s${random(3)}`;
      if (kind === 2) return random(2) === 0;
      if (kind === 3) return Array.from({ length: random(3) }, () => value(depth + 1));
      return doc(depth + 1);
    };
    const doc = (depth: number): Json => Object.fromEntries(Array.from({ length: random(4) }, () => [`k${random(4)}`, value(depth)]));
    for (let i = 0; i < 500; i++) {
      const [before, after] = [doc(0), doc(0)];
      expect(applied(before, mergePatch(before, after))).toEqual(after);
    }
  });
});

describe("a form from a schema", () => {
  const schema: Json = {
    properties: {
      month: { type: "string", title: "Month" }, to: { type: "integer", default: 3 }, names: { type: "array", items: { type: "string" } },
      kind: { enum: ["a", "b"] }, deep: { type: "object" }, on: { type: "boolean", default: true }, maybe: { anyOf: [{ type: "number" }, { type: "null" }] },
      other: { $ref: "#/$defs/Other" },
    },
    required: ["month"], $defs: { Other: { enum: ["x", "y"] } },
  };

  test("each field has the input that fits", () => {
    expect(fieldsOf(schema).map((f) => [f.name, f.kind, f.required, f.initial])).toEqual([
      ["month", "text", true, ""], ["to", "integer", false, "3"], ["names", "lines", false, ""], ["kind", "choice", false, ""],
      ["deep", "json", false, ""], ["on", "boolean", false, "true"], ["maybe", "number", false, ""], ["other", "choice", false, ""],
    ]);
  });

  test("what was typed is read as what the schema wants, or the person is told", () => {
    const field = (name: string) => fieldsOf(schema).find((f) => f.name === name)!;
    expect(read(field("month"), "")).toEqual({ problem: "Month is needed" });
    expect(read(field("to"), "4")).toEqual({ value: 4 });
    expect(read(field("to"), "4.5").problem).toContain("whole number");
    expect(read(field("names"), "Ann\n Bob \n")).toEqual({ value: ["Ann", "Bob"] });
    expect(read(field("deep"), "{oops").problem).toContain("not JSON");
    expect(read(field("deep"), "")).toEqual({});
  });

  const trip: Json = {
    properties: {
      day: { type: "string", format: "date" }, at: { type: "string", format: "date-time" }, who: { $ref: "#/$defs/Person" },
      all: { type: "array", items: { $ref: "#/$defs/Person" } }, size: { anyOf: [{ type: "integer" }, { $ref: "#/$defs/Person" }] },
      name: { anyOf: [{ type: "integer" }, { type: "string" }] }, maybe: { anyOf: [{ $ref: "#/$defs/Person" }, { type: "null" }], default: null },
      counts: { type: "object", additionalProperties: { type: "integer" } },
    },
    required: ["day", "who"],
    $defs: { Person: { type: "object", title: "Person", properties: { name: { type: "string" }, age: { type: "integer", default: 30 }, boss: { anyOf: [{ $ref: "#/$defs/Person" }, { type: "null" }] } } } },
  };
  const of = (name: string) => fieldsOf(trip).find((f) => f.name === name)!;

  test("a date is chosen, and what is written as JSON has an example of each of its forms", () => {
    expect([of("day").kind, of("at").kind, of("who").kind, of("maybe").kind]).toEqual(["date", "datetime", "json", "json"]);
    expect(of("who").label).toBe("who");
    expect(of("who").examples[0]).toMatchObject({ name: "text", age: 30, boss: { name: "text" } }); // and a model that holds itself ends
    expect(of("all").examples[0]).toMatchObject([{ name: "text" }]);
    expect(of("size").examples).toMatchObject([1, { age: 30 }]);
    expect(of("counts").examples).toEqual([{ name: 1 }]);
    expect(of("day").examples).toEqual([]);
  });

  test("a field that may be a text takes one without quotes", () => {
    expect(read(of("name"), "Ann")).toEqual({ value: "Ann" });
    expect(read(of("name"), "7")).toEqual({ value: 7 });
    expect(read(of("size"), "Ann").problem).toContain("not JSON");
  });

  test("what the server finds fault with is said of the field", () => {
    const fields = fieldsOf(trip);
    expect(faultOf(fields, "agent a takes S, not dict: S cannot be stored: field day: Field required")).toEqual({ field: "day", problem: "Field required" });
    expect(faultOf(fields, "the state does not fit at all.0.name: 3 is not of type 'string'")).toEqual({ field: "all", problem: "all.0.name: 3 is not of type 'string'" });
    expect(faultOf(fields, "field other: no")).toBeNull();
    expect(faultOf(fields, "no driver")).toBeNull();
  });
});

describe("Markdown", () => {
  const flat = (nodes: unknown): string => JSON.stringify(nodes, (key, value: unknown) => (key.startsWith("__") ? undefined : value));

  test("HTML of a model stays text, and no link leads into a script", () => {
    const nodes = flat(blocks('<img src=x onerror=alert(1)> [x](javascript:alert(1)) <script>1</script>'));
    expect(nodes).toContain("<img src=x onerror=alert(1)> [x](javascript:alert(1)) <script>1</script>");
    expect(nodes).not.toContain('"href"');
    expect(nodes).not.toContain("dangerously");
  });

  test("lists, code, emphasis and plain links are drawn", () => {
    const types = blocks("# T\n\n- a **b**\n- `c`\n\n1. x\n\n```py\n*raw*\n```\n\n> q\n\nsee https://example.com/a.").map((n) => n.type);
    expect(types).toEqual(["p", "ul", "ol", "pre", "blockquote", "p"]);
    expect(flat(inline("see https://example.com/a."))).toContain('"href":"https://example.com/a"');
  });

  test("however deep the quotes are, a reply is drawn, and soon", () => {
    const depth = (node: unknown): number => {
      const inside = (node as { props?: { children?: unknown } } | null)?.props?.children;
      return inside === undefined ? 0 : 1 + Math.max(0, ...[inside].flat().map(depth));
    };
    for (const text of [">".repeat(5000), "> ".repeat(5000) + "x", "**a".repeat(5000), "_a*".repeat(5000), "[".repeat(15_000), "`".repeat(15_001), "*".repeat(15_000)]) {
      const nodes = blocks(text);
      expect(nodes.length).toBeGreaterThan(0);
      expect(Math.max(...nodes.map(depth))).toBeLessThan(30);
    }
    expect(flat(blocks(">".repeat(5000) + "the end"))).toContain("the end");
  });

  test("a text that breaks what draws it is shown as it is, and the next one is drawn again", () => {
    const boundary = new PlainIfBroken({ text: "odd", children: "drawn" });
    boundary.props = { text: "odd", children: "drawn" };
    expect(boundary.render()).toBe("drawn");
    boundary.setState = (next: unknown) => void Object.assign(boundary.state, next);
    boundary.componentDidCatch();
    expect(flat(boundary.render())).toContain('"children":"odd"');
    boundary.props = { text: "odd and more", children: "drawn" };
    expect(boundary.render()).toBe("drawn");
  });

  test("an unclosed fence, as streams have them, is code to the end", () => {
    expect(blocks("```\nabc\n- no list").map((n) => n.type)).toEqual(["pre"]);
  });
});

test("permalinks lead to run, step and call", () => {
  expect(parseRoute("#/runs/run-1/steps/3")).toEqual({ page: "run", run: "run-1", step: 3, call: null });
  expect(parseRoute("#/runs/a%2Fb/calls/send-1")).toEqual({ page: "run", run: "a/b", step: null, call: "send-1" });
  expect(parseRoute("#/new").page).toBe("new");
  expect(parseRoute("").page).toBe("list");
});

test("a mangled permalink leads somewhere", () => {
  expect(parseRoute("#/runs/%E0%A4%A")).toEqual({ page: "run", run: "%E0%A4%A", step: null, call: null });
  expect(parseRoute("#/runs/run-1/steps/x").step).toBeNull();
});

test("what one has begun to write is kept for its run alone, until it is sent", () => {
  const drafts = new Drafts<string>();
  drafts.keep("a", "half a tho");
  expect([drafts.of("a"), drafts.of("b")]).toEqual(["half a tho", undefined]);
  drafts.keep("a", "");
  expect(drafts.of("a")).toBeUndefined();
});

test("the filter asks for what was chosen and nothing else", () => {
  expect(filterOf({ text: " x ", status: "needs", agent: "", label: "team: growth" })).toEqual({ limit: 200, text: "x", needs: true, labels: { team: "growth" } });
  expect(filterOf({ text: "", status: "ended", agent: "memo", label: "" })).toEqual({ limit: 200, status: ["cancelled", "done", "failed"], agent: "memo" });
});

test("steps are announced, tokens are not", () => {
  const base = { seq: 1, at: 1, run: "r" };
  expect(announcement({ ...base, type: "step_finished", step: 2, attempt: 1 })).toBe("Step 2 finished");
  expect(announcement({ ...base, type: "text_flushed", take: 0, call: "c", offset: 0, text: "hello", attempt: 1, channel: "text" })).toBe("");
});

test("the record names who did what, also for events it does not know", () => {
  const base = { seq: 1, at: 1, run: "r" };
  const told = tell({ ...base, type: "cancel_asked", asked: null, accepted: null, uptime: null, boot: null, route: "", by_token: "", by: "ada", reason: "enough", trigger: "key", undo: "step", soft: false, suspicious: false, in_flight: [], status: "cancelling" });
  expect([told.by, told.person, told.text]).toEqual(["ada", true, "asked to cancel (undo: step) (by a key): enough"]);
  expect(tell({ ...base, type: "brand_new" } as unknown as Event).text).toBe("brand new");
});

test.each([["tripwire", "tripwire"], [null, "budget"]] as const)("what no person asked for is put in nobody's mouth: %s", (by, trigger) => {
  const told = tell({ seq: 1, at: 1, run: "r", type: "pause_asked", asked: null, accepted: null, uptime: null, boot: null, route: "", by_token: "", by, reason: "it leaks", trigger, in_flight: [], status: "paused" });
  expect([told.by, told.person, told.text]).toEqual([null, false, `${trigger === "budget" ? "its budget" : "a tripwire"} asked for a pause: it leaks`]);
});
