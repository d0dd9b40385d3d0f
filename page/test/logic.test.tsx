// Words, keys, patches, forms, Markdown: everything the page decides without a browser.
import { describe, expect, test } from "vitest";
import { filterOf } from "../src/filter";
import { DEFAULT_KEYS, Twice, actionOf, isField, rekey } from "../src/keys";
import { blocks, inline } from "../src/markdown";
import { mergePatch } from "../src/patch";
import { emptyView, type Status } from "../src/reduce";
import { fieldsOf, read } from "../src/schema";
import { parseRoute } from "../src/routes";
import { announcement, tell } from "../src/telling";
import type { CallRef, Event, Json, JsonValue, RunView } from "../src/types.gen";
import { STATE_SHAPES, STATE_WORDS, cancelWords, clock, meter, pauseWords, planPosition, redirectWords } from "../src/words";

const view = (part: Partial<RunView>): RunView => ({ ...emptyView("run-1"), ...part });
const call = (tool: string, effect: CallRef["effect"]): CallRef => ({ id: `${tool}-1`, tool, effect, since: 0, title: "", run: "" });
const ALL = Object.keys(STATE_WORDS) as Status[];

describe("words that fit the live state", () => {
  test("no two states have the same word or the same shape", () => {
    expect(new Set(Object.values(STATE_WORDS)).size).toBe(8);
    expect(new Set(Object.values(STATE_SHAPES)).size).toBe(8);
  });

  test("every control says what it would do in every state", () => {
    for (const status of ALL) {
      for (const words of [pauseWords, redirectWords, cancelWords]) expect(words(view({ status }))).not.toBe("");
    }
  });

  test("cancel says what is kept and what is undone", () => {
    const words = cancelWords(view({ status: "running", step: 3, in_flight: [call("draft", "write")] }));
    expect(words).toBe("keeps 3 finished steps, undoes draft in progress");
  });

  test("pause says that an effect may finish, and that a stream is closed", () => {
    expect(pauseWords(view({ status: "running", in_flight: [call("send", "write")] }))).toBe("lets send finish, then holds");
    expect(pauseWords(view({ status: "running", in_flight: [call("model", "read")] }))).toBe("closes model, keeps what it said");
    expect(pauseWords(view({ status: "paused", holds: ["asks"] }))).toBe("first answer what it asks");
  });

  test("the plan's place counts the item in progress, and not what was dropped", () => {
    const item = (status: "done" | "running" | "queued" | "dropped") => ({ id: status, title: "", status, step: null, was: "" });
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

describe("keys", () => {
  const press = (key: string) => ({ key, ctrlKey: false, altKey: false, metaKey: false });

  test("they count outside fields only, and without other keys held", () => {
    expect(actionOf(press("p"), DEFAULT_KEYS, false)).toBe("pause");
    expect(actionOf(press("P"), DEFAULT_KEYS, false)).toBe("pause");
    expect(actionOf(press("p"), DEFAULT_KEYS, true)).toBeNull();
    expect(actionOf({ ...press("r"), ctrlKey: true }, DEFAULT_KEYS, false)).toBeNull();
    expect(isField([{ tagName: "TEXTAREA" } as unknown as EventTarget])).toBe(true);
    expect(isField([{ tagName: "BUTTON" } as unknown as EventTarget])).toBe(false);
  });

  test("cancel wants two presses within a moment", () => {
    const twice = new Twice();
    expect(twice.press(1000)).toBe(false);
    expect(twice.press(3000)).toBe(false); // too late: this is a first one again
    expect(twice.press(3500)).toBe(true);
    expect(twice.press(3600)).toBe(false);
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

test("the filter asks for what was chosen and nothing else", () => {
  expect(filterOf({ text: " x ", status: "needs", agent: "", label: "team: growth" })).toEqual({ limit: 200, text: "x", needs: true, labels: { team: "growth" } });
  expect(filterOf({ text: "", status: "ended", agent: "memo", label: "" })).toEqual({ limit: 200, status: ["cancelled", "done", "failed"], agent: "memo" });
});

test("steps are announced, tokens are not", () => {
  const base = { seq: 1, at: 1, run: "r" };
  expect(announcement({ ...base, type: "step_finished", step: 2, attempt: 1 })).toBe("Step 2 finished");
  expect(announcement({ ...base, type: "text_flushed", call: "c", offset: 0, text: "hello", attempt: 1, channel: "text" })).toBe("");
});

test("the record names who did what, also for events it does not know", () => {
  const base = { seq: 1, at: 1, run: "r" };
  const told = tell({ ...base, type: "cancel_asked", route: "", by: "ada", reason: "enough", trigger: "key", undo: "step", soft: false, suspicious: false, in_flight: [], status: "cancelling" });
  expect([told.by, told.person, told.text]).toEqual(["ada", true, "asked to cancel (undo: step) (by a key): enough"]);
  expect(tell({ ...base, type: "brand_new" } as unknown as Event).text).toBe("brand new");
});
