// The door: the token once, a cookie from then on.
import { useState } from "preact/hooks";
import { client } from "./state";

export async function signIn(token: string): Promise<string> {
  const response = await fetch("api/session", {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ token }),
  });
  if (response.ok) return "";
  const problem = (await response.json().catch(() => null)) as { detail?: string; hint?: string } | null;
  return [problem?.detail, problem?.hint].filter(Boolean).join(" · ") || `the server answered ${response.status}`;
}

/** A token in the address is used once and taken out of it at once. */
export async function tokenInAddress(): Promise<void> {
  const found = /(?:^#|[#&])token=([^&]+)/.exec(location.hash);
  if (!found) return;
  history.replaceState(null, "", location.pathname + location.search + (location.hash.replace(found[0], "").replace(/^#?&?/, "#") || "#/"));
  const me = await fetch("api/me").catch(() => null);
  if (me?.ok && ((await me.json()) as { rights: string[] }).rights.includes("*")) return; // a link for others takes nothing away from us
  await signIn(decodeURIComponent(found[1]!)).catch(() => ""); // the login screen says what is wrong
}

export function Login() {
  const [token, setToken] = useState("");
  const [problem, setProblem] = useState("");
  const submit = async () => {
    const why = await signIn(token.trim()).catch((error: Error) => error.message);
    setProblem(why);
    if (!why) client.open();
  };
  return (
    <main id="main" class="narrow login">
      <h1>standfast</h1>
      <form class="panel pad" onSubmit={(e) => { e.preventDefault(); void submit(); }}>
        <label class="field">Token<input type="password" autocomplete="current-password" autofocus value={token} onInput={(e) => setToken(e.currentTarget.value)} /></label>
        <p class="muted">The server printed it when it started: <code>token: …</code></p>
        {(problem || client.why) && <p class="problem" role="alert">{problem || client.why}</p>}
        <div class="row"><button class="primary">Sign in</button></div>
      </form>
    </main>
  );
}
