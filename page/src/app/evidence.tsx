// Evidence of a run for somebody else: what the bundle holds, for whom its sealed part is, how it is verified.
import { useEffect, useRef, useState } from "preact/hooks";
import { client, get, say } from "./state";

interface About {
  events: number;
  children: number;
  holds: string[];
  sealed_for: string[];
  instructions: boolean;
  file: string;
  verify: string;
}

export function Evidence({ run }: { run: string }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [open, setOpen] = useState(false);
  useEffect(() => {
    if (open) dialog.current?.showModal();
  }, [open]);
  return (
    <>
      <button onClick={() => setOpen(true)}>Evidence</button>
      <dialog ref={dialog} class="share evidence" aria-labelledby="evidence-title" onClose={() => setOpen(false)}>
        <h2 id="evidence-title">Take evidence of this run</h2>
        {open && <Taking run={run} close={() => dialog.current?.close()} />}
      </dialog>
    </>
  );
}

function Taking({ run, close }: { run: string; close: () => void }) {
  const path = `runs/${encodeURIComponent(run)}/evidence`;
  const [about, setAbout] = useState<About | null>(null);
  const [left, setLeft] = useState<string[]>([]); // recipients for whom it is not sealed
  const [children, setChildren] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    get<About>(path).then(setAbout, (error: Error) => setProblem(error.message));
  }, [run]);
  const take = async () => {
    setBusy(true);
    setProblem(await download(path, { recipients: about?.sealed_for.filter((key) => !left.includes(key)), children }, about?.file ?? "evidence.zip"));
    setBusy(false);
  };
  return (
    <form onSubmit={(e) => { e.preventDefault(); void take(); }}>
      <p>One signed file for somebody who need not trust you. That you took it is on record.</p>
      {about && (
        <>
          <ul>{about.holds.map((line) => <li key={line}>{line}</li>)}</ul>
          <p class="muted">{about.events} events. Secrets that the record redacts, states and mail are not in it.</p>
          {about.children > 0 && <label><input type="checkbox" checked={children} onChange={(e) => setChildren(e.currentTarget.checked)} /> with its {about.children} child {about.children === 1 ? "run" : "runs"}</label>}
          {about.instructions && about.sealed_for.length > 0 && <p class="muted">The agent’s instructions are sealed for:</p>}
          {about.instructions && about.sealed_for.map((key) => <label key={key}><input type="checkbox" checked={!left.includes(key)} onChange={(e) => setLeft(e.currentTarget.checked ? left.filter((one) => one !== key) : [...left, key])} /> <span class="mono wrap">{key}</span></label>)}
          <label class="field">To verify it<input class="mono" readOnly value={about.verify} onFocus={(e) => e.currentTarget.select()} /></label>
        </>
      )}
      {problem && <p class="problem" role="alert">{problem}</p>}
      <div class="row"><button class="primary" disabled={busy || !about}>{busy ? "Signing…" : "Download"}</button><button type="button" onClick={close}>Close</button></div>
    </form>
  );
}

/** Have the bundle made and saved; what went wrong, in words. */
async function download(path: string, body: object, file: string): Promise<string> {
  const more = { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  try {
    const response = await fetch(client.at(`api/${path}`), { method: "POST", ...more });
    if (!response.ok) {
      const { detail, hint } = (await response.json().catch(() => ({}))) as { detail?: string; hint?: string };
      return [detail, hint].filter(Boolean).join(" · ") || `the server answered ${response.status}`;
    }
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await response.blob());
    link.download = file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    say(`Saved as ${file}`);
    return "";
  } catch {
    return "the server does not answer; nothing was saved";
  }
}
