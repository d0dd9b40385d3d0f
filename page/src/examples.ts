// What a value of a JSON schema looks like: an example to start from.
import { isObject } from "./patch";
import type { Json, JsonValue } from "./types.gen";

const DEEP = 5; // a model may hold itself

/** A schema in place of a reference to it. */
export function resolved(schema: Json, root: Json): Json {
  const { $ref: ref, ...own } = schema;
  if (typeof ref !== "string") return schema;
  let found: JsonValue | undefined = root;
  for (const part of ref.replace(/^#\//, "").split("/")) found = isObject(found) ? found[part] : undefined;
  return isObject(found) ? { ...found, ...own } : own;
}

/** The forms a value may have, null left out: those of a union, else the schema itself. */
export function optionsOf(schema: Json, root: Json): Json[] {
  const union = schema["anyOf"] ?? schema["oneOf"];
  if (!Array.isArray(union)) return [schema];
  return union.filter(isObject).map((o) => resolved(o, root)).filter((o) => o["type"] !== "null");
}

export function exampleOf(given: Json, root: Json, depth = 0): JsonValue {
  const schema = resolved(given, root);
  if (Array.isArray(schema["examples"]) && schema["examples"].length) return schema["examples"][0]!;
  if (schema["const"] !== undefined) return schema["const"];
  if (schema["default"] !== undefined && schema["default"] !== null) return schema["default"];
  if (Array.isArray(schema["enum"])) return schema["enum"][0] ?? null;
  const [first] = optionsOf(schema, root);
  if (first && first !== schema) return exampleOf(first, root, depth);
  if (depth > DEEP) return null;
  switch (schema["type"]) {
    case "string":
      return { date: "2026-01-31", "date-time": "2026-01-31T12:00:00", time: "12:00:00" }[String(schema["format"])] ?? "text";
    case "integer":
      return 1;
    case "number":
      return 1.5;
    case "boolean":
      return true;
    case "array": {
      const items = Array.isArray(schema["prefixItems"]) ? schema["prefixItems"] : [schema["items"] ?? {}];
      return items.map((item) => (isObject(item) ? exampleOf(item, root, depth + 1) : null));
    }
    case "null":
      return null;
    default:
      return objectOf(schema, root, depth);
  }
}

function objectOf(schema: Json, root: Json, depth: number): JsonValue {
  const properties = schema["properties"];
  if (isObject(properties)) {
    return Object.fromEntries(Object.entries(properties).map(([name, p]) => [name, isObject(p) ? exampleOf(p, root, depth + 1) : null]));
  }
  const values = schema["additionalProperties"];
  return isObject(values) ? { name: exampleOf(values, root, depth + 1) } : {};
}
