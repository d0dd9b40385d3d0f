// The token is exchanged for a cookie that scripts cannot read; it never stays in the address.
const said = document.getElementById("said");

async function exchange(token) {
  const answer = await fetch("api/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  }).catch(() => null);
  if (answer?.ok) {
    location.replace("./");
    return;
  }
  const problem = await answer?.json().catch(() => null);
  said.textContent = problem?.detail ?? "The server does not answer.";
}

document.getElementById("login").addEventListener("submit", (event) => {
  event.preventDefault();
  exchange(document.getElementById("token").value.trim());
});

const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  history.replaceState(null, "", location.pathname);
  exchange(given);
}
