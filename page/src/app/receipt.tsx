// What a stop did, and how to go on from there.
import { useEffect, useState } from "preact/hooks";
import type { WatchedRun } from "../client";
import { isObject } from "../patch";
import { Markdown } from "../markdown";
import type { CallRef, Json, JsonValue, Receipt as ReceiptOf } from "../types.gen";
import { nameOf } from "../telling";
import { HANDS, TRIGGER_WORDS, duration, money, sentence, thousands } from "../words";
import { act, get, say, to, told } from "./state";
import { At, By, Effect, Value, Words } from "./parts";
import { Stops } from "./stops";

export function Receipt({ run }: { run: WatchedRun }) {
  void told.value;
  const [fetched, setFetched] = useState<ReceiptOf | null>(null);
  const receipt = run.history.receipt ?? fetched;
  useEffect(() => {
    setFetched(null);
    get<ReceiptOf>(`runs/${encodeURIComponent(run.id)}/receipt`).then((r) => setFetched(r && "run" in r ? r : null), () => setFetched(null));
  }, [run.id, run.view.status]);
  return (
    <div class="receipt">
      <Group title="Not read" items={run.view.not_read.map((line) => <Words text={line} />)} tone="no" />
      {receipt ? <Details run={run} receipt={receipt} /> : <p class="muted">{run.view.status === "done" ? "It came to its end by itself; there was nothing to stop." : "No receipt."}</p>}
      {run.view.status === "done" && run.history.result !== undefined && <><h3>Result</h3>{typeof run.history.result === "string" ? <Markdown text={run.history.result} /> : <Value value={run.history.result} />}</>}
      {run.view.status === "failed" && <><h3>Error</h3><p>{run.view.error}</p>{run.view.traceback && <pre class="value" tabIndex={0}>{run.view.traceback}</pre>}</>}
      <Stops run={run} />
      <GoOn run={run} receipt={receipt} />
    </div>
  );
}

function Details({ run, receipt }: { run: WatchedRun; receipt: ReceiptOf }) {
  const outcome = (word: string) => <span class={`outcome ${word}`}>{word.replace("_", " ")}</span>;
  return (
    <>
      <p class="lead">
        {HANDS.includes(receipt.trigger) ? <><By who={receipt.by} token={receipt.by_token} /> <span class="muted">({TRIGGER_WORDS[receipt.trigger]})</span></> : <b>{sentence(TRIGGER_WORDS[receipt.trigger])}</b>} stopped it{receipt.reason && <>: “<Words text={receipt.reason} />”</>}.
        {" "}{receipt.finished_steps} finished {receipt.finished_steps === 1 ? "step is" : "steps are"} kept.
        {" "}<b>{receipt.calls_after_cancel}</b> calls began after the stop.
      </p>
      <dl class="facts">
        <dt>Asked</dt><dd><At time={receipt.asked_at} /></dd>
        <dt>Accepted</dt><dd><At time={receipt.accepted_at} /> <span class="muted">{duration(Math.max(0, receipt.accepted_at - receipt.asked_at))}</span></dd>
        <dt>Settled</dt><dd><At time={receipt.settled_at} /> <span class="muted">{duration(Math.max(0, receipt.settled_at - receipt.accepted_at))}</span></dd>
        <dt>Used</dt><dd>{receipt.usage.calls} calls, {thousands(receipt.usage.input_tokens + receipt.usage.output_tokens)} tokens, {money(receipt.usage.cost)}</dd>
      </dl>
      <Group title="In flight when it stopped" items={receipt.in_flight.map((f) => <><CallName run={run.id} call={f.call} /> {outcome(f.outcome)}{f.tokens > 0 && <span class="muted"> {f.tokens} tokens{f.estimated && " (estimated)"}</span>}</>)} />
      <Group title="Undone" items={receipt.undone.map((u) => <><CallName run={run.id} call={u.call} /> {outcome(u.outcome)}{u.reason && <span class="muted"> <Words text={u.reason} /></span>}</>)} />
      <Group title="Left behind" items={receipt.residue.map((r) => <><b><Words text={r.what} /></b> <span class="muted"><Words text={r.why} /></span></>)} tone="no" />
      <Group title="Effects kept" items={receipt.kept.map((k) => <CallName run={run.id} call={k} />)} />
      <Group title="Suspicious output" items={receipt.marks.map((m) => <>marked after {m.offset} characters of <a href={to.call(run.id, m.call)}>{nameOf(m.call)}</a></>)} tone="no" />
      {receipt.partial_output && <><h3>Partial output</h3><div class="partial"><Markdown text={receipt.partial_output} /></div></>}
    </>
  );
}

function Group({ title, items, tone = "" }: { title: string; items: preact.ComponentChildren[]; tone?: string }) {
  if (!items.length) return null;
  return <><h3 class={tone}>{title}</h3><ul class="plainlist">{items.map((item, i) => <li key={i}>{item}</li>)}</ul></>;
}

function CallName({ run, call }: { run: string; call: CallRef }) {
  return <><a href={to.call(call.run || run, call.id)}>{call.title || call.tool}</a> <Effect effect={call.effect} /></>;
}

/** Save it, fork it, or change its state and run it again. */
function GoOn({ run, receipt }: { run: WatchedRun; receipt: ReceiptOf | null }) {
  const last = run.view.step;
  const [chosen, setAt] = useState<number | null>(null);
  const at = chosen ?? last;
  const [text, setText] = useState<string | null>(null);
  const [problem, setProblem] = useState("");
  const go = async (args: { [key: string]: JsonValue }) => {
    const answer = await act(run.id, "fork", args);
    const made = answer?.answer === "accepted" ? answer.run : undefined;
    if (made) location.hash = to.run(made.id);
  };
  const edit = async () => {
    try {
      const found = await get<Json>(`runs/${encodeURIComponent(run.id)}/state?step=${at}`);
      setText(JSON.stringify(isObject(found["state"]!) && "step" in found ? found["state"] : found, null, 2));
      setProblem("");
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  const rerun = () => {
    try {
      const state = JSON.parse(text ?? "") as JsonValue;
      void go({ at, state });
    } catch (error) {
      setProblem(`Not sent: ${(error as Error).message}`);
    }
  };
  return (
    <section class="goon" aria-label="Go on from here">
      <div class="row">
        <label class="cap">step<input type="number" min="0" max={last} value={at} onInput={(e) => setAt(Math.max(0, Math.min(last, Number(e.currentTarget.value))))} /></label>
        <button onClick={() => void go({ at })}>Fork from step {at}</button>
        <button onClick={() => void edit()}>Edit and rerun…</button>
        <button onClick={() => save(run, receipt)}>Save</button>
      </div>
      {text !== null && (
        <>
          <label class="field">State before step {at}<textarea class="code" spellcheck={false} rows={Math.min(24, text.split("\n").length + 1)} value={text} onInput={(e) => setText(e.currentTarget.value)} /></label>
          <div class="row"><button class="primary" onClick={rerun}>Rerun from step {at} with this</button><button onClick={() => setText(null)}>Close</button></div>
        </>
      )}
      {problem && <p class="problem">{problem}</p>}
    </section>
  );
}

function save(run: WatchedRun, receipt: ReceiptOf | null): void {
  const body = JSON.stringify({ run: run.view, receipt, record: run.history.entries }, null, 2);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([body], { type: "application/json" }));
  link.download = `${run.id}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  say(`Saved as ${link.download}`);
}
