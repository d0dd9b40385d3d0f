// Thoughts on hold, and mail: what people sent in and what became of it.
import { useRef, useState } from "preact/hooks";
import type { WatchedRun } from "../client";
import { Drafts } from "../drafts";
import { ENDED } from "../reduce";
import type { Json, MailView } from "../types.gen";
import { duration } from "../words";
import { accepted, act, changes, client, seconds, told } from "./state";
import { At, By, Panel, Words } from "./parts";

export function Frames({ run }: { run: WatchedRun }) {
  void told.value;
  void seconds.value;
  const { frames, held_tokens } = run.view;
  if (!frames.length) return null;
  const held = frames.filter((f) => f["status"] === "held").length;
  return (
    <Panel title="Thoughts" aside={<span class="muted">{held ? `${held} on hold` : ""}{held_tokens ? `, ${held_tokens} tokens` : ""}</span>}>
      <ol class="frames">{[...frames].reverse().map((f) => <FrameLine key={String(f["id"])} run={run} frame={f} />)}</ol>
    </Panel>
  );
}

function FrameLine({ run, frame }: { run: WatchedRun; frame: Json }) {
  const [asking, setAsking] = useState(false);
  const [reason, setReason] = useState("");
  const held = frame["status"] === "held";
  const now = client.now();
  const expires = typeof frame["expires_at"] === "number" ? frame["expires_at"] - now : null;
  const heldFor = typeof frame["expires_at"] === "number" && typeof frame["held_for"] === "number" ? frame["held_for"] : null;
  const id = String(frame["id"]);
  return (
    <li class={held ? "held" : "active"}>
      <span class="title">{String(frame["goal"])}</span>
      <span class="meta">
        <b>{held ? "on hold" : "active"}</b>
        {frame["place"] ? <span>{String(frame["place"])}</span> : null}
        {held && heldFor !== null && <span>for {duration(heldFor)}</span>}
        {held && expires !== null && <span class={expires < 300 ? "soon" : ""}>{expires > 0 ? `expires in ${duration(expires)}` : "expired: would be a reconstruction"}</span>}
        {frame["ordered"] ? <span>ordered: {String(frame["ordered"])}</span> : null}
        {frame["reconstructed"] ? <span class="soon">reconstruction: {String(frame["reconstructed"])}</span> : null}
      </span>
      {!ENDED.includes(run.view.status) && (asking
        ? <form class="row" onSubmit={(e) => { e.preventDefault(); if (reason.trim()) void act(run.id, "abandon", { frame: id, reason }).then((a) => accepted(a) && setAsking(false)); }}>
            <input class="grow" aria-label="Why abandon it" placeholder="why abandon it?" value={reason} onInput={(e) => setReason(e.currentTarget.value)} /><button class="slim danger">Abandon</button><button type="button" class="slim" onClick={() => setAsking(false)}>Keep</button>
          </form>
        : <span class="row">{held && <button class="slim" onClick={() => void act(run.id, "return_to", { frame: id })}>Return to it</button>}<button class="slim quiet" onClick={() => setAsking(true)}>Abandon…</button></span>)}
    </li>
  );
}

export function Mail({ run }: { run: WatchedRun }) {
  void told.value;
  const { mail } = run.view;
  if (!mail.length) return null;
  return <Panel title="Mail"><ol class="mail">{[...mail].reverse().slice(0, 30).map((m) => <MailLine key={m.id} mail={m} />)}</ol></Panel>;
}

function MailLine({ mail }: { mail: MailView }) {
  const became = mail.disposition || "waiting";
  return (
    <li class={mail.fate === "not_read" ? "unread" : mail.status}>
      <span class="meta"><By who={mail.by} token={mail.by_token} /><span>{mail.kind}</span><At time={mail.at} /></span>
      <span class="text"><Words text={mail.text} /></span>
      <span class="became">{became}</span>
    </li>
  );
}

const drafts = new Drafts<string>();

/** Always there: Enter sends, and what will happen to it is said at once. On a low screen it opens on demand. */
export function MessageBox({ run }: { run: WatchedRun }) {
  void told.value;
  const [text, setDraft] = useState(drafts.of(run.id) ?? "");
  const [open, setOpen] = useState(text !== "");
  const box = useRef<HTMLInputElement>(null);
  const setText = (now: string) => {
    setDraft(now);
    drafts.keep(run.id, now);
  };
  const [when, setWhen] = useState("next");
  const [became, setBecame] = useState("");
  const ended = ENDED.includes(run.view.status);
  const send = async () => {
    if (!text.trim()) return;
    const answer = await act(run.id, "message", { text, when });
    if (answer?.answer === "accepted") {
      setText("");
      setBecame(answer.note || "sent");
    }
  };
  void changes.value;
  if (ended || !client.may("redirect")) return null;
  return (
    <section class={`messagebox ${open ? "open" : ""}`} aria-label="Message">
    <button class="opener" aria-expanded={open} onClick={() => { setOpen(!open); requestAnimationFrame(() => box.current?.focus()); }}>{open ? "Close" : "Message…"}</button>
    <form onSubmit={(e) => { e.preventDefault(); void send(); }}>
      <input class="grow" id="message" ref={box} aria-label="Message to the run" placeholder="Message: a thought beside the task" autocomplete="off" value={text} onInput={(e) => setText(e.currentTarget.value)} />
      <select aria-label="When it is read" value={when} onChange={(e) => setWhen(e.currentTarget.value)}>
        <option value="next">next step</option><option value="now">now</option><option value="later">later</option>
      </select>
      <button>Send</button>
      {became && <span class="became">{became}</span>}
    </form>
    </section>
  );
}
