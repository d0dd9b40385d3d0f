// Permalinks: #/runs/ID, #/runs/ID/steps/3, #/runs/ID/calls/ID.
export interface Route {
  page: "list" | "new" | "run";
  run: string;
  step: number | null;
  call: string | null;
}

export function parseRoute(hash: string): Route {
  const parts = hash.replace(/^#\/?/, "").split("/").map(decoded);
  if (parts[0] === "new") return { page: "new", run: "", step: null, call: null };
  if (parts[0] !== "runs" || !parts[1]) return { page: "list", run: "", step: null, call: null };
  const step = parts[2] === "steps" && parts[3] ? Number(parts[3]) : null;
  return {
    page: "run", run: parts[1],
    step: Number.isInteger(step) ? step : null,
    call: parts[2] === "calls" && parts[3] ? parts[3] : null,
  };
}

/** A mangled link leads to the run of that name, of which the page says that it is not there. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
