// A form made of a JSON schema.
import { useState } from "preact/hooks";
import { read, type Field } from "../schema";
import type { Json } from "../types.gen";

export interface FormState {
  fields: Field[];
  text: { [name: string]: string };
  set: (name: string, text: string) => void;
  problem: string;
  setProblem: (problem: string) => void;
}

export function useFields(fields: Field[]): FormState {
  const [text, setText] = useState<{ [name: string]: string }>(() => Object.fromEntries(fields.map((f) => [f.name, f.initial])));
  const [problem, setProblem] = useState("");
  return { fields, text, set: (name, value) => setText((old) => ({ ...old, [name]: value })), problem, setProblem };
}

/** The values of all fields, or null with the problem shown. */
export function valuesOf(form: FormState): Json | null {
  const out: Json = {};
  for (const field of form.fields) {
    const { value, problem } = read(field, form.text[field.name] ?? "");
    if (problem) {
      form.setProblem(problem);
      return null;
    }
    if (value !== undefined) out[field.name] = value;
  }
  form.setProblem("");
  return out;
}

export function SchemaForm({ form, submit, onSubmit }: { form: FormState; submit: string; onSubmit: () => void }) {
  const needed = form.fields.filter((f) => f.required || !form.fields.some((g) => g.required));
  const rest = form.fields.filter((f) => !needed.includes(f));
  return (
    <form class="schema" onSubmit={(e) => { e.preventDefault(); onSubmit(); }}>
      {needed.map((field) => <Input key={field.name} field={field} form={form} />)}
      {rest.length > 0 && <details><summary>More fields</summary>{rest.map((field) => <Input key={field.name} field={field} form={form} />)}</details>}
      {form.problem && <p class="problem" role="alert">{form.problem}</p>}
      <div class="row"><button class="primary">{submit}</button></div>
    </form>
  );
}

function Input({ field, form }: { field: Field; form: FormState }) {
  const value = form.text[field.name] ?? "";
  const set = (text: string) => form.set(field.name, text);
  const rows = field.kind === "long" ? 3 : Math.min(10, Math.max(2, value.split("\n").length));
  if (field.kind === "boolean") {
    return <label class="check"><input type="checkbox" checked={value === "true"} onChange={(e) => set(String(e.currentTarget.checked))} /> {field.label}<Help field={field} /></label>;
  }
  return (
    <label class="field">
      <span>{field.label}{field.kind === "lines" && <span class="muted"> one a line</span>}{field.kind === "json" && <span class="muted"> JSON</span>}</span>
      {field.kind === "choice" ? <select value={value} onChange={(e) => set(e.currentTarget.value)}>{!field.required && <option value="" />}{field.choices.map((c) => <option key={String(c)} value={String(c)}>{String(c)}</option>)}</select>
        : field.kind === "long" || field.kind === "lines" || field.kind === "json" ? <textarea class={field.kind === "json" ? "code" : ""} rows={rows} value={value} onInput={(e) => set(e.currentTarget.value)} />
          : field.kind === "text" ? <input value={value} onInput={(e) => set(e.currentTarget.value)} />
            : <input type="number" step={field.kind === "integer" ? "1" : "any"} value={value} onInput={(e) => set(e.currentTarget.value)} />}
      <Help field={field} />
    </label>
  );
}

function Help({ field }: { field: Field }) {
  return field.help ? <span class="muted help">{field.help}</span> : null;
}
