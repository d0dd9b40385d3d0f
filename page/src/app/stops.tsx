// The record of each stop: its times on one line, and where the text of each client ends. For those with the right.
import { useEffect, useState } from "preact/hooks";
import type { WatchedRun } from "../client";
import type { Moment, Reached, Received, StopRecord } from "../types.gen";
import { HANDS, sentence, TRIGGER_WORDS } from "../words";
import { named, nameWords } from "../names";
import { plain } from "../odd";
import { At, By, Words } from "./parts";
import { client, get } from "./state";

type Stop = StopRecord & { clients_known: boolean };
type Dot = { at: number; what: string; kind: "asked" | "accepted" | "provider" | "client" | "settled" };

const WAYS: { [way in Reached["way"]]: string } = { page: "page", events: "event stream", all_events: "all events", agui: "AG-UI" };

export function Stops({ run }: { run: WatchedRun }) {
  const [open, setOpen] = useState(false);
  const [stops, setStops] = useState<Stop[] | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (!open) return;
    allStops(run.id).then((found) => (setStops(found), setProblem("")), (error: Error) => setProblem(error.message));
  }, [open, run.id, run.view.seq]);
  if (!client.may("forensics")) return null;
  return (
    <details class="stops" open={open} onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>Stop record</summary>
      {problem && <p class="problem">{problem}</p>}
      {open && stops?.length === 0 && <p class="muted">Nothing has stopped this run.</p>}
      {open && stops?.map((stop) => <One key={stop.seq} stop={stop} />)}
    </details>
  );
}

/** Page by page: a server answers with so much at a time. */
async function allStops(run: string): Promise<Stop[]> {
  const found: Stop[] = [];
  for (;;) {
    const page = await get<{ stops: Stop[]; more?: boolean }>(`runs/${encodeURIComponent(run)}/stops?after=${found.length}`);
    found.push(...page.stops);
    if (!page.more || !page.stops.length) return found;
  }
}

function One({ stop }: { stop: Stop }) {
  const dots = timesOf(stop);
  return (
    <section class="stop" aria-label={`Stop ${stop.number}`}>
      <h3>Stop {stop.number}: {stop.verb.replace("_", " ")} <span class="muted">{TRIGGER_WORDS[stop.trigger]}</span></h3>
      <p>{HANDS.includes(stop.trigger) || named(stop.by, stop.trigger) ? <By who={stop.by} token={stop.by_token} /> : <b>{sentence(TRIGGER_WORDS[stop.trigger])}</b>}{stop.reason && <>: “<Words text={stop.reason} />”</>}, accepted <At time={stop.accepted.at} />{stop.route && <span class="muted"> via <Words text={stop.route} /></span>}</p>
      <Line dots={dots} />
      <ol class="times">{dots.map((dot, i) => <li key={i}><i class={`dot ${dot.kind}`} aria-hidden="true" /><span class="ms">{milliseconds(dot.at)}</span> <Words text={dot.what} /></li>)}</ol>
      {!stop.settled && <p>It has not settled yet.</p>}
      {!stop.clients_known && <p class="no">No server told of its clients: whether anybody was given this text is unknown.</p>}
      {stop.told.some((t) => t.fetched > 0) && <p class="muted">{stop.told.reduce((sum, t) => sum + t.fetched, 0)} requests for its text were answered; how much of it they had is not counted.</p>}
      {stop.told.some((t) => t.left_out > 0) && <p class="no">{stop.told.reduce((sum, t) => sum + t.left_out, 0)} more clients are not named.</p>}
      <Texts stop={stop} />
      {stop.held_back.map((h, i) => <p key={i} class="muted">{h.why === "tripwire" ? "A tripwire held back" : "Not handed over a counted connection:"} {h.characters} characters of {h.channel}, from {h.start} on; SHA-256 {h.digest.slice(0, 16)}…</p>)}
    </section>
  );
}

/** The text of each call once, with a mark where what each client was handed ends. */
function Texts({ stop }: { stop: Stop }) {
  const calls = new Map<string, { text: string[]; start: number; ends: { at: number; who: Reached }[] }>();
  for (const who of stop.clients) {
    for (const text of who.texts) {
      if (text.channel !== "text" || !stop.streams.some((s) => s.call === text.call && s.attempt === text.attempt)) continue;
      const key = `${text.call} ${text.attempt} ${text.take} ${text.start}`;
      const known = calls.get(key) ?? { text: handed(stop, text), start: text.start, ends: [] };
      known.ends.push({ at: text.characters, who });
      calls.set(key, known);
    }
  }
  return (
    <>
      {[...calls].map(([key, call]) => <div key={key} class="partial reached" tabIndex={0}>{call.start > 0 && <span class="muted">[from character {call.start}; what lies before is not of this piece] </span>}{cut(call.text, call.ends)}</div>)}
      {stop.clients.filter((c) => !c.texts.length).map((c) => <p key={c.client} class="muted"><Words text={nameOf(c)} /> was handed no text.</p>)}
    </>
  );
}

/** What the record holds from where a piece begins, in whole characters, as the server counts them. */
function handed(stop: Stop, piece: Received): string[] {
  for (const one of stop.texts) {
    if (one.call !== piece.call || one.attempt !== piece.attempt || one.take !== piece.take || one.channel !== piece.channel || piece.start < one.start) continue;
    const characters = [...one.text];
    if (piece.start < one.start + characters.length) return characters.slice(piece.start - one.start);
  }
  return [];
}

function cut(characters: string[], ends: { at: number; who: Reached }[]) {
  const places = [...new Set(ends.map((end) => end.at))].sort((a, b) => a - b);
  return places.map((place, i) => (
    <span key={place} class={i ? "fewer" : ""}>
      <Words text={characters.slice(i ? places[i - 1] : 0, place).join("")} />
      {ends.filter((end) => end.at === place).map(({ who }) => <mark key={who.client} class="ends" title={plain(who.program)}>▏<Words text={nameOf(who)} />{who.left ? ", had left" : who.behind ? ", was behind" : ""}{who.after_accepted > 0 && `, ${who.at_least ? "at least " : ""}${who.after_accepted} after accepted`}</mark>)}
    </span>
  ));
}

function Line({ dots }: { dots: Dot[] }) {
  const first = dots[0]?.at ?? 0, span = Math.max((dots[dots.length - 1]?.at ?? 0) - first, 0.001);
  return (
    <svg class="timeline-of-stop" viewBox="0 0 1000 24" preserveAspectRatio="none" role="img" aria-label={dots.map((d) => `${plain(d.what)} ${milliseconds(d.at)}`).join("; ")}>
      <line x1="10" x2="990" y1="12" y2="12" />
      {dots.map((dot, i) => <line key={i} class={`tick ${dot.kind}`} x1={10 + (980 * (dot.at - first)) / span} x2={10 + (980 * (dot.at - first)) / span} y1="2" y2="22" />)}
    </svg>
  );
}

function timesOf(stop: Stop): Dot[] {
  const dots: Dot[] = [];
  const add = (moment: Moment | null, what: string, kind: Dot["kind"]) => moment && dots.push({ at: since(stop.accepted, moment), what, kind });
  add(stop.asked, "asked", "asked");
  add(stop.accepted, "accepted", "accepted");
  for (const stream of stop.streams) add(stream.last_byte, `last byte from ${stream.tool}`, "provider");
  for (const who of stop.clients) add(who.last_byte, `last byte to ${nameOf(who)}`, "client");
  add(stop.settled, `settled: ${stop.status}${stop.still_running.length ? `; still running: ${stop.still_running.join(", ")}` : ""}`, "settled");
  return dots.sort((a, b) => a.at - b.at);
}

/** By the clock that nobody can set, where both are of one machine. */
function since(accepted: Moment, moment: Moment): number {
  if (moment.uptime === null || accepted.uptime === null || moment.boot === null || moment.boot !== accepted.boot) return moment.at - accepted.at;
  return moment.uptime - accepted.uptime;
}

const milliseconds = (seconds: number) => `${seconds < 0 ? "−" : "+"}${Math.abs(seconds * 1000).toFixed(1)} ms`;
const nameOf = (who: Reached) => `${nameWords(who.by, who.by_token, "somebody")} (${WAYS[who.way]} ${who.client.slice(-4)})`;
