// The state as a document: read while it runs, edited while it is paused, by a JSON Merge Patch.
import { useEffect, useRef, useState } from "preact/hooks";
import type { WatchedRun } from "../client";
import { Drafts } from "../drafts";
import { isObject, mergePatch, same } from "../patch";
import type { Json, JsonValue } from "../types.gen";
import { accepted, act, changes, client, get, told } from "./state";
import { Value } from "./parts";

interface Edit {
  base: Json;
  text: string;
  seq: number; // of the run as it was read: an edit of an older one is refused, not merged
}

const drafts = new Drafts<Edit>();

export function Inspector({ run }: { run: WatchedRun }) {
  void told.value;
  const draft = drafts.of(run.id);
  const [base, setBase] = useState<Json | null>(draft?.base ?? null);
  const [text, setText] = useState(draft?.text ?? "");
  const [seq, setSeq] = useState(draft?.seq ?? 0);
  const [problem, setProblem] = useState("");
  void changes.value;
  const may = client.may("redirect");
  const paused = run.view.status === "paused" && may;
  const pristine = base === null || same(parsed(text), base);
  const editing = useRef(false);
  editing.current = !pristine;
  const load = async (over = false) => {
    try {
      const at = run.view.seq;
      const state = await get<Json>(`runs/${encodeURIComponent(run.id)}/state`);
      const doc = isObject(state["state"]) && Object.keys(state).every((k) => ["state", "step", "run", "seq"].includes(k)) ? state["state"] : state;
      if (editing.current && !over) return; // somebody has begun to edit while it was read
      setBase(doc);
      setText(JSON.stringify(doc, null, 2));
      setSeq(at);
      setProblem("");
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  useEffect(() => drafts.keep(run.id, base === null || pristine ? undefined : { base, text, seq }), [run.id, base, text, seq]);
  // What one is editing is never overwritten; what one is only reading follows the run.
  useEffect(() => {
    if (pristine) void load();
  }, [run.id, run.view.step, run.view.status, run.view.epoch]);
  // At once, not with the next picture: whoever leaves right after a letter finds it when they come back.
  const write = (written: string) => {
    editing.current = base !== null && !same(parsed(written), base);
    if (base !== null) drafts.keep(run.id, editing.current ? { base, text: written, seq } : undefined);
    setText(written);
  };
  const edited = parsed(text);
  const patch = base && isObject(edited) ? mergePatch(base, edited) : null;
  const save = async () => {
    if (!patch) return;
    if (accepted(await act(run.id, "edit", { patch, if_seq: seq }))) await load(true);
  };
  const reason = run.view.status === "cancelling" || run.view.status === "pausing" ? "it is settling" : may ? "pause it to edit" : "you have no right to edit it (redirect)";
  return (
    <div class="inspector">
      <p class="muted">State before step {run.view.step}{!paused && ` · ${reason}`}</p>
      {problem && <p class="problem">{problem}</p>}
      {base === null ? !problem && <p class="empty">Reading the state…</p> : paused ? (
        <>
          <label class="field"><span class="sr">State</span><textarea class="code" spellcheck={false} rows={Math.min(28, text.split("\n").length + 1)} value={text} onInput={(e) => write(e.currentTarget.value)} /></label>
          {edited === undefined ? <p class="problem">This is not JSON.</p> : patch && Object.keys(patch).length > 0 && <><p class="muted">What will change</p><Value value={patch} /></>}
          <div class="row"><button class="primary" disabled={!patch || !Object.keys(patch).length} onClick={() => void save()}>Save edit</button><button onClick={() => void load(true)}>Reload</button></div>
        </>
      ) : <Value value={base} />}
    </div>
  );
}

function parsed(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    return undefined;
  }
}
