// Calls: the list by step, and the detail of one.
import { useEffect, useState } from "preact/hooks";
import type { WatchedRun } from "../client";
import type { CallInfo } from "../history";
import { isObject } from "../patch";
import type { Json, JsonValue } from "../types.gen";
import { duration, money } from "../words";
import { client, get, route, seconds, to, told } from "./state";
import { At, Earlier, Effect, Value, Words } from "./parts";

const STATE_MARK: { [state: string]: string } = {
  asking: "?", started: "▸", finished: "✓", failed: "!", cut: "–", in_doubt: "≈", denied: "×", approved: "✓",
};

export function Calls({ run }: { run: WatchedRun }) {
  void told.value;
  const { call: chosen, step } = route.value;
  const calls = [...run.history.calls.values()];
  const open = chosen ? run.history.calls.get(chosen) : undefined;
  const shown = step === null ? calls.slice(-200) : calls.filter((c) => c.step === step);
  return (
    <div class="calls">
      {step !== null && <p class="muted">Step {step} · <a href={to.run(run.id)}>all steps</a>{step > 0 && <> · <a href={to.step(run.id, step - 1)}>previous</a></>}{step < run.view.step && <> · <a href={to.step(run.id, step + 1)}>next</a></>}</p>}
      {chosen && !open && <p class="empty">There is no call {chosen} in this run.</p>}
      {open && <CallDetail run={run} call={open} />}
      {!shown.length && <p class="empty">{step === null ? "No call yet." : "No call in this step."}</p>}
      <ol class="calllist">
        {[...shown].reverse().map((call) => (
          <li key={call.id} class={call.state}>
            <a href={to.call(run.id, call.id)} aria-current={call.id === chosen ? "true" : undefined}>
              <span class="mark" aria-hidden="true">{STATE_MARK[call.state]}</span>
              <span class="name">{call.title || call.tool}</span>
              <span class="muted">step {call.step}</span><Effect effect={call.effect} />
              <span class="muted">{call.state.replace("_", " ")}{call.undo ? `, ${call.undo}` : ""}</span>
              <Took call={call} />
            </a>
          </li>
        ))}
      </ol>
    </div>
  );
}

function Took({ call }: { call: CallInfo }) {
  void told.value;
  if (!call.startedAt) return null;
  if (call.endedAt === null) void seconds.value;
  return <span class="muted mono">{duration(Math.max(0, (call.endedAt ?? client.lately()) - call.startedAt))}</span>;
}

function CallDetail({ run, call }: { run: WatchedRun; call: CallInfo }) {
  void told.value;
  const [more, setMore] = useState<Json | null>(null);
  useEffect(() => {
    setMore(null);
    get<Json>(`runs/${encodeURIComponent(run.id)}/calls/${encodeURIComponent(call.id)}`).then(setMore, () => setMore({}));
  }, [call.id, call.state]);
  const usage = usageOf(call.result);
  return (
    <article class="calldetail" aria-label={`Call ${call.title || call.tool}`}>
      <header><h3>{call.title || call.tool}</h3><Effect effect={call.effect} /><span class="muted">{call.state.replace("_", " ")}</span><a class="muted" href={to.run(run.id)}>close</a></header>
      <dl class="facts">
        <dt>Tool</dt><dd>{call.tool}</dd>
        <dt>Step</dt><dd><a href={to.step(run.id, call.step)}>{call.step}</a></dd>
        <dt>Began</dt><dd><At time={call.startedAt} /></dd>
        <dt>Took</dt><dd><Took call={call} /></dd>
        <dt>Times issued</dt><dd>{call.attempts}</dd>
        {usage && <><dt>Tokens</dt><dd>{usage.tokens}{usage.estimated && " (estimated)"}</dd><dt>Cost</dt><dd>{money(usage.cost)}</dd></>}
        {call.undo && <><dt>Undo</dt><dd>{call.undo}</dd></>}
        {call.why && <><dt>Why</dt><dd><Words text={call.why} /></dd></>}
        {call.note && <><dt>Note</dt><dd><Words text={call.note} /></dd></>}
        <dt>Id</dt><dd class="mono wrap">{call.id}</dd>
      </dl>
      {call.progress && <p><progress max="1" value={call.progress.fraction} aria-label="progress" /> {call.progress.text}</p>}
      <h4>Request</h4><Value value={call.args} />
      {call.error ? <><h4>Error</h4><pre class="value" tabIndex={0}>{call.error}</pre></> : call.state === "finished" && <><h4>Response</h4><Value value={call.result} /></>}
      {(call.text || call.left > 0) && <><h4>What it said{call.state !== "finished" && " (partial)"}</h4><Earlier run={run.id} characters={call.left} /><pre class="value" tabIndex={0}><Words text={call.text} /></pre></>}
      {more && Object.keys(more).length > 0 && <details><summary>All the server knows of it</summary><Value value={more} /></details>}
    </article>
  );
}

function usageOf(result: JsonValue | undefined): { tokens: number; cost: number; estimated: boolean } | null {
  const usage = isObject(result) ? result["usage"] : undefined;
  if (!isObject(usage)) return null;
  return { tokens: Number(usage["input_tokens"] ?? 0) + Number(usage["output_tokens"] ?? 0), cost: Number(usage["cost"] ?? 0), estimated: usage["estimated"] === true };
}
