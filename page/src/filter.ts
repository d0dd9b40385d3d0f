// What the list is asked for.
import { ENDED } from "./reduce";
import type { Filter } from "./wire";

export interface Chosen {
  text: string;
  status: string;
  agent: string;
  label: string;
}

export function filterOf(chosen: Chosen): Filter {
  const labels = labelsOf(chosen.label);
  const groups: { [name: string]: string[] } = { live: ["queued", "running", "pausing", "paused", "cancelling"], ended: [...ENDED] };
  return {
    limit: 200,
    ...(chosen.text.trim() ? { text: chosen.text.trim() } : {}),
    ...(chosen.status === "needs" ? { needs: true } : chosen.status ? { status: groups[chosen.status] ?? [chosen.status] } : {}),
    ...(chosen.agent ? { agent: chosen.agent } : {}),
    ...(Object.keys(labels).length ? { labels } : {}),
  };
}

export function labelsOf(text: string): { [key: string]: string } {
  const pairs = text.split(",").map((p) => p.split(/[:=]/)).filter((p) => p[0]?.trim() && p[1]?.trim());
  return Object.fromEntries(pairs.map(([key, ...value]) => [key!.trim(), value.join(":").trim()]));
}
