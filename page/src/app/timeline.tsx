// Steps, calls and pauses as bars over time: to look at rather than read.
import type { WatchedRun } from "../client";
import type { CallInfo, Span } from "../history";
import { nameOf } from "../telling";
import { duration } from "../words";
import { client, seconds, to, told } from "./state";
import { Panel } from "./parts";

const MOST = 400; // bars; older ones are left out
const LANES = 6;
const ROW = 18;

export function Timeline({ run }: { run: WatchedRun }) {
  void told.value;
  void seconds.value;
  const { history } = run;
  const from = history.startedAt;
  if (!from || (!history.spans.length && !history.calls.size)) return null;
  const end = Math.max(history.endedAt ?? client.lately(), from + 0.05);
  const span = end - from;
  const x = (at: number) => `${(Math.min(1, Math.max(0, (at - from) / span)) * 100).toFixed(3)}%`;
  const wide = (a: number, b: number) => `${Math.max(0.15, (Math.max(0, b - a) / span) * 100).toFixed(3)}%`;
  const calls = lanes([...history.calls.values()].filter((c) => c.startedAt).slice(-MOST), end);
  const rows = Math.max(1, ...calls.map((c) => c.lane + 1));
  const held = history.spans.some((s) => s.kind !== "step");
  const height = ROW * (rows + 1 + (held ? 1 : 0)) + 4;
  return (
    <Panel title="Timeline" aside={<span class="muted mono">{duration(span)}</span>}>
      <div class="lanes"><svg class="timeline" width="100%" height={height} role="group" aria-label={`Timeline: ${history.calls.size} calls in ${duration(span)}`}>
        {history.spans.slice(-MOST).filter((s) => (s.to ?? end) - s.from > span / 2000).map((s, i) => (
          <g class={`span ${s.kind}`} key={i}>
            {s.kind === "step" ? <rect x={x(s.from)} y={1} width={wide(s.from, s.to ?? end)} height={ROW - 4} rx={3} /> : <rect x={x(s.from)} y={0} width={wide(s.from, s.to ?? end)} height={height} />}
            <title>{`${s.label}: ${duration((s.to ?? end) - s.from)}`}</title>
            <Label span={s} y={s.kind === "step" ? 0 : height - ROW} x={x(s.from)} width={wide(s.from, s.to ?? end)} enough={((s.to ?? end) - s.from) / span > 0.07} />
          </g>
        ))}
        {calls.map(({ call, lane }) => (
          <a key={call.id} href={to.call(run.id, call.id)} aria-label={`${call.title || call.tool}, ${call.state.replace("_", " ")}`}>
            <svg x={x(call.startedAt)} y={ROW * (lane + 1) + 2} width={wide(call.startedAt, call.endedAt ?? end)} height={ROW - 3} class={`call ${call.effect} ${call.state}`}>
              <rect width="100%" height="100%" rx={3} />
              {((call.endedAt ?? end) - call.startedAt) / span > 0.07 && <text x={5} y={11}>{call.title || nameOf(call.tool)}</text>}
            </svg>
            <title>{`${call.title || call.tool} (${call.effect}): ${call.state.replace("_", " ")}, ${duration((call.endedAt ?? end) - call.startedAt)}`}</title>
          </a>
        ))}
      </svg></div>
    </Panel>
  );
}

function Label({ span, x, y, width, enough }: { span: Span; x: string; y: number; width: string; enough: boolean }) {
  return enough ? <svg x={x} width={width} y={y} height={ROW}><text x={5} y={12}>{span.label}</text></svg> : null;
}

/** Calls that overlap lie in lanes of their own. */
export function lanes(calls: CallInfo[], end: number): { call: CallInfo; lane: number }[] {
  const free: number[] = [];
  return calls.map((call) => {
    let lane = free.findIndex((until) => until <= call.startedAt);
    if (lane < 0) lane = Math.min(free.length, LANES - 1);
    free[lane] = call.endedAt ?? end;
    return { call, lane };
  });
}
