// What the run says, as it says it; beside it the stop for what should not be said.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { WatchedRun } from "../client";
import { pieces, type CallInfo, type Trip } from "../history";
import { Markdown } from "../markdown";
import { ENDED } from "../reduce";
import { act, drawn, to } from "./state";
import { At, Earlier, Panel } from "./parts";

const SHOWN = 12; // the latest speakers; the others are one click away

export function Output({ run }: { run: WatchedRun }) {
  void drawn.value;
  const [all, setAll] = useState(false);
  const speakers = [...run.history.calls.values()].filter((c) => c.text || c.reasoning || c.trips.length);
  const shown = all ? speakers : speakers.slice(-SHOWN);
  const live = !ENDED.includes(run.view.status);
  const box = useRef<HTMLDivElement>(null);
  const stuck = useRef(true);
  useLayoutEffect(() => {
    const el = box.current;
    if (el && stuck.current) el.scrollTop = el.scrollHeight;
  });
  const suspicious = live && (
    <button class="danger slim" title="Stops the run and marks in the record where you were reading" onClick={() => void stop(run)}>Suspicious output: stop</button>
  );
  return (
    <Panel title="What it says" aside={suspicious}>
      <div class="output" ref={box} tabIndex={0} role="region" aria-label="What the run says" onScroll={(e) => {
        const el = e.currentTarget;
        stuck.current = el.scrollHeight - el.scrollTop - el.clientHeight < 40;
      }}>
        {shown.length < speakers.length && <button class="slim" onClick={() => setAll(true)}>Show {speakers.length - shown.length} earlier</button>}
        {shown.map((call) => <Said key={call.id} run={run.id} call={call} />)}
        {run.history.replies.map((reply) => (
          <article class="said reply" key={reply.at}>
            <header><b>Reply</b><At time={reply.at} /></header>
            <Markdown text={reply.text} />
            {reply.lines.map((line) => <p class="line">{line}</p>)}
          </article>
        ))}
        {run.history.result !== undefined && run.view.status === "done" && <Result value={run.history.result} />}
        {!shown.length && !run.history.replies.length && run.view.status !== "done" && <p class="empty">{live ? "Nothing has been said yet." : "Nothing was said."}</p>}
      </div>
    </Panel>
  );
}

async function stop(run: WatchedRun): Promise<void> {
  const call = run.history.calls.get(run.history.lastCall);
  const suspicious = call ? { call: call.id, offset: call.left + [...call.text].length } : true; // the server counts whole characters
  await act(run.id, "cancel", { reason: "suspicious output", suspicious });
}

function Said({ run, call }: { run: string; call: CallInfo }) {
  void drawn.value;
  const speaking = call.state === "started";
  const said = call.trips.filter((m) => m.channel === "text");
  return (
    <article class={`said ${speaking ? "live" : ""}`}>
      <header>
        <a href={to.call(run, call.id)}>{call.title || call.tool}</a>
        <span class="muted">step {call.step}</span>
        {call.state === "cut" || call.state === "in_doubt" ? <span class="muted">cut: partial</span> : null}
      </header>
      {call.reasoning && <details class="reasoning"><summary>Thinking</summary><Marked text={call.reasoning} marks={call.trips.filter((m) => m.channel === "reasoning")} /></details>}
      <Earlier run={run} characters={call.left} />
      {said.length ? <Marked text={call.text} marks={said.map((m) => ({ ...m, start: Math.max(0, m.start - call.left), end: Math.max(0, m.end - call.left) }))} /> : speaking ? <Live text={call.text} /> : partsOf(call).map((part, n) => <>{n > 0 && <p class="suspected">⚑ stopped here as suspicious</p>}{part && <Markdown text={part} />}</>)}
      {call.trips.length > 0 && <Tripped marks={call.trips} />}
    </article>
  );
}

/** What a call said, cut at the places where somebody stopped it. */
function partsOf(call: CallInfo): string[] {
  const letters = [...call.text];
  const marks = call.marks.map((mark) => Math.max(0, mark - call.left)).sort((a, b) => a - b);
  const places = [0, ...marks, letters.length];
  return places.slice(1).map((end, n) => letters.slice(places[n], end).join(""));
}

/** Text as it came, with what a tripwire has marked. */
function Marked({ text, marks }: { text: string; marks: Trip[] }) {
  return <p class="stream">{pieces(text, marks).map((p) => (p.mark ? <mark class="tripped" title={`its instructions (${p.mark.variant})`}>{p.text}</mark> : p.text))}</p>;
}

const WHERE: { [channel in Trip["channel"]]: string } = { text: "its answer", reasoning: "its thinking", tool_call: "what it gave to a tool" };

function Tripped({ marks }: { marks: Trip[] }) {
  return (
    <div class="tripwire">
      {marks.map((m) => (
        <p>
          <b>Tripwire:</b> {m.kind === "canary" ? "a canary from its instructions" : "its instructions"} came out in {WHERE[m.channel]}{m.variant === "plain" ? "" : ` (${m.variant})`}.
          {m.action === "flag" ? " Marked, not stopped." : ` The stream was closed; ${m.held_back} characters were held back and are shown to nobody here.`}
        </p>
      ))}
      <p class="muted">It does not see paraphrase, translation, or ciphers other than rot13.</p>
    </div>
  );
}

/** Growing text: what is new is appended, what stands is not touched. */
function Live({ text }: { text: string }) {
  const element = useRef<HTMLParagraphElement>(null);
  const drawn = useRef("");
  useEffect(() => {
    const p = element.current!;
    const old = drawn.current;
    if (old && text.length >= old.length && text.startsWith(old) && p.firstChild) (p.firstChild as Text).appendData(text.slice(old.length));
    else p.textContent = text;
    drawn.current = text;
  }, [text]);
  return <p class="stream" ref={element} />;
}

function Result({ value }: { value: unknown }) {
  return (
    <article class="said result">
      <header><b>Result</b></header>
      {typeof value === "string" ? <Markdown text={value} /> : <pre class="value" tabIndex={0}>{JSON.stringify(value, null, 2)}</pre>}
    </article>
  );
}
