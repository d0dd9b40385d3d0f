// The token is exchanged for a cookie that scripts cannot read; it never stays in the address.
const said = document.getElementById("said");

const inAddress = new URLSearchParams(location.hash.slice(1));
const run = inAddress.get("run"); // a link may lead to one run, and to nothing else
const there = run ? `./#/runs/${encodeURIComponent(run)}` : "./";

async function exchange(token) {
  const answer = await fetch("api/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  }).catch(() => null);
  if (answer?.ok) {
    location.replace(there);
    return;
  }
  const problem = await answer?.json().catch(() => null);
  said.textContent = problem?.detail ?? "The server does not answer.";
}

/** Whoever may do everything here already does not lose that by opening a link for somebody else. */
async function enter(token) {
  const me = await fetch("api/me").catch(() => null);
  const rights = me?.ok ? (await me.json()).rights : [];
  if (rights.includes("*")) location.replace(there);
  else await exchange(token);
}

document.getElementById("login").addEventListener("submit", (event) => {
  event.preventDefault();
  exchange(document.getElementById("token").value.trim());
});

const given = inAddress.get("token");
if (given) {
  history.replaceState(null, "", location.pathname);
  enter(given);
}
