// <standfast-bar run="run-1">: the control bar of one run, for any app.
//
//   <script type="module" src="/bar.js"></script>
//   <standfast-bar run="run-1"></standfast-bar>
import { BAR_CSS } from "./bar.css";
import { Client, VerbProblem, connect, type WatchedRun } from "./client";
import { Drafts } from "./drafts";
import { TWICE, Twice } from "./keys";
import { ENDED, IN_TRANSIT, times } from "./reduce";
import type { Choice, JsonValue, PlanItem } from "./types.gen";
import { askedWith, type Answer, type Hand, type Right, type Verb } from "./wire";
import {
  STATE_SHAPES, STATE_WORDS, clock, doing, duration, forceWords, meter, names, planPosition, redirectWaits, unsentWords, whyPaused,
} from "./words";

const FORCE_AFTER = 5; // seconds in transit
const CHANGED_GUARD = 600; // ms: a click meant for Pause must not hit the Resume that has just taken its place

const ICONS = {
  pause: STATE_SHAPES.paused,
  resume: STATE_SHAPES.running,
  redirect: "M1.5 9.5c0-3 2-5 5-5h4V1.2L15 5.7l-4.5 4.5V7h-4c-1.6 0-2.6 1-2.6 2.6v4.2H1.5Z",
  cancel: STATE_SHAPES.cancelled,
  force: STATE_SHAPES.failed,
};

// Force comes before the others, which stand at the far end: when it appears, none of them moves.
function control(name: string, more = ""): string {
  return `<button type="button" class="control" id="${name}" ${more}><b></b><span id="${name}-words"></span></button>`;
}

const TEMPLATE = `
<div class="frame"><section class="bar" aria-label="Run controls" part="bar">
  <div class="where">
    <div class="state"><span class="mark"><svg viewBox="0 0 16 16" aria-hidden="true"><path fill-rule="evenodd"/></svg><span class="word"></span></span><span class="why"></span></div>
    <div class="facts"><span class="elapsed"></span><span class="held"></span><span class="plan"></span><span class="steps"></span><span class="budget"><span class="track"><span class="fill"></span></span><span class="cap"></span></span></div>
  </div>
  <div class="controls" role="group" aria-label="Pause, redirect, cancel">
    ${control("force", "hidden")}
    ${control("pause")}
    ${control("redirect", 'aria-expanded="false" aria-controls="composer"')}
    ${control("cancel")}
  </div>
  <div class="below">
    <p class="note" id="pending" hidden></p>
    <p class="note unread" id="unread" role="alert" hidden></p>
    <p class="note" id="diff" hidden></p>
    <p class="note" id="said" hidden></p>
    <form id="composer" hidden>
      <label for="text"></label>
      <textarea id="text" rows="2"></textarea>
      <div class="row">
        <button class="small primary" id="now">Redirect now</button>
        <button type="button" class="small" id="next">After this step</button>
        <button type="button" class="small" id="close">Close</button>
        <span class="hint"></span>
      </div>
    </form>
  </div>
  <div class="status" role="status" aria-live="polite"></div>
</section></div>`;

let sheet: CSSStyleSheet | undefined;
const drafts = new Drafts<{ text: string; from: PlanItem | null }>();

export class StandfastBar extends HTMLElement {
  static observedAttributes = ["run"];
  private given: Client | undefined;
  private watched: WatchedRun | undefined;
  private stopWatching: (() => void) | undefined;
  private timer: ReturnType<typeof setInterval> | undefined;
  private from: PlanItem | null = null;
  private slotMeans = "pause";
  private slotChanged = 0;
  private announced = "";
  private kills = ""; // what force would kill, as the server says
  private asking: Verb | null = null; // sent, or to be sent, and not answered
  private reopen = false; // a redirect was being written when the bar last showed this run
  private readonly twice = new Twice();
  private disarm: ReturnType<typeof setTimeout> | undefined;

  /** The id of the run; the attribute of the same name. */
  get run(): string {
    return this.getAttribute("run") ?? "";
  }

  set run(id: string) {
    this.setAttribute("run", id);
  }

  /** The client to use; the page's shared one if none is given. */
  set client(client: Client) {
    this.given = client;
    if (this.isConnected) this.attach();
  }

  connectedCallback(): void {
    if (!this.shadowRoot) this.build();
    this.attach();
    this.timer = setInterval(() => this.tick(), 500);
  }

  disconnectedCallback(): void {
    clearInterval(this.timer);
    this.detach();
  }

  attributeChangedCallback(): void {
    if (this.isConnected) this.attach();
  }

  /** Press a control, as its key would. */
  press(control: "pause" | "redirect" | "cancel" | "force"): void {
    if (control === "pause") this.pauseOrResume("key");
    else if (control === "redirect") this.compose();
    else void this.ask(control, control, {}, "key");
  }

  /** Cancel as its key does: the first press arms this bar for this run, a second within a moment cancels. */
  cancelTwice(): "armed" | "asked" {
    if (this.twice.press(Date.now())) {
      this.press("cancel");
      return "asked";
    }
    this.arm(true);
    clearTimeout(this.disarm);
    this.disarm = setTimeout(() => this.arm(false), TWICE);
    return "armed";
  }

  private arm(on: boolean): void {
    if (!on) this.twice.disarm();
    this.part_("cancel").toggleAttribute("data-armed", on);
    if (on) this.say("Press again to cancel.", "");
  }

  /** Open the composer; from a plan item: what came after it is undone first. */
  compose(from: PlanItem | null = null): void {
    this.openComposer(from, true);
  }

  private openComposer(from: PlanItem | null, focus: boolean): void {
    if (!this.watched || ENDED.includes(this.watched.view.status) || this.watched.view.status === "cancelling" || !this.may("redirect") || (!from && this.takesNoRedirects())) return;
    const form = this.part_("composer");
    const box = this.part_("text") as HTMLTextAreaElement;
    if (!form.hidden && this.from === from) {
      box.focus();
      return;
    }
    this.from = from;
    const item = from ?? upcoming(this.watched.view.plan);
    const label = form.querySelector("label")!;
    label.replaceChildren(...(from ? ["From here, instead of ", bold(from.title), ": what came after it is undone first"] : item ? ["Instead of ", bold(item.title)] : ["What should it do instead?"]));
    const draft = drafts.of(this.watched.id);
    box.value = draft && draft.from?.id === from?.id ? draft.text : item?.title ?? "";
    this.part_("now").textContent = from ? "Redirect from here" : "Redirect now";
    this.part_("next").hidden = from !== null;
    form.querySelector(".hint")!.textContent = from ? "Enter: from here · Esc: close" : "Enter: now · Shift+Enter: new line · Esc: close";
    form.hidden = false;
    this.part_("redirect").setAttribute("aria-expanded", "true");
    if (!focus) return;
    box.focus();
    box.select();
  }

  private build(): void {
    const root = this.attachShadow({ mode: "open" });
    sheet ??= new CSSStyleSheet();
    sheet.replaceSync(BAR_CSS);
    root.adoptedStyleSheets = [sheet];
    root.innerHTML = TEMPLATE; // a constant: nothing of a run is in it
    for (const name of ["redirect", "cancel", "force"] as const) this.label(name, name === "force" ? "Force stop" : name === "redirect" ? "Redirect" : "Cancel", name);
    this.label("pause", "Pause", "pause");
    this.part_("pause").onclick = () => this.pauseOrResume();
    this.part_("redirect").onclick = () => (this.part_("composer").hidden ? this.compose() : this.closeComposer());
    this.part_("cancel").onclick = () => void this.ask("cancel", "cancel");
    this.part_("force").onclick = () => void this.ask("force", "force");
    this.part_("next").onclick = () => void this.redirect("next");
    this.part_("close").onclick = () => this.closeComposer();
    const form = this.part_("composer") as HTMLFormElement;
    form.onsubmit = (submitted) => {
      submitted.preventDefault();
      void this.redirect("now");
    };
    form.oninput = () => {
      if (this.watched) drafts.keep(this.watched.id, { text: (this.part_("text") as HTMLTextAreaElement).value, from: this.from });
    };
    form.onkeydown = (key) => {
      if (key.key === "Escape") {
        key.stopPropagation();
        this.closeComposer();
      } else if (key.key === "Enter" && !key.shiftKey && !key.isComposing && key.target === this.part_("text")) {
        key.preventDefault();
        void this.redirect("now", "key");
      }
    };
  }

  private attach(): void {
    this.detach();
    this.reset();
    const id = this.getAttribute("run");
    if (!id) return;
    const client = this.given ?? connect();
    this.given = client;
    const run = client.watch(id);
    this.watched = run;
    const off = [run.subscribe(() => this.draw()), client.subscribe(() => this.draw())];
    this.stopWatching = () => {
      for (const stop of off) stop();
      client.unwatch(id);
    };
    this.reopen = drafts.of(id) !== undefined;
    this.draw();
  }

  /** Nothing of one run is left when the bar turns to another: what was open, armed, asked or said was about the first. */
  private reset(): void {
    if (!this.shadowRoot) return;
    this.hideComposer();
    this.arm(false);
    this.say("", "");
    for (const control of ["pause", "redirect", "cancel", "force"]) this.part_(control).removeAttribute("data-pending");
    this.part_("force").hidden = true;
    this.part_("pending").hidden = this.part_("unread").hidden = this.part_("diff").hidden = true;
    this.kills = "";
    this.asking = null;
    this.announced = "";
    this.text(".status", "");
    delete this.find(".bar").dataset["drawn"];
  }

  private detach(): void {
    this.stopWatching?.();
    this.stopWatching = undefined;
    this.watched = undefined;
  }

  private pauseOrResume(hand: Hand = "button"): void {
    if (!this.watched || this.part_("pause").getAttribute("aria-disabled") === "true") return;
    if (this.slotMeans === "resume" && Date.now() - this.slotChanged < CHANGED_GUARD) return;
    void this.ask("pause", this.slotMeans as Verb, {}, hand);
  }

  private async redirect(when: "now" | "next", hand: Hand = "button"): Promise<void> {
    const text = (this.part_("text") as HTMLTextAreaElement).value.trim();
    if (!text) return;
    const args = this.from ? { text, from_step: this.from.step ?? this.from.id } : { text, when };
    const answer = await this.ask("redirect", "redirect", args, hand);
    if (answer?.answer === "accepted") this.closeComposer();
  }

  /** Given up, or sent: its text is not kept. */
  private closeComposer(): void {
    if (this.watched) drafts.keep(this.watched.id, undefined);
    this.hideComposer();
  }

  private hideComposer(): void {
    const held = this.shadowRoot!.activeElement?.closest("form");
    this.part_("composer").hidden = true;
    this.from = null;
    this.part_("redirect").setAttribute("aria-expanded", "false");
    if (held) this.part_("redirect").focus();
  }

  /** Send a verb; the button that asked shows at once that it was heard. */
  private async ask(button: string | null, verb: Verb, args: { [key: string]: JsonValue } = {}, hand: Hand = "button"): Promise<Answer | null> {
    if (!this.watched || !this.given) return null;
    const run = this.watched;
    const pressed = button === null ? null : this.part_(button);
    if (pressed?.getAttribute("aria-disabled") === "true") return null;
    pressed?.setAttribute("data-pending", "");
    this.arm(false);
    this.asking = verb;
    this.sayUnsent();
    try {
      const answer = await this.given.verb(run.id, verb, askedWith(hand, verb, args));
      if (this.watched !== run) return null; // the bar shows another run by now
      this.show(verb, answer);
      return answer;
    } catch (error) {
      if (this.watched !== run) return null;
      const problem = error instanceof VerbProblem ? error.problem : null;
      this.say([error instanceof Error ? error.message : String(error), problem?.hint].filter(Boolean).join(" · "), "no");
      return null;
    } finally {
      if (this.watched === run) {
        this.asking = null;
        pressed?.removeAttribute("data-pending");
      }
    }
  }

  /** What is asked without a connection is kept, and the person is told so. */
  private sayUnsent(): void {
    if (this.asking && this.lost) this.say(unsentWords(this.asking), "");
  }

  private get lost(): boolean {
    return this.given !== undefined && this.given.lostAt !== null;
  }

  private show(verb: Verb, answer: Answer): void {
    this.dispatchEvent(new CustomEvent("standfast-answer", { detail: { verb, answer }, bubbles: true, composed: true }));
    if (answer.answer === "accepted") {
      // A redirect has its own line: when it applies, then what it changed.
      const settled = ENDED.includes(this.watched!.view.status) || this.watched!.view.status === "paused"; // it came before its answer
      const flying = answer.in_flight?.length && !settled ? `still in flight: ${names(answer.in_flight)}` : "";
      this.say(verb === "redirect" ? "" : [answer.note, flying].filter(Boolean).join(" · "), "");
    } else if (answer.answer === "too_late") {
      this.say(`Too late to ${verb.replace("_", " ")}: already ${answer.status}.`, "no");
    } else {
      this.say(`Refused: ${answer.why}`, "no", answer.choices);
    }
  }

  private say(text: string, tone: string, choices: Choice[] = []): void {
    const note = this.part_("said");
    note.dataset["tone"] = tone;
    note.replaceChildren(text);
    for (const choice of choices) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "small";
      button.textContent = choice.label || choice.verb;
      button.onclick = () => void this.ask(null, choice.verb as Verb, choice.args);
      note.append(button);
    }
    note.hidden = !text && !choices.length;
  }

  private draw(): void {
    if (!this.watched || !this.shadowRoot) return;
    const view = this.watched.view;
    const bar = this.shadowRoot.querySelector<HTMLElement>(".bar")!;
    if (bar.dataset["status"] !== view.status || !bar.dataset["drawn"]) {
      bar.dataset["status"] = view.status;
      bar.dataset["drawn"] = "yes";
      bar.style.setProperty("--_state", `var(--_${view.status})`);
      this.find(".mark path").setAttribute("d", STATE_SHAPES[view.status]);
      this.say("", "");
    }
    const live = !ENDED.includes(view.status);
    this.text(".word", this.watched.known ? STATE_WORDS[view.status] : "…");
    this.text(".why", why(this.watched));
    bar.toggleAttribute("data-lost", this.lost && live);
    this.sayUnsent();
    this.find(".controls").hidden = !live || !this.watched.known;
    if (!live) this.closeComposer();
    const means = view.status === "paused" ? "resume" : "pause";
    if (means !== this.slotMeans) {
      this.slotMeans = means;
      this.slotChanged = Date.now();
      this.label("pause", means === "resume" ? "Resume" : "Pause", means);
    }
    for (const control of ["pause", "redirect", "cancel"] as const) this.words(control, view.consequences[control]);
    const ending = view.status === "cancelling";
    const may = { pause: this.may("pause"), redirect: this.may("redirect"), cancel: this.may("cancel") };
    if (!may.pause) this.words("pause", `you have no right to ${means}`);
    if (!may.redirect) this.words("redirect", "you have no right to redirect");
    if (!may.cancel) this.words("cancel", "you have no right to cancel");
    this.disable("pause", ending || !may.pause);
    this.disable("redirect", ending || this.takesNoRedirects() || !may.redirect);
    this.disable("cancel", !may.cancel);
    this.part_("pause").toggleAttribute("data-pressed", view.status === "pausing");
    this.part_("cancel").toggleAttribute("data-pressed", ending);
    this.text(".plan", planPosition(view) && `plan ${planPosition(view)}`);
    this.text(".steps", `step ${view.step}`);
    this.mail();
    this.announce();
    this.tick();
    if (this.reopen && this.watched.known) {
      this.reopen = false;
      this.openComposer(drafts.of(this.watched.id)?.from ?? null, false);
    }
  }

  /** What changes by time alone. */
  private tick(): void {
    if (!this.watched?.known || !this.given || !this.shadowRoot) return;
    const view = this.watched.view;
    const now = this.given.lostAt ?? this.given.now(); // without a connection, nobody knows how it goes on
    if (this.lost && !ENDED.includes(view.status)) this.text(".why", `when last heard, ${duration(Math.max(0, this.given.now() - now))} ago: connection lost`);
    const { elapsed, paused } = times(view, now);
    this.text(".elapsed", clock(elapsed));
    this.text(".held", paused >= 1 ? `paused ${clock(paused)}` : "");
    const nearest = meter(view, now);
    const budget = this.find(".budget");
    budget.hidden = !nearest;
    if (nearest) {
      budget.toggleAttribute("data-near", nearest.fraction >= 0.75 && nearest.fraction < 1);
      budget.toggleAttribute("data-full", nearest.fraction >= 1);
      this.find(".fill").style.transform = `scaleX(${nearest.fraction.toFixed(3)})`;
      this.text(".cap", `${nearest.used} ${nearest.label}`);
    }
    const since = this.watched.history.spans.findLast((s) => s.kind === view.status && s.to === null)?.from;
    const stuck = IN_TRANSIT.includes(view.status) && since !== undefined && now - since >= FORCE_AFTER;
    const offered = this.given.verbs === null || this.given.verbs.includes("force");
    this.part_("force").hidden = !stuck || !offered || !this.may("cancel");
    if (stuck && !this.kills) void this.nameKilled();
    if (!stuck) this.kills = "";
    this.words("force", this.kills || forceWords(view));
  }

  /** Ask the server what exactly force would kill. */
  private async nameKilled(): Promise<void> {
    const run = this.watched!;
    this.kills = forceWords(run.view);
    const response = await this.given!.get(`api/runs/${encodeURIComponent(run.id)}/force`);
    const { kills } = response ? ((await response.json()) as { kills: string }) : { kills: "" };
    if (kills && this.watched === run) this.kills = `kills ${kills}`;
  }

  /** A pending redirect says when it applies; a read one leaves a line of what it changed. */
  private mail(): void {
    const view = this.watched!.view;
    const redirects = view.mail.filter((m) => m.kind === "redirect");
    const pending = redirects.filter((m) => m.status === "pending" && m.fate !== "not_read" && !view.plan.some((i) => i.was && i.title === m.text && i.status === "running"));
    const note = this.part_("pending");
    note.hidden = !pending.length;
    note.replaceChildren(...pending.flatMap((m) => [bold(m.fate === "read" ? "Redirect read" : "Redirect pending"), `“${m.text}” · ${redirectWaits(m)}`]));
    const missed = redirects.filter((m) => m.fate === "not_read");
    const unread = this.part_("unread");
    unread.hidden = !missed.length;
    unread.replaceChildren(...missed.flatMap((m) => [bold("Redirect not read"), `“${m.text}” · ${m.disposition.replace(/^not read: /, "")}${ENDED.includes(view.status) ? ": fork the run to have it done" : ""}`]));
    const diff = this.part_("diff");
    const item = view.plan.findLast((i) => i.was && i.was !== i.title && (i.step === null || i.step >= view.step - 1));
    const read = redirects.findLast((m) => m.status === "consumed" && m.step !== null && m.step >= view.step - 1);
    const live = !ENDED.includes(view.status);
    diff.hidden = !live || (!item && !read && !view.changed);
    if (item) diff.replaceChildren(bold("Redirected"), tag("del", item.was), "→", tag("ins", item.title));
    else if (read) diff.replaceChildren(bold("Redirected"), `step ${read.step} →`, tag("ins", read.text));
    else diff.replaceChildren(bold("Changed"), view.changed);
  }

  /** Steps and states are told to screen readers, tokens are not. */
  private announce(): void {
    if (this.hasAttribute("quiet") || !this.watched!.known) return;
    const view = this.watched!.view;
    const text = `${STATE_WORDS[view.status]}${view.status === "paused" ? `: ${whyPaused(view.holds)}` : ""}, step ${view.step}`;
    if (text === this.announced) return;
    this.announced = text;
    this.text(".status", text);
  }

  private takesNoRedirects(): boolean {
    return !!this.watched?.view.consequences.no_redirect || this.given?.agents.find((a) => a.name === this.watched?.view.agent)?.redirects === false;
  }

  private may(right: Right): boolean {
    return this.given?.may(right) ?? true;
  }

  /** What a control would do: part of its name, and whole for whoever points at it where it is cut. */
  private words(control: string, words: string): void {
    this.text(`#${control}-words`, words);
    this.part_(control).title = words;
  }

  private disable(control: string, off: boolean): void {
    this.part_(control).setAttribute("aria-disabled", String(off));
  }

  private label(control: string, text: string, icon: keyof typeof ICONS): void {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 16 16");
    svg.setAttribute("aria-hidden", "true");
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", ICONS[icon]);
    path.setAttribute("fill-rule", "evenodd");
    svg.append(path);
    this.part_(control).querySelector("b")!.replaceChildren(svg, text);
  }

  private text(selector: string, text: string): void {
    const element = this.find(selector);
    if (element.textContent !== text) element.textContent = text;
  }

  private find(selector: string): HTMLElement {
    return this.shadowRoot!.querySelector<HTMLElement>(selector)!;
  }

  private part_(id: string): HTMLElement {
    return this.shadowRoot!.getElementById(id)!;
  }
}

function why(run: WatchedRun): string {
  const view = run.view;
  if (run.gone) return run.gone;
  if (view.status === "paused") return view.holds.length ? whyPaused(view.holds) : view.waiting_for;
  if (view.status === "failed") return view.error;
  if (ENDED.includes(view.status)) return "";
  if (IN_TRANSIT.includes(view.status) || view.status === "queued") return view.waiting_for ? `waits for ${view.waiting_for}` : "";
  return doing(view);
}

function upcoming(plan: PlanItem[]): PlanItem | undefined {
  return plan.find((i) => i.status === "running") ?? plan.find((i) => i.status === "queued");
}

function bold(text: string): HTMLElement {
  return tag("b", text);
}

function tag(name: string, text: string): HTMLElement {
  const element = document.createElement(name);
  element.textContent = text;
  return element;
}

if (!customElements.get("standfast-bar")) customElements.define("standfast-bar", StandfastBar);
