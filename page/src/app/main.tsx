import { render } from "preact";
import "../bar";
import "../style.css";
import { actionOf, isField } from "../keys";
import { watchHalts } from "./halts";
import { Help, helping, keys } from "./help";
import { List } from "./list";
import { Login, tokenInAddress } from "./login";
import { watchNeeds } from "./needing";
import { RunPage, currentBar } from "./run";
import { Start } from "./start";
import { changes, client, notice, route, spoken, theme, to, type Theme } from "./state";

function App() {
  void changes.value;
  const here = route.value;
  if (client.connection === "unauthorised") return <><Login /><Status /></>;
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")?.setAttribute("tabindex", "-1"); document.getElementById("main")?.focus(); }}>Skip to content</a>
      <Header />
      <Notice />
      {here.page === "run" ? <RunPage key={here.run} id={here.run} /> : here.page === "new" ? <Start /> : <List />}
      <Help />
      <Status />
    </>
  );
}

function Header() {
  void changes.value;
  const next: Record<Theme, Theme> = { auto: "dark", dark: "light", light: "auto" };
  const needing = client.runs.filter((r) => r.needs.length && r.id !== route.value.run).length;
  return (
    <header class="top">
      <a class="brand" href={to.list()} aria-label="standfast: all runs"><svg viewBox="0 0 16 16" aria-hidden="true"><path d="M2 2h3.4v12H2ZM6.7 2h3.4v12H6.7ZM12 5.2 15 8l-3 2.8Z" /></svg>standfast</a>
      {route.value.page !== "list" && <a href={to.list()}>Runs{needing > 0 && <span class="badge">{needing}<span class="wide"> {needing === 1 ? "needs" : "need"} someone</span></span>}</a>}
      <span class="grow" />
      <Connected />
      {client.me.name && <span class="muted me">{client.me.name}</span>}
      <button class="quiet" onClick={() => (theme.value = next[theme.value])} aria-label={`Theme: ${theme.value}. Change it`}>{theme.value === "auto" ? "◐" : theme.value === "dark" ? "●" : "○"}</button>
      <button class="quiet" onClick={() => (helping.value = true)} aria-label="Keys">?</button>
    </header>
  );
}

function Connected() {
  void changes.value;
  const words = { connecting: "connecting…", reconnecting: "connection lost: reconnecting…", closed: "not connected", open: "", unauthorised: "" }[client.connection];
  if (client.connection === "open") return <span class="connection" title={`standfast ${client.version}`}>live</span>;
  return <span class="connection lost">{words}{client.why && client.connection === "reconnecting" ? ` (${client.why})` : ""}</span>;
}

function Notice() {
  const shown = notice.value;
  return shown && <p class={`notice ${shown.tone}`}>{shown.text}<button class="quiet slim" aria-label="Dismiss" onClick={() => (notice.value = null)}>×</button></p>;
}

/** The page's one live region. */
function Status() {
  return <div class="sr" role="status" aria-live="polite">{spoken.value}</div>;
}

function listenForKeys(): void {
  addEventListener("keydown", (press) => {
    const action = actionOf(press, keys.value, isField(press.composedPath()));
    if (!action || helping.value) return;
    if (action === "help") helping.value = true;
    else if (!currentBar) return;
    else if (action !== "cancel") currentBar.press(action);
    else if (currentBar.cancelTwice() === "armed") spoken.value = "Press again to cancel";
    press.preventDefault();
  });
}

function sayConnection(): void {
  let before = client.connection;
  client.subscribe(() => {
    if (client.connection === before) return;
    if (client.connection === "reconnecting") spoken.value = "Connection lost, reconnecting";
    else if (client.connection === "open" && before === "reconnecting") spoken.value = "Connected again";
    if (client.connection !== "connecting") before = client.connection;
  });
}

async function begin(): Promise<void> {
  await tokenInAddress();
  listenForKeys();
  sayConnection();
  watchNeeds();
  watchHalts();
  client.open();
  render(<App />, document.getElementById("app")!);
}

void begin();
