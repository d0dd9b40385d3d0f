// Runs that need someone: in the tab's title, and as a notification when nobody looks.
import type { RunView } from "../types.gen";
import { client, route, to } from "./state";

const told = new Set<string>();
let before: string | null = null;

export function mayNotify(): boolean {
  return "Notification" in window && Notification.permission === "granted";
}

export function titleOf(page: string, needing: number): string {
  return `${needing ? `(${needing}) ` : ""}${page ? `${page} · ` : ""}standfast`;
}

export function watchNeeds(): void {
  const look = () => {
    const here = route.value;
    const needing = client.runs.filter((r) => r.needs.length);
    const page = here.page === "run" ? here.run : here.page === "new" ? "new run" : "";
    const title = titleOf(page, needing.length);
    if (title !== before) {
      before = title;
      document.title = title;
    }
    for (const run of needing) announce(run);
  };
  client.subscribe(look);
  route.subscribe(look);
}

function announce(run: RunView): void {
  for (const need of run.needs) {
    const key = `${run.id} ${need.id} ${need.since}`;
    if (told.has(key)) continue;
    told.add(key);
    if (!document.hidden || !mayNotify()) continue;
    const shown = new Notification(`${run.agent} needs someone`, { body: [need.text, need.about].filter(Boolean).join(" "), tag: key });
    shown.onclick = () => {
      window.focus();
      location.hash = to.run(run.id);
    };
  }
}
