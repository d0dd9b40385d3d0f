// The record in words; by default what people did.
import { useState } from "preact/hooks";
import type { WatchedRun } from "../client";
import { tell } from "../telling";
import { to, told } from "./state";
import { At, By, Words } from "./parts";

const NOISE = new Set(["plan_changed", "usage_counted", "run_claimed"]);

export function Record({ run }: { run: WatchedRun }) {
  void told.value;
  const [people, setPeople] = useState(false);
  const tellings = run.history.entries.filter((e) => !NOISE.has(e.type)).map((event) => ({ event, telling: tell(event) }));
  const shown = (people ? tellings.filter((t) => t.telling.person) : tellings).slice(-300).reverse();
  return (
    <div class="record">
      <label class="check"><input type="checkbox" checked={people} onChange={(e) => setPeople(e.currentTarget.checked)} /> only what people did</label>
      <ol>
        {shown.map(({ event, telling }) => (
          <li key={event.seq} class={telling.person ? "person" : ""}>
            <span class="mono muted seq">{event.seq}</span><At time={event.at} />
            <span>{telling.person && <><By who={telling.by} token={telling.token} /> </>}{telling.call ? <a href={to.call(run.id, telling.call)}><Words text={telling.text} /></a> : <Words text={telling.text} />}</span>
          </li>
        ))}
      </ol>
    </div>
  );
}
