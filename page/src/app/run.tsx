// One run: its bar, what it needs, its plan, what it says, and everything about it.
import type { Ref } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { StandfastBar } from "../bar";
import { ENDED } from "../reduce";
import { announcement } from "../telling";
import type { PlanItem } from "../types.gen";
import { money, thousands } from "../words";
import { Acting } from "./acting";
import { Calls } from "./calls";
import { Evidence } from "./evidence";
import { Halts } from "./halts";
import { Inspector } from "./inspector";
import { ChildNeeds, Needs } from "./needs";
import { Output } from "./output";
import { Words } from "./parts";
import { Plan } from "./plan";
import { Receipt } from "./receipt";
import { Record } from "./record";
import { Share } from "./share";
import { act, changes, client, route, spoken, to, useRun } from "./state";
import { Frames, Mail, MessageBox } from "./thoughts";
import { Timeline } from "./timeline";

const TABS = { output: "Output", calls: "Calls", state: "State", record: "Record", receipt: "Receipt" } as const;
type Tab = keyof typeof TABS;

export let currentBar: StandfastBar | null = null;

export function RunPage({ id }: { id: string }) {
  const run = useRun(id);
  const bar = useRef<StandfastBar>(null);
  const { view } = run;
  const ended = ENDED.includes(view.status);
  const [tab, setTab] = useState<Tab>("output");
  useEffect(() => {
    if (bar.current) {
      bar.current.client = client;
      currentBar = bar.current;
    }
    client.list({ needs: true, limit: 200 });
    // On a phone the message box stands on the bar, however high that is.
    const place = bar.current?.parentElement;
    const measure = new ResizeObserver(() => document.documentElement.style.setProperty("--bar-height", `${place?.offsetHeight ?? 0}px`));
    if (place) measure.observe(place);
    return () => {
      measure.disconnect();
      currentBar = null;
    };
  }, []);
  const { call, step } = route.value;
  useEffect(() => {
    if (call !== null || step !== null) setTab("calls");
  }, [call, step]);
  // A run that ends while one looks shows its receipt; one that had ended long ago opens with it.
  useEffect(() => {
    if (run.known && (view.status === "cancelled" || view.status === "failed")) setTab((t) => (t === "output" ? "receipt" : t));
  }, [view.status, run.known]);
  useAnnouncements(run.history.entries.length, run);
  const from = (item: PlanItem) => bar.current?.compose(item.step === null || item.status !== "done" ? (item.status === "queued" || item.status === "running" ? null : item) : item);
  void changes.value;
  if (client.connection === "open" && !client.may("view")) return <Blind id={id} />;
  if (run.gone) {
    return <main id="main" class="narrow"><h1>{id}</h1><p class="empty big">This run is not here: {run.gone}. <a href={to.list()}>All runs</a></p></main>;
  }
  const tabs = (Object.keys(TABS) as Tab[]).filter((t) => t !== "receipt" || ended || view.status === "paused");
  const shown = tabs.includes(tab) ? tab : "output";
  return (
    <>
      <div class="barplace"><standfast-bar ref={bar} run={id} quiet /></div>
      <main id="main" class="runpage">
        <div class="runhead">
          <h1>{view.agent || "…"}</h1>
          <span class="mono muted wrap">{id}</span>
          {Object.entries(view.labels).map(([k, v]) => <span class="label" key={k}>{k}: {v}</span>)}
          {view.parent && <a href={to.run(view.parent)}>parent run</a>}
          <span class="muted mono">{thousands(view.spent.input_tokens + view.spent.output_tokens)} tokens · {money(view.spent.cost)} · {view.spent.calls} calls</span>
          {client.shares && client.may("operator") && <Share run={id} />}
          {client.may("forensics") && <Evidence run={id} />}
        </div>
        <Halts run={view} />
        {ended && view.not_read.map((line) => <p class="problem notread" role="alert" key={line}><Words text={line} /> <button class="slim" onClick={() => setTab("receipt")}>Fork it…</button></p>)}
        <Needs run={id} needs={view.needs} traceback={view.traceback} />
        <ChildNeeds needs={view.child_needs} />
        <Timeline run={run} />
        <div class="columns">
          <div class="side"><Plan run={run} onFrom={from} /><Frames run={run} /><Mail run={run} /><Acting run={run} /></div>
          <div class="mainside">
            <div class="tabs" role="tablist" aria-label="About this run" onKeyDown={(e) => arrows(e, tabs, shown, setTab)}>
              {tabs.map((t) => <button key={t} role="tab" id={`tab-${t}`} aria-controls="tabpanel" aria-selected={t === shown} tabIndex={t === shown ? 0 : -1} onClick={() => setTab(t)}>{TABS[t]}</button>)}
            </div>
            <div id="tabpanel" role="tabpanel" aria-labelledby={`tab-${shown}`} class={shown === "output" ? "" : "panel pad"}>
              {shown === "output" ? <Output run={run} /> : shown === "calls" ? <Calls run={run} /> : shown === "state" ? <Inspector run={run} /> : shown === "record" ? <Record run={run} /> : <Receipt run={run} />}
            </div>
          </div>
        </div>
      </main>
      <MessageBox run={run} />
    </>
  );
}

/** Whoever may stop a run but not look into it gets the stop, and its answer. */
function Blind({ id }: { id: string }) {
  const [said, setSaid] = useState("");
  const stop = async () => {
    const answer = await act(id, "cancel");
    if (answer) setSaid(answer.answer === "accepted" ? "Accepted: nothing new begins from now on." : answer.answer === "too_late" ? `Too late: already ${answer.status}.` : "The run says no.");
  };
  return (
    <main id="main" class="narrow">
      <h1>{id}</h1>
      <p>You may not look into this run{client.may("cancel") ? ", but you may cancel it." : "."}</p>
      {client.may("cancel") && <div class="row"><button class="danger" onClick={() => void stop()}>Cancel this run</button></div>}
      {said && <p role="status">{said}</p>}
    </main>
  );
}

/** Steps and states are announced, what the run says is not; what happened before one came is not repeated. */
function useAnnouncements(count: number, run: ReturnType<typeof useRun>): void {
  const heard = useRef<number | null>(null);
  useEffect(() => {
    if (!run.known) return;
    const before = heard.current;
    heard.current = count;
    if (before === null || count - before > 50) return;
    const said = run.history.entries.slice(before).map(announcement).filter(Boolean);
    if (said.length) spoken.value = said.slice(-2).join(". ");
  }, [count, run.known]);
}

function arrows(e: KeyboardEvent, tabs: Tab[], shown: Tab, choose: (tab: Tab) => void): void {
  const by = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
  if (!by) return;
  e.preventDefault();
  const next = tabs[(tabs.indexOf(shown) + by + tabs.length) % tabs.length]!;
  choose(next);
  requestAnimationFrame(() => document.getElementById(`tab-${next}`)?.focus());
}

declare module "preact" {
  namespace JSX {
    interface IntrinsicElements {
      "standfast-bar": { ref?: Ref<StandfastBar>; run: string; quiet?: boolean };
    }
  }
}
