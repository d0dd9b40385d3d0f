// All runs; those that need someone on top.
import { useEffect, useState } from "preact/hooks";
import { ENDED, times, type Status } from "../reduce";
import type { RunView } from "../types.gen";
import { filterOf, type Chosen } from "../filter";
import { STATE_WORDS, clock, isUnread, money, planPosition, whyPaused } from "../words";
import { Halts } from "./halts";
import { State } from "./parts";
import { act, changes, client, keep, say, seconds, stored, to } from "./state";
import { mayNotify } from "./needing";

const NOTHING: Chosen = { text: "", status: "", agent: "", label: "" };

export function List() {
  void changes.value;
  const [chosen, setChosen] = useState<Chosen>(() => stored("filter", NOTHING));
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => {
    keep("filter", chosen);
    client.list(filterOf(chosen));
  }, [chosen]);
  const choose = (part: Partial<Chosen>) => setChosen({ ...chosen, ...part });
  const runs = client.runs;
  const needing = runs.filter((r) => r.needs.length);
  const live = runs.filter((r) => !r.needs.length && !ENDED.includes(r.status));
  const ended = runs.filter((r) => !r.needs.length && ENDED.includes(r.status));
  const pick = (id: string, on: boolean) => {
    const next = new Set(picked);
    if (on) next.add(id);
    else next.delete(id);
    setPicked(next);
  };
  const group = (title: string, some: RunView[], tone = "") => some.length > 0 && (
    <section class={`runs ${tone}`} aria-label={title}>
      <h2>{title} <span class="count">{some.length}</span></h2>
      <ul>{some.map((r) => <RunLine key={r.id} run={r} picked={picked.has(r.id)} onPick={(on) => pick(r.id, on)} />)}</ul>
    </section>
  );
  return (
    <main id="main">
      <div class="listhead">
        <h1>Runs</h1>
        <Notify />
        {client.may("redirect") && !client.me.runs && <a class="button primary" href={to.start()}>New run</a>}
      </div>
      <Halts />
      <form class="filters" role="search" onSubmit={(e) => e.preventDefault()}>
        <input type="search" aria-label="Search" placeholder="Search" value={chosen.text} onInput={(e) => choose({ text: e.currentTarget.value })} />
        <select aria-label="Status" value={chosen.status} onChange={(e) => choose({ status: e.currentTarget.value })}>
          <option value="">any status</option><option value="needs">needs someone</option><option value="live">live</option><option value="ended">ended</option>
          {Object.entries(STATE_WORDS).map(([s, word]) => <option key={s} value={s}>{word.toLowerCase()}</option>)}
        </select>
        <select aria-label="Agent" value={chosen.agent} onChange={(e) => choose({ agent: e.currentTarget.value })}>
          <option value="">any agent</option>{client.agents.map((a) => <option key={a.name}>{a.name}</option>)}
        </select>
        <input aria-label="Label" placeholder="label: value" value={chosen.label} onInput={(e) => choose({ label: e.currentTarget.value })} />
      </form>
      <Bulk picked={runs.filter((r) => picked.has(r.id))} clear={() => setPicked(new Set())} />
      {group("Needs someone", needing, "needing")}
      {group("Live", live)}
      {group("Ended", ended)}
      {!runs.length && <p class="empty big">{!client.runsKnown ? "Reading…" : JSON.stringify(chosen) === JSON.stringify(NOTHING) ? "No run yet. Start one, and watch it here." : "No run fits this filter."}</p>}
    </main>
  );
}

function RunLine({ run, picked, onPick }: { run: RunView; picked: boolean; onPick: (on: boolean) => void }) {
  if (!ENDED.includes(run.status)) void seconds.value;
  const { elapsed, paused } = times(run, client.lately());
  const labels = Object.entries(run.labels);
  const need = run.needs[0];
  const below = Object.entries(run.child_needs)[0];
  const child = below && !need && !run.not_read.length ? `a child needs you: ${below[1]} (${below[0]})` : "";
  const unread = need ? "" : run.not_read[0] ?? (below && isUnread(below[1]) ? child : "");
  const doing = [need?.text, need?.about].filter(Boolean).join(" ") || child || (run.status === "done" || run.status === "cancelled" ? "" : run.status === "paused" ? whyPaused(run.holds) : run.error || run.waiting_for || run.plan.find((i) => i.status === "running")?.title || "");
  return (
    <li class={run.status}>
      <input type="checkbox" aria-label={`Select ${run.id}`} checked={picked} onChange={(e) => onPick(e.currentTarget.checked)} />
      <a class="open" href={to.run(run.id)}>
        <State status={run.status} />
        <span class="what"><b>{run.agent}</b> <span class="mono muted id">{run.id}</span>{labels.map(([k, v]) => <span class="label" key={k}>{k}: {v}</span>)}</span>
        <span class={unread || need?.kind === "unread" ? "doing problem" : "doing"}>{unread || doing}</span>
        <span class="numbers mono">
          {planPosition(run) && <span>{planPosition(run)}</span>}
          <span>{clock(elapsed)}{paused >= 1 && <span class="muted"> ({clock(paused)} paused)</span>}</span>
          {run.spent.cost > 0 && <span>{money(run.spent.cost)}</span>}
        </span>
      </a>
    </li>
  );
}

/** Pause, cancel and approve several at once; each answer is its own, and counted. */
function Bulk({ picked, clear }: { picked: RunView[]; clear: () => void }) {
  if (!picked.length) return null;
  const live = picked.filter((r) => !ENDED.includes(r.status));
  const pausable = live.filter((r) => (["queued", "running"] as Status[]).includes(r.status));
  const approvals = picked.flatMap((r) => r.needs.filter((n) => n.kind === "approval").map((n) => ({ run: r.id, call: n.call ?? n.id })));
  const all = async (what: string, asked: Promise<unknown>[]) => {
    const answers = (await Promise.all(asked)) as ({ answer: string } | null)[];
    const yes = answers.filter((a) => a?.answer === "accepted").length;
    say(`${what}: ${yes} of ${answers.length} accepted`);
    clear();
  };
  return (
    <div class="bulk" role="group" aria-label="Selected runs">
      <b>{picked.length} selected</b>
      <button disabled={!pausable.length || !client.may("pause")} onClick={() => void all("Pause", pausable.map((r) => act(r.id, "pause")))}>Pause {pausable.length}</button>
      <button class="danger" disabled={!live.length || !client.may("cancel")} onClick={() => void all("Cancel", live.map((r) => act(r.id, "cancel")))}>Cancel {live.length}</button>
      <button disabled={!approvals.length || !client.may("resolve")} onClick={() => void all("Approve", approvals.map((a) => act(a.run, "approve", { call_id: a.call })))}>Approve {approvals.length}</button>
      <button class="quiet" onClick={clear}>Clear</button>
    </div>
  );
}

function Notify() {
  const [asked, setAsked] = useState(() => ("Notification" in window ? Notification.permission : "denied"));
  if (asked !== "default") return null;
  return <button class="quiet" onClick={() => void Notification.requestPermission().then(setAsked).then(() => mayNotify())}>Notify me</button>;
}
