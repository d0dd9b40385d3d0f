// The plan with its states and the effects each item had; a click redirects from there.
import type { WatchedRun } from "../client";
import type { CallInfo } from "../history";
import { ENDED } from "../reduce";
import type { PlanItem } from "../types.gen";
import { client, to, told } from "./state";
import { Effect, Panel } from "./parts";

const RANK = ["irreversible", "write", "idempotent", "read"];

export function Plan({ run, onFrom }: { run: WatchedRun; onFrom: (item: PlanItem) => void }) {
  void told.value;
  const { status, step } = run.view;
  const firm = client.agents.find((a) => a.name === run.view.agent)?.redirects === false; // whatever an item says of itself
  const plan = firm ? run.view.plan.map((item) => ({ ...item, redirects: false })) : run.view.plan;
  const live = !ENDED.includes(status) && status !== "cancelling";
  const calls = [...run.history.calls.values()];
  const state = (item: PlanItem) => (item.status === "running" && ENDED.includes(status) ? "stopped" : item.status);
  if (!plan.length) return <StepsOnly run={run} calls={calls} />;
  return (
    <Panel title="Plan" aside={<a class="muted" href={to.step(run.id, Math.max(0, step))}>step {step}</a>}>
      <ol class="plan">
        {plan.map((item) => {
          const upTo = nextStart(plan, item);
          const mine = item.step === null ? [] : calls.filter((c) => c.step >= item.step! && c.step < upTo);
          return (
            <li key={item.id} class={state(item)} aria-current={state(item) === "running" ? "step" : undefined}>
              <PlanMark status={state(item)} />
              <div class="item">
                <span class="title">{item.step !== null ? <a href={to.step(run.id, item.step)}>{item.title}</a> : item.title}</span>
                {item.was && item.was !== item.title && <del>{item.was}</del>}
                <span class="meta"><span class="sr">{state(item)}</span>{state(item) === "stopped" && <span class="muted">not finished</span>}{effects(mine).map((e) => <Effect key={e} effect={e} />)}{marks(mine)}{live && !item.redirects && open(item) && <span class="muted fixed">takes no redirects</span>}</span>
              </div>
              {live && item.redirects && (item.step !== null || item.status === "queued") && (
                <button class="slim quiet" onClick={() => onFrom(item)} aria-label={`${item.status === "done" ? "from here" : "rewrite"}: ${item.title}`}>{item.status === "done" ? "from here" : "rewrite"}</button>
              )}
            </li>
          );
        })}
      </ol>
    </Panel>
  );
}

function open(item: PlanItem): boolean {
  return item.status === "queued" || item.status === "running";
}

/** An agent without a plan still has steps. */
function StepsOnly({ run, calls }: { run: WatchedRun; calls: CallInfo[] }) {
  void told.value;
  const latest = Array.from({ length: Math.min(run.view.step + 1, 12) }, (_, i) => run.view.step - i).reverse();
  const live = !ENDED.includes(run.view.status);
  const now = !live ? "stopped" : run.view.status === "queued" || run.view.status === "paused" ? "queued" : "running";
  return (
    <Panel title="Steps" aside={<span class="muted">no plan</span>}>
      <ol class="plan">
        {latest.filter((s) => live || s < run.view.step || calls.some((c) => c.step === s)).map((s) => (
          <li key={s} class={s < run.view.step ? "done" : now}>
            <PlanMark status={s < run.view.step ? "done" : now} />
            <div class="item"><span class="title"><a href={to.step(run.id, s)}>Step {s}</a></span><span class="meta">{effects(calls.filter((c) => c.step === s)).map((e) => <Effect key={e} effect={e} />)}</span></div>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function PlanMark({ status }: { status: PlanItem["status"] | "stopped" }) {
  const shape = {
    queued: <circle cx="8" cy="8" r="5.2" fill="none" stroke="currentColor" stroke-width="1.6" />,
    running: <><circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.4" /><circle cx="8" cy="8" r="3.2" /></>,
    done: <path d="M6.2 13.2 1.6 8.6l1.7-1.7 2.9 2.9 6.5-6.6 1.7 1.7Z" />,
    stopped: <path d="M3.5 3.5h9v9h-9Z" />,
    dropped: <path d="M3 7.1h10v1.8H3Z" />,
  }[status];
  return <svg class="dot" viewBox="0 0 16 16" aria-hidden="true">{shape}</svg>;
}

function nextStart(plan: PlanItem[], item: PlanItem): number {
  const later = plan.slice(plan.indexOf(item) + 1).find((i) => i.step !== null);
  return later?.step ?? Infinity;
}

function effects(calls: CallInfo[]): string[] {
  return RANK.filter((e) => calls.some((c) => c.effect === e));
}

function marks(calls: CallInfo[]) {
  const undone = calls.filter((c) => c.undo === "undone").length;
  const doubt = calls.some((c) => c.state === "in_doubt");
  return <>{undone > 0 && <span class="effect undone">{undone} undone</span>}{doubt && <span class="effect doubt">in doubt</span>}</>;
}
