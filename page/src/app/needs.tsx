// What only a person can settle: a card each, made from the need and its choices.
import { useState } from "preact/hooks";
import { isObject } from "../patch";
import type { Choice, Json, JsonValue, Need } from "../types.gen";
import type { Verb } from "../wire";
import { duration, isUnread, sentence } from "../words";
import { filled } from "./safe";
import { accepted, act, changes, client, seconds, to } from "./state";
import { Value, Words } from "./parts";

const TITLES: { [kind: string]: string } = {
  approval: "Asks for approval", question: "Asks a question", doubt: "In doubt: did it happen?", stale: "The world has changed",
  budget: "A cap is reached", error: "Stopped by an error", diverged: "Took another path",
  tripwire: "Gave its instructions away", unread: "A redirect was not read",
};

export function Needs({ run, needs, traceback }: { run: string; needs: Need[]; traceback: string }) {
  if (!needs.length) return null;
  return (
    <div class="needs">
      {needs.map((need) => <NeedCard key={need.id} run={run} need={need} traceback={traceback} />)}
    </div>
  );
}

/** Runs below this one that need someone: settled on their own pages. */
export function ChildNeeds({ needs }: { needs: { [run: string]: string } }) {
  const all = Object.entries(needs);
  if (!all.length) return null;
  return (
    <section class={all.some(([, words]) => isUnread(words)) ? "need child unread" : "need child"} aria-label="Child runs need you">
      <header><h2>{all.length === 1 ? "A child run needs you" : `${all.length} child runs need you`}</h2></header>
      <ul class="plainlist">
        {all.map(([run, words]) => <li key={run} class={isUnread(words) ? "notread" : ""}><a href={to.run(run)}><Words text={sentence(words)} /></a><span class="mono muted wrap">{run}</span></li>)}
      </ul>
    </section>
  );
}

function NeedCard({ run, need, traceback }: { run: string; need: Need; traceback: string }) {
  void seconds.value;
  void changes.value;
  const right = need.kind === "unread" ? "redirect" : "resolve";
  const waited = need.since ? client.lately() - need.since : 0;
  return (
    <section class={`need ${need.kind}`} aria-label={TITLES[need.kind] ?? "Needs you"}>
      <header>
        <h2>{TITLES[need.kind] ?? `Needs you: ${need.kind.replace(/_/g, " ")}`}</h2>
        <span class="age">{waited > 1 && `for ${duration(waited)}`}{need.call && <> · <a href={to.call(run, need.call)}>the call</a></>}</span>
      </header>
      <p class="asks"><Words text={need.text || "It waits for you."} /></p>
      {need.about && <p class={need.kind === "unread" ? "muted" : "mono muted"}><Words text={need.about} /></p>}
      {need.kind === "error" && traceback && <details><summary>Traceback</summary><pre class="value" tabIndex={0}>{traceback}</pre></details>}
      {!client.may(right) ? <p class="muted">Somebody with the right to {right} decides this; you have not got it.</p> : need.kind === "approval" ? <Approval run={run} need={need} />
        : need.kind === "question" ? <Question run={run} need={need} />
          : need.kind === "doubt" ? <Doubt run={run} need={need} />
            : <Choices run={run} need={need} />}
    </section>
  );
}

/** Approve, change, deny. */
function Approval({ run, need }: { run: string; need: Need }) {
  const call = need.call ?? need.id;
  const offered = need.choices.map(asChoice).find((c) => c?.verb === "approve" && isObject(c.args["args"]));
  const args = (offered?.args["args"] ?? null) as Json | null;
  const [text, setText] = useState(() => JSON.stringify(args ?? {}, null, 2));
  const [changing, setChanging] = useState(false);
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState("");
  const change = () => {
    try {
      const value = JSON.parse(text) as JsonValue;
      if (!isObject(value)) throw new Error("arguments are an object");
      setProblem("");
      void act(run, "approve", { call_id: call, args: value });
    } catch (error) {
      setProblem(`Not sent: ${(error as Error).message}`);
    }
  };
  return (
    <>
      {args && !changing && <Value value={args} />}
      {changing && (
        <label class="field">Arguments<textarea class="code" rows={Math.min(12, text.split("\n").length + 1)} value={text} onInput={(e) => setText(e.currentTarget.value)} /></label>
      )}
      {problem && <p class="problem">{problem}</p>}
      <div class="row">
        {changing
          ? <><button class="primary" onClick={change}>Approve with these</button><button onClick={() => setChanging(false)}>Back</button></>
          : <><button class="primary" onClick={() => void act(run, "approve", { call_id: call })}>Approve</button>{args && <button onClick={() => setChanging(true)}>Change…</button>}</>}
        <span class="grow" />
        <input class="reason" aria-label="Reason to deny" placeholder="reason to deny" value={reason} onInput={(e) => setReason(e.currentTarget.value)} />
        <button class="danger" onClick={() => void act(run, "deny", { call_id: call, reason })}>Deny</button>
      </div>
    </>
  );
}

function Question({ run, need }: { run: string; need: Need }) {
  const call = need.call ?? need.id;
  const [text, setText] = useState("");
  const answer = (value: JsonValue) => act(run, "answer", { call_id: call, value });
  if (need.choices.length) {
    return <div class="row">{need.choices.map((c: JsonValue) => <button class="choice" onClick={() => void answer(c)}>{typeof c === "string" ? c : JSON.stringify(c)}</button>)}</div>;
  }
  const send = async () => {
    // A question may want a number or a list: what a text cannot be is tried as JSON.
    const other = parsed(text);
    if (accepted(await answer(text)) || other === undefined || typeof other === "string") return;
    await answer(other);
  };
  return (
    <form class="row" onSubmit={(e) => { e.preventDefault(); void send(); }}>
      <input class="grow" aria-label="Your answer" placeholder="your answer" value={text} onInput={(e) => setText(e.currentTarget.value)} />
      <button class="primary">Answer</button>
    </form>
  );
}

function Doubt({ run, need }: { run: string; need: Need }) {
  const call = need.call ?? need.id;
  const [result, setResult] = useState("");
  const resolve = (decision: string, more: Json = {}) => void act(run, "resolve", { call_id: call, decision, ...more });
  return (
    <div class="row">
      <button class="primary" onClick={() => resolve("happened", result.trim() ? { result: parsed(result) ?? result } : {})}>It happened</button>
      <input class="reason" aria-label="What it gave, if it happened" placeholder="what it gave (optional)" value={result} onInput={(e) => setResult(e.currentTarget.value)} />
      <button onClick={() => resolve("not_happened")}>It did not happen</button>
      {need.choices.some((c) => isObject(c) && c.decision === "check_again") && <button onClick={() => resolve("check_again")}>Check again</button>}
    </div>
  );
}

/** Any other need: its choices as they came; a free answer where it has none. */
function Choices({ run, need }: { run: string; need: Need }) {
  const [text, setText] = useState("");
  const choices = need.choices.map(asChoice);
  if (!choices.length) {
    return (
      <form class="row" onSubmit={(e) => { e.preventDefault(); void act(run, "answer", { call_id: need.call ?? need.id, value: parsed(text) ?? text }); }}>
        <input class="grow" aria-label="Your answer" placeholder="your answer" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        <button class="primary">Answer</button>
      </form>
    );
  }
  return (
    <div class="choices">
      {choices.map((choice, i) => choice
        ? <OneChoice run={run} choice={choice} first={i === filled(need.kind, choices)} />
        : <button onClick={() => void act(run, "answer", { call_id: need.call ?? need.id, value: need.choices[i] as JsonValue })}>{JSON.stringify(need.choices[i])}</button>)}
    </div>
  );
}

/** A verb with its arguments; caps may be changed before it is sent. */
function OneChoice({ run, choice, first }: { run: string; choice: Choice; first: boolean }) {
  const budget = isObject(choice.args["budget"]) ? choice.args["budget"] : null;
  const caps = budget ? Object.entries(budget).filter((c): c is [string, number] => typeof c[1] === "number") : [];
  const [given, setGiven] = useState<{ [cap: string]: number }>(Object.fromEntries(caps));
  const args = caps.length ? { ...choice.args, budget: { ...budget, ...given } } : choice.args;
  return (
    <span class="row">
      {caps.map(([cap]) => (
        <label class="cap">{cap}<input type="number" min="0" value={given[cap]} onInput={(e) => setGiven({ ...given, [cap]: Number(e.currentTarget.value) })} /></label>
      ))}
      <button class={choice.verb === "cancel" ? "danger" : first ? "primary" : ""} onClick={() => void act(run, choice.verb as Verb, args)}>{sentence(choice.label || choice.verb)}</button>
    </span>
  );
}

function asChoice(value: JsonValue): Choice | null {
  return isObject(value) && typeof value["verb"] === "string" ? { verb: value["verb"], args: isObject(value["args"]!) ? value["args"] : {}, label: String(value["label"] ?? "") } : null;
}

function parsed(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}
