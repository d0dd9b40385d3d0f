// A form made of a JSON schema.
import { useId, useState } from "preact/hooks";
import { faultOf, read, type Field } from "../schema";
import type { Json } from "../types.gen";
import type { Problem } from "../wire";

export interface FormState {
  fields: Field[];
  text: { [name: string]: string };
  set: (name: string, text: string) => void;
  problems: { [name: string]: string }; // each beside its field
  setProblems: (problems: { [name: string]: string }) => void;
}

export function useFields(fields: Field[]): FormState {
  const [text, setText] = useState<{ [name: string]: string }>(() => Object.fromEntries(fields.map((f) => [f.name, f.initial])));
  const [problems, setProblems] = useState<{ [name: string]: string }>({});
  return { fields, text, set: (name, value) => setText((old) => ({ ...old, [name]: value })), problems, setProblems };
}

/** The values of all fields, or null with the problems shown. */
export function valuesOf(form: FormState): Json | null {
  const out: Json = {};
  const problems: { [name: string]: string } = {};
  for (const field of form.fields) {
    const { value, problem } = read(field, form.text[field.name] ?? "");
    if (problem) problems[field.name] = problem;
    else if (value !== undefined) out[field.name] = value;
  }
  form.setProblems(problems);
  return Object.keys(problems).length ? null : out;
}

/** Show beside its field what the server says of it; false if it names no field of the form. */
export function blame(form: FormState, problem: Problem): boolean {
  const fault = faultOf(form.fields, problem.detail ?? "");
  if (fault) form.setProblems({ [fault.field]: fault.problem });
  return fault !== null;
}

export function SchemaForm({ form, submit, onSubmit }: { form: FormState; submit: string; onSubmit: () => void }) {
  const needed = form.fields.filter((f) => f.required || !form.fields.some((g) => g.required));
  const rest = form.fields.filter((f) => !needed.includes(f));
  const hidden = rest.some((f) => form.problems[f.name]);
  return (
    <form class="schema" noValidate onSubmit={(e) => { e.preventDefault(); onSubmit(); }}>
      {needed.map((field) => <Input key={field.name} field={field} form={form} />)}
      {rest.length > 0 && <details open={hidden || undefined}><summary>More fields</summary>{rest.map((field) => <Input key={field.name} field={field} form={form} />)}</details>}
      <div class="row"><button class="primary">{submit}</button></div>
    </form>
  );
}

function Input({ field, form }: { field: Field; form: FormState }) {
  const id = useId();
  const value = form.text[field.name] ?? "";
  const problem = form.problems[field.name];
  const set = (text: string) => form.set(field.name, text);
  const same = {
    id, value, "aria-required": field.required, "aria-invalid": problem !== undefined, "aria-describedby": `${id}-about`,
    onInput: (e: { currentTarget: { value: string } }) => set(e.currentTarget.value),
  };
  const about = (
    <span id={`${id}-about`} class="about">
      {problem && <span class="problem" role="alert">{problem}</span>}
      {field.help && <span class="muted help">{field.help}</span>}
      {field.examples.length > 0 && <span class="muted help">for example {field.examples.map((e, i) => <>{i > 0 && " or "}<code>{JSON.stringify(e)}</code></>)}</span>}
    </span>
  );
  if (field.kind === "boolean") {
    return <div class="field"><label class="check"><input type="checkbox" aria-describedby={`${id}-about`} checked={value === "true"} onChange={(e) => set(String(e.currentTarget.checked))} /> {field.label}</label>{about}</div>;
  }
  return (
    <div class="field">
      <label for={id}>{field.label}{field.required && <span class="needed"> required</span>}{hintOf(field) && <span class="muted"> {hintOf(field)}</span>}</label>
      <Control field={field} value={value} same={same} />
      {about}
      {field.examples.length > 0 && !value.trim() && <button type="button" class="slim quiet fill" onClick={() => set(JSON.stringify(field.examples[0], null, 2))}>Fill in the example</button>}
    </div>
  );
}

function Control({ field, value, same }: { field: Field; value: string; same: object }) {
  const rows = field.kind === "long" ? 3 : Math.min(10, Math.max(2, value.split("\n").length));
  switch (field.kind) {
    case "choice":
      return <select {...same}>{(!field.required || !value) && <option value="" />}{field.choices.map((c) => <option key={String(c)} value={String(c)}>{String(c)}</option>)}</select>;
    case "long":
    case "lines":
      return <textarea {...same} rows={rows} />;
    case "json":
      return <textarea {...same} class="code" spellcheck={false} rows={rows} />;
    case "date":
      return <input {...same} type="date" />;
    case "datetime":
      return <input {...same} type="datetime-local" step="1" />;
    case "number":
    case "integer":
      return <input {...same} type="number" step={field.kind === "integer" ? "1" : "any"} />;
    default:
      return <input {...same} />;
  }
}

function hintOf(field: Field): string {
  return field.kind === "lines" ? "one a line" : field.kind === "json" ? (field.textToo ? "JSON or text" : "JSON") : "";
}
