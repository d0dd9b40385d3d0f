// More than the bar: one step at a time, back to a step, take over, perform a tool, hand back.
import { useState } from "preact/hooks";
import type { WatchedRun } from "../client";
import { nameWords } from "../names";
import { ENDED } from "../reduce";
import { fieldsOf } from "../schema";
import type { ToolInfo, Verb } from "../wire";
import { SchemaForm, blame, valuesOf, useFields } from "./form";
import { Effect } from "./parts";
import { accepted, act, changes, client, to, told } from "./state";

/** What this person may do here, as the server's greeting says. */
function offers(verb: Verb): boolean {
  return client.verbs?.includes(verb) ?? true; // a server that does not say so refuses by itself
}

export function Acting({ run }: { run: WatchedRun }) {
  void told.value;
  void changes.value;
  const { view } = run;
  const [chosen, setBack] = useState<number | null>(null);
  const back = chosen ?? Math.max(0, view.step - 1);
  const [note, setNote] = useState("");
  if (ENDED.includes(view.status) || view.status === "cancelling" || !(client.may("redirect") || client.may("pause"))) return null;
  const taken = takenBy(run);
  const tools = client.agents.find((a) => a.name === view.agent)?.tools ?? [];
  return (
    <div class="acting">
      <div class="row">
        {view.status === "paused" && client.may("pause") && <button onClick={() => void act(run.id, "step_once")}>Take one step</button>}
        {view.step > 0 && client.may("redirect") && (
          <form class="row" onSubmit={(e) => { e.preventDefault(); void act(run.id, "rewind", { to: back }); }}>
            <button>Undo back to step</button>
            <input type="number" aria-label="Step to go back to" min="0" max={view.step} value={back} onInput={(e) => setBack(Number(e.currentTarget.value))} />
          </form>
        )}
        {offers("take_over") && !taken && client.may("redirect") && <button onClick={() => void act(run.id, "take_over")}>Take over</button>}
      </div>
      {taken && client.may("redirect") && (
        <div class="takeover">
          <p><b>{taken}</b> has taken this run over: the agent waits.</p>
          <Performed run={run} />
          {offers("perform") && tools.length > 0 && <Perform run={run} tools={tools} />}
          <form class="row" onSubmit={(e) => { e.preventDefault(); void act(run.id, "hand_back", { note }).then((a) => accepted(a) && setNote("")); }}>
            <input class="grow" aria-label="Note for the agent" placeholder="what you did, for the agent" value={note} onInput={(e) => setNote(e.currentTarget.value)} />
            <button class="primary">Hand back</button>
          </form>
        </div>
      )}
    </div>
  );
}

/** What was performed since the run was taken over, and what it gave. */
function Performed({ run }: { run: WatchedRun }) {
  void told.value;
  const since = run.history.entries.findLastIndex((e) => e.type === "taken_over");
  const done = run.history.entries.slice(since).filter((e) => e.type === "person_acted");
  if (!done.length) return null;
  return (
    <ul class="plainlist performed">
      {done.map((e) => (
        <li key={e.seq}><a href={to.call(run.id, e.call)}>{e.tool}</a> {e.error ? <span class="problem">{e.error}: {e.message}</span> : <code>{JSON.stringify(e.result)?.slice(0, 200)}</code>}</li>
      ))}
    </ul>
  );
}

/** Who has taken the run over; empty if nobody has. */
export function takenBy(run: WatchedRun): string {
  return run.view.taken_by && nameWords(run.view.taken_by, run.view.taken_token, "somebody");
}

function Perform({ run, tools }: { run: WatchedRun; tools: ToolInfo[] }) {
  const [name, setName] = useState(tools[0]!.name);
  const tool = tools.find((t) => t.name === name) ?? tools[0]!;
  return (
    <div class="perform">
      <label class="field">Perform a tool<select value={tool.name} onChange={(e) => setName(e.currentTarget.value)}>{tools.map((t) => <option key={t.name}>{t.name}</option>)}</select></label>
      {tool.effect && <Effect effect={tool.effect} />}
      <PerformForm key={tool.name} run={run} tool={tool} />
    </div>
  );
}

function PerformForm({ run, tool }: { run: WatchedRun; tool: ToolInfo }) {
  const form = useFields(fieldsOf(tool.schema));
  const submit = () => {
    const args = valuesOf(form);
    if (args) void act(run.id, "perform", { tool: tool.name, args }, (problem) => blame(form, problem));
  };
  return <SchemaForm form={form} submit={`Perform ${tool.name}`} onSubmit={submit} />;
}
