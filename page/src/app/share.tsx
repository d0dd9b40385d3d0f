// Links for others to this run: what they may do, until when; shown once, listed, revoked.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Right, TokenInfo } from "../wire";
import { client, get, say } from "./state";

const PRESETS: { [name: string]: Right[] } = { View: ["view"], "View + stop": ["view", "pause", "cancel"], "Stop only": ["cancel"] };
const WORDS: { [right in Right]?: string } = {
  view: "look at the run", pause: "pause and resume it", cancel: "cancel it", resolve: "approve, answer, decide", redirect: "redirect, message, edit it",
};
const LASTS = { "1h": "an hour", "1d": "a day", "7d": "a week", "30d": "a month" };

export function Share({ run }: { run: string }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [open, setOpen] = useState(false);
  const close = () => dialog.current?.close();
  useEffect(() => {
    if (open) dialog.current?.showModal();
  }, [open]);
  return (
    <>
      <button onClick={() => setOpen(true)}>Share</button>
      <dialog ref={dialog} class="share" aria-labelledby="share-title" onClose={() => setOpen(false)}>
        <h2 id="share-title">Share this run</h2>
        {open && <Making run={run} close={close} />}
      </dialog>
    </>
  );
}

function Making({ run, close }: { run: string; close: () => void }) {
  const [rights, setRights] = useState<ReadonlySet<Right>>(new Set(PRESETS["View"]));
  const [expires, setExpires] = useState<keyof typeof LASTS>("7d");
  const [name, setName] = useState("");
  const [link, setLink] = useState("");
  const [problem, setProblem] = useState("");
  const [tokens, setTokens] = useState<TokenInfo[]>([]);
  const load = async () => {
    try {
      setTokens((await get<{ tokens: TokenInfo[] }>(`tokens?run=${encodeURIComponent(run)}`)).tokens);
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  useEffect(() => void load(), [run]);
  const choose = (right: Right, on: boolean) => {
    const next = new Set(rights);
    if (on) next.add(right);
    else next.delete(right);
    setRights(next);
  };
  const make = async () => {
    const made = await asked("POST", "api/tokens", { rights: [...rights], run, expires, name }, setProblem);
    if (!made) return;
    setLink(`${client.at("login")}#token=${(made as { secret: string }).secret}&run=${encodeURIComponent(run)}`);
    await load();
  };
  const revoke = async (token: TokenInfo) => {
    if (await asked("DELETE", `api/tokens/${token.id}`, null, setProblem)) {
      say(`The link for ${token.name || token.id} counts no longer`);
      await load();
    }
  };
  const counting = tokens.filter((t) => t.revoked === null && (t.expires === null || t.expires > client.now()));
  return (
    <>
      {link ? (
        <>
          <label class="field">The link, shown this once<input class="mono" readOnly value={link} onFocus={(e) => e.currentTarget.select()} /></label>
          <p class="muted">Whoever has it may do what you chose, until it ends or is revoked.</p>
          <div class="row"><button onClick={() => void navigator.clipboard?.writeText(link).then(() => say("Copied"))}>Copy</button><button onClick={() => setLink("")}>Another</button></div>
        </>
      ) : (
        <form onSubmit={(e) => { e.preventDefault(); void make(); }}>
          <div class="row" role="group" aria-label="Usual choices">
            {Object.entries(PRESETS).map(([title, some]) => <button type="button" key={title} aria-pressed={some.length === rights.size && some.every((r) => rights.has(r))} onClick={() => setRights(new Set(some))}>{title}</button>)}
          </div>
          <fieldset>
            <legend>Whoever has the link may</legend>
            {(Object.keys(WORDS) as Right[]).map((right) => (
              <label key={right}><input type="checkbox" checked={rights.has(right)} disabled={!client.may(right)} onChange={(e) => choose(right, e.currentTarget.checked)} /> {WORDS[right]}</label>
            ))}
          </fieldset>
          <label class="field">For<input value={name} placeholder="whose link it is" maxLength={80} onInput={(e) => setName(e.currentTarget.value)} /></label>
          <label class="field">Lasts<select value={expires} onChange={(e) => setExpires(e.currentTarget.value as keyof typeof LASTS)}>{Object.entries(LASTS).map(([value, words]) => <option key={value} value={value}>{words}</option>)}</select></label>
          <div class="row"><button class="primary" disabled={!rights.size}>Make a link</button></div>
        </form>
      )}
      {problem && <p class="problem" role="alert">{problem}</p>}
      {counting.length > 0 && (
        <>
          <h3>Links to this run</h3>
          <ul class="plainlist links">
            {counting.map((t) => (
              <li key={t.id}><span><b>{t.name || t.id}</b> {t.rights.join(", ")}{t.expires !== null && <span class="muted"> until {new Date(t.expires * 1000).toLocaleString()}</span>}</span> {t.revocable !== false && <button class="slim" onClick={() => void revoke(t)} aria-label={`Revoke the link of ${t.name || t.id}`}>Revoke</button>}</li>
            ))}
          </ul>
        </>
      )}
      <div class="row"><button onClick={close}>Close</button></div>
    </>
  );
}

/** Ask the REST API; null, and the problem said, if it says no. */
async function asked(method: string, path: string, body: object | null, problem: (text: string) => void): Promise<unknown> {
  const more = body ? { headers: { "content-type": "application/json" }, body: JSON.stringify(body) } : {};
  const response = await fetch(client.at(path), { method, ...more }).catch(() => null);
  const told: unknown = await response?.json().catch(() => null);
  if (response?.ok) {
    problem("");
    return told;
  }
  const { detail, hint } = (told ?? {}) as { detail?: string; hint?: string };
  problem([detail, hint].filter(Boolean).join(" · ") || "the server does not answer");
  return null;
}
