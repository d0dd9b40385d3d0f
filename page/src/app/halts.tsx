// Operators' halts: who holds what, why and since when; on the list and on the page of a run they hold.
import { Words } from "./parts";
import { signal, type Signal } from "@preact/signals";
import type { Halt, RunView } from "../types.gen";
import { byWords } from "../names";
import { client, get, say } from "./state";

export const halts: Signal<readonly Halt[]> = signal([]);

const LOOK = 3000;

async function look(): Promise<void> {
  if (document.hidden || client.connection === "unauthorised") return;
  try {
    halts.value = (await get<{ halts: Halt[] }>("halts")).halts;
  } catch {
    // The connection's own words say so; what was known stays on the page.
  }
}

/** Look now and then, from now on. */
export function watchHalts(): void {
  void look();
  setInterval(() => void look(), LOOK);
}

function matches(halt: Halt, run: RunView): boolean {
  return (halt.agent === null || halt.agent === run.agent) && Object.entries(halt.labels).every(([k, v]) => run.labels[k] === v);
}

function what(halt: Halt): string {
  const parts = [...(halt.agent === null ? [] : [`agent ${halt.agent}`]), ...Object.entries(halt.labels).map(([k, v]) => `${k}: ${v}`)];
  return parts.length ? parts.join(", ") : "every run";
}

async function lift(halt: Halt): Promise<void> {
  const response = await fetch(`api/halts/${encodeURIComponent(halt.id)}/lift`, {
    method: "POST", headers: { "content-type": "application/json" }, body: "{}",
  });
  if (response.ok) say(`The halt of ${what(halt)} is lifted.`);
  else say(((await response.json().catch(() => null)) as { detail?: string } | null)?.detail ?? `the server answered ${response.status}`, "no");
  await look();
}

/** All of them; of a run, those that hold it. */
export function Halts({ run }: { run?: RunView }) {
  const mine = run && halts.value.filter((h) => matches(h, run));
  const shown = !run ? halts.value : !run.holds.includes("halted") ? [] : mine?.length ? mine : halts.value;
  if (!shown.length) return null;
  const operates = (client.me.rights ?? []).some((right) => right === "*" || right === "operator");
  return (
    <section class="halts" aria-label="Halts">
      {shown.map((h) => (
        <p key={h.id} class="halt">
          <b>Halted: {what(h)}</b>
          <span class="grow"><Words text={h.reason} /></span>
          <span class="muted"><Words text={byWords(h.by, h.by_token, "somebody")} /> since <time dateTime={new Date(h.at * 1000).toISOString()}>{new Date(h.at * 1000).toLocaleString()}</time>{!run && h.runs > 0 ? `, holds ${h.runs}` : ""}{h.signature === "wrong" ? ", wrongly signed" : ""}</span>
          {operates && <button class="slim" onClick={() => void lift(h)} aria-label={`Lift the halt of ${what(h)}`}>Lift</button>}
        </p>
      ))}
    </section>
  );
}
