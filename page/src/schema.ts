// A form from a JSON schema: simple fields get their own input, all else is edited as JSON.
import type { Json, JsonValue } from "./types.gen";
import { isObject } from "./patch";

export interface Field {
  name: string;
  label: string;
  help: string;
  kind: "text" | "long" | "number" | "integer" | "boolean" | "choice" | "lines" | "json";
  required: boolean;
  choices: JsonValue[];
  initial: string;
}

export function fieldsOf(schema: Json | undefined): Field[] {
  const properties = schema?.["properties"];
  if (!schema || !isObject(properties)) return [];
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(properties).map(([name, given]) => {
    const property = resolved(isObject(given) ? given : {}, schema);
    const kind = kindOf(property, schema);
    return {
      name, kind,
      label: typeof property["title"] === "string" ? property["title"] : name,
      help: typeof property["description"] === "string" ? property["description"] : "",
      required: required.includes(name),
      choices: Array.isArray(property["enum"]) ? property["enum"] : [],
      initial: shown(property["default"], kind),
    };
  });
}

function resolved(property: Json, root: Json): Json {
  const ref = property["$ref"];
  if (typeof ref !== "string") return property;
  let found: JsonValue | undefined = root;
  for (const part of ref.replace(/^#\//, "").split("/")) found = isObject(found) ? found[part] : undefined;
  return isObject(found) ? { ...found, ...property } : property;
}

function kindOf(property: Json, root: Json): Field["kind"] {
  if (Array.isArray(property["enum"])) return "choice";
  const options = Array.isArray(property["anyOf"]) ? property["anyOf"].filter((o) => isObject(o) && o["type"] !== "null") : [];
  if (options.length === 1 && isObject(options[0]!)) return kindOf(resolved(options[0] as Json, root), root);
  switch (property["type"]) {
    case "string":
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
      } catch {
        return { problem: `${field.label} is not JSON` };
      }
    default:
      return { value: text };
  }
}
