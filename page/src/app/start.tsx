// A new run, from a form made of the agent's state.
import { useEffect, useState } from "preact/hooks";
import { labelsOf } from "../filter";
import { fieldsOf } from "../schema";
import type { Json } from "../types.gen";
import type { AgentInfo } from "../wire";
import { SchemaForm, blame, useFields, valuesOf } from "./form";
import { act, changes, client, to } from "./state";

export function Start() {
  void changes.value;
  const [name, setName] = useState("");
  useEffect(() => void client.readAgents(), [client.connection]);
  const agents = client.agents;
  const agent = agents.find((a) => a.name === name) ?? agents[0];
  return (
    <main class="narrow" id="main">
      <h1>New run</h1>
      {!agent ? <p class="empty">This server knows no agent. Start it with one: standfast serve module:agent</p> : (
        <section class="panel pad">
          <label class="field">Agent<select value={agent.name} onChange={(e) => setName(e.currentTarget.value)}>{agents.map((a) => <option key={a.name} value={a.name}>{a.name}</option>)}</select></label>
          {agent.description && <p>{agent.description}</p>}
          {agent.models?.length ? <p class="muted">Model: {agent.models.join(", ")}</p> : null}
          {agent.plan?.length ? <ol class="preview">{agent.plan.map(([id, title]) => <li key={id}>{title}</li>)}</ol> : null}
          <StartForm key={agent.name} agent={agent} />
        </section>
      )}
    </main>
  );
}

function StartForm({ agent }: { agent: AgentInfo }) {
  const all = fieldsOf(agent.schema);
  const textField = agent.text_field ?? null;
  const fields = textField ? all.filter((f) => f.name === textField).map((f) => ({ ...f, kind: "long" as const, required: true })) : all;
  const form = useFields(fields);
  const [labels, setLabels] = useState("");
  const submit = async () => {
    const state = valuesOf(form);
    if (!state) return;
    const given: Json = { agent: agent.name, state: textField ? state[textField]! : state };
    const parsed = labelsOf(labels);
    if (Object.keys(parsed).length) given["labels"] = parsed;
    const answer = await act(null, "start", given, (problem) => blame(form, problem));
    if (answer?.answer === "accepted" && answer.run) location.hash = to.run(answer.run.id);
  };
  return (
    <>
      <label class="field">Labels<input placeholder="team: growth, ticket: 42" value={labels} onInput={(e) => setLabels(e.currentTarget.value)} /></label>
      <SchemaForm form={form} submit={`Start ${agent.name}`} onSubmit={() => void submit()} />
    </>
  );
}
