// The record in words; by default what people did.
import { useState } from "preact/hooks";
import type { WatchedRun } from "../client";
import { tell } from "../telling";
import { to } from "./state";
import { At, By } from "./parts";

const NOISE = new Set(["plan_changed", "usage_counted", "run_claimed"]);

export function Record({ run }: { run: WatchedRun }) {
  const [people, setPeople] = useState(false);
  const told = run.history.entries.filter((e) => !NOISE.has(e.type)).map((event) => ({ event, told: tell(event) }));
  const shown = (people ? told.filter((t) => t.told.person) : told).slice(-300).reverse();
  return (
    <div class="record">
      <label class="check"><input type="checkbox" checked={people} onChange={(e) => setPeople(e.currentTarget.checked)} /> only what people did</label>
      <ol>
        {shown.map(({ event, told }) => (
          <li key={event.seq} class={told.person ? "person" : ""}>
            <span class="mono muted seq">{event.seq}</span><At time={event.at} />
            <span>{told.person && <><By who={told.by} /> </>}{told.call ? <a href={to.call(run.id, told.call)}>{told.text}</a> : told.text}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}
