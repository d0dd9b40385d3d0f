// A form from a JSON schema: simple fields get their own input, all else is edited as JSON, with an example.
import { exampleOf, optionsOf, resolved } from "./examples";
import type { Json, JsonValue } from "./types.gen";
import { isObject } from "./patch";

export interface Field {
  name: string;
  label: string;
  help: string;
  kind: "text" | "long" | "number" | "integer" | "boolean" | "choice" | "lines" | "date" | "datetime" | "json";
  required: boolean;
  choices: JsonValue[];
  initial: string;
  examples: JsonValue[]; // of a field that is edited as JSON: one for each form it may have
  textToo: boolean; // what is no JSON is a text, and may be one
}

export function fieldsOf(schema: Json | undefined): Field[] {
  const properties = schema?.["properties"];
  if (!schema || !isObject(properties)) return [];
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(properties).map(([name, given]) => {
    const own = isObject(given) ? given : {};
    const property = resolved(own, schema);
    const title = "$ref" in own ? own["title"] : property["title"]; // a model's title is not its field's
    const kind = kindOf(property, schema);
    return {
      name, kind,
      label: typeof title === "string" ? title : name,
      help: typeof property["description"] === "string" ? property["description"] : "",
      required: required.includes(name),
      choices: Array.isArray(property["enum"]) ? property["enum"] : [],
      initial: shown(property["default"], kind),
      examples: kind === "json" ? optionsOf(property, schema).map((o) => exampleOf(o, schema)) : [],
      textToo: kind === "json" && optionsOf(property, schema).some((o) => o["type"] === "string"),
    };
  });
}

function kindOf(property: Json, root: Json): Field["kind"] {
  if (Array.isArray(property["enum"])) return "choice";
  const options = optionsOf(property, root);
  if (options.length === 1 && options[0] !== property) return kindOf(options[0]!, root);
  switch (property["type"]) {
    case "string":
      if (property["format"] === "date") return "date";
      if (property["format"] === "date-time") return "datetime";
      return /text|task|prompt|question|body|topic/i.test(String(property["title"] ?? "")) ? "long" : "text";
    case "integer":
      return "integer";
    case "number":
      return "number";
    case "boolean":
      return "boolean";
    case "array":
      return isObject(property["items"]) && property["items"]["type"] === "string" ? "lines" : "json";
    default:
      return "json";
  }
}

/** How a value stands in its input. */
export function shown(value: JsonValue | undefined, kind: Field["kind"]): string {
  if (value === undefined || value === null) return "";
  if (kind === "lines" && Array.isArray(value)) return value.join("\n");
  if (kind === "json") return JSON.stringify(value, null, 2);
  return String(value);
}

/** The value of an input, or why it is none; undefined leaves the field to its default. */
export function read(field: Field, text: string): { value?: JsonValue | undefined; problem?: string } {
  if (text.trim() === "" && field.kind !== "boolean") return field.required ? { problem: `${field.label} is needed` } : {};
  switch (field.kind) {
    case "number":
    case "integer": {
      const n = Number(text);
      if (Number.isNaN(n) || (field.kind === "integer" && !Number.isInteger(n))) return { problem: `${field.label}: ${text} is not a ${field.kind === "integer" ? "whole " : ""}number` };
      return { value: n };
    }
    case "boolean":
      return { value: text === "true" };
    case "choice":
      return { value: field.choices.find((c) => String(c) === text) ?? text };
    case "lines":
      return { value: text.split("\n").map((l) => l.trim()).filter(Boolean) };
    case "json":
      try {
        return { value: JSON.parse(text) as JsonValue };
      } catch (error) {
        return field.textToo ? { value: text } : { problem: `${field.label} is not JSON: ${(error as Error).message}` };
      }
    default:
      return { value: text };
  }
}

/** Which field the server found fault with, and what it says of it; null if it names none of these. */
export function faultOf(fields: Field[], detail: string): { field: string; problem: string } | null {
  const found = /(?:\bfield |does not fit at )([^\s:]+): ([^]*)/.exec(detail);
  if (!found) return null;
  const [, path = "", problem = ""] = found;
  const field = fields.find((f) => f.name === path.split(/[.[]/)[0]);
  return field ? { field: field.name, problem: path === field.name ? problem : `${path}: ${problem}` } : null;
}
