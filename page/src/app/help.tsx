// The keys, and how to change them.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { ACTION_WORDS, DEFAULT_KEYS, keyOf, rekey, type Action, type Keys } from "../keys";
import { keep, stored } from "./state";

export const keys = signal<Keys>({ ...DEFAULT_KEYS, ...stored<Partial<Keys>>("keys", {}) });
export const helping = signal(false);

function change(action: Action, key: string): void {
  keys.value = rekey(keys.value, action, key);
  keep("keys", keys.value);
}

/** The field holds one key: what is typed takes its place, wherever the caret stands. */
function typed(action: Action, field: HTMLInputElement, data: string | null | undefined): void {
  change(action, keyOf(field.value, data ?? null));
  field.value = keys.value[action];
  field.select();
}

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helping.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [helping.value]);
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={() => (helping.value = false)}>
      <h2 id="help-title">Keys</h2>
      <p class="muted">They work anywhere but in fields. Type another key to change one; leave it empty to turn it off.</p>
      <ul class="keys">
        {(Object.keys(ACTION_WORDS) as Action[]).map((action) => (
          <li key={action}><label><span>{ACTION_WORDS[action]}</span><input class="mono" size={2} autocomplete="off" value={keys.value[action]} onFocus={(e) => e.currentTarget.select()} onInput={(e) => typed(action, e.currentTarget, (e as InputEvent).data)} /></label></li>
        ))}
      </ul>
      <div class="row">
        <button onClick={() => { keys.value = DEFAULT_KEYS; keep("keys", DEFAULT_KEYS); }}>As they were</button>
        <button class="primary" onClick={() => (helping.value = false)}>Close</button>
      </div>
    </dialog>
  );
}
