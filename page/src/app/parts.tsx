// Small things used everywhere.
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { Status } from "../reduce";
import type { JsonValue } from "../types.gen";
import { plain } from "../odd";
import { nameWords } from "../names";
import { STATE_SHAPES, STATE_WORDS } from "../words";
import { client } from "./state";

export function State({ status, why = "" }: { status: Status; why?: string }) {
  return (
    <span class={`state ${status}`}>
      <svg viewBox="0 0 16 16" aria-hidden="true"><path fill-rule="evenodd" d={STATE_SHAPES[status]} /></svg>
      <span class="word">{STATE_WORDS[status]}</span>
      {why && <span class="why"><Words text={why} /></span>}
    </span>
  );
}

export function Panel({ title, children, aside, id, empty }: { title: string; children?: ComponentChildren; aside?: ComponentChildren; id?: string; empty?: string }) {
  const label = useId();
  return (
    <section class="panel" aria-labelledby={label} {...(id ? { id } : {})}>
      <header><h2 id={label}>{title}</h2>{aside}</header>
      {children ?? (empty && <p class="empty">{empty}</p>)}
    </section>
  );
}

export function Value({ value }: { value: JsonValue | undefined }) {
  if (typeof value === "string" && value.includes("\n")) return <pre class="value" tabIndex={0}>{value}</pre>;
  return <pre class="value" tabIndex={0}>{JSON.stringify(value ?? null, null, 2)}</pre>;
}

export function At({ time }: { time: number }) {
  if (!time) return null;
  const date = new Date(time * 1000);
  return <time dateTime={date.toISOString()} title={date.toLocaleString()}>{date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false })}</time>;
}

export function Effect({ effect }: { effect: string }) {
  return effect === "" ? null : <span class={`effect ${effect}`}>{effect}</span>;
}

/** Other people’s words: they turn nothing round but themselves, and hide nothing. */
export function Words({ text }: { text: string }) {
  return <bdi>{plain(text)}</bdi>;
}

/** Who did it; a name that no token proves is called claimed. */
export function By({ who, token }: { who: string | null; token: string }) {
  return <b class="by"><Words text={nameWords(who, token)} /></b>;
}

/** A page keeps only so much of what was said; the server has it all. */
export function Earlier({ run, characters }: { run: string; characters: number }) {
  if (!characters) return null;
  return <p class="muted">{characters.toLocaleString("en")} characters before this are in <a href={client.at(`api/runs/${encodeURIComponent(run)}/transcript`)}>the transcript</a>.</p>;
}
