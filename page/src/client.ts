// The one socket of a page: it reconnects by itself, goes on where it was, and loses or doubles no event.
//
//   import { connect } from "/client.js";
//   const client = connect();
//   const run = client.watch("run-1");
//   run.subscribe(() => console.log(run.view.status));
//   await client.verb("run-1", "pause");
import { History } from "./history";
import { emptyView, reduce } from "./reduce";
import type { Event, JsonValue, RunView, TextDelta } from "./types.gen";
import type { AgentInfo, Answer, Filter, FromServer, Me, Problem, Right, ToServer, Verb } from "./wire";

export { History } from "./history";
export { ENDED, emptyView, hasEnded, reduce, times } from "./reduce";
export * from "./words";
export type * from "./types.gen";
export type * from "./wire";

export type Connection = "connecting" | "open" | "reconnecting" | "unauthorised" | "closed";

type Listener = () => void;

/** Calls its listeners when something changed. */
class Subject {
  private readonly listeners = new Set<Listener>();

  subscribe(listener: Listener): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  changed(): void {
    for (const listener of [...this.listeners]) listener();
  }
}

/** One run as the server tells of it: its view, its history, and when the view was true. */
export class WatchedRun extends Subject {
  view: RunView;
  known = false; // has the server said anything of it?
  gone = "";
  version = 0; // rises with everything
  tellings = 0; // rises with views and events, not with live text
  readonly history = new History();

  constructor(readonly id: string) {
    super();
    this.view = emptyView(id);
  }

  /** The server's own view; an older one than we have is not taken. */
  seen(view: RunView): void {
    if (this.known && view.seq < this.view.seq) return;
    this.view = view;
    this.known = true;
    this.tellings++;
    this.touch();
  }

  happened(event: Event): void {
    if (!this.history.add(event)) return;
    this.view = reduce(this.view, event);
    this.tellings++;
    this.touch();
  }

  said(delta: TextDelta): void {
    this.history.delta(delta);
    this.touch();
  }

  lost(why: string): void {
    this.gone = why || "it does not exist";
    this.tellings++;
    this.touch();
  }

  private touch(): void {
    this.version++;
    this.changed();
  }
}

export class VerbProblem extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail || problem.title);
  }
}

interface Waiting {
  message: ToServer & { op: "verb" };
  resolve: (answer: Answer) => void;
  reject: (error: Error) => void;
}

export interface Options {
  url?: string; // of the server's socket; beside this script if left out
  socket?: (url: string) => WebSocket;
  session?: () => Promise<boolean>; // are we let in? asked when a socket was closed before it said hello
}

const PATIENCE = 20_000; // a socket that says nothing for so long after a ping is gone

export class Client extends Subject {
  connection: Connection = "connecting";
  why = "";
  me: Me = { name: null };
  agents: AgentInfo[] = [];
  version = "";
  verbs: Verb[] | null = null; // those the server knows; null: it does not say
  shares = false; // can links be made that lead here?
  runs: RunView[] = [];
  runsKnown = false;
  offset = 0; // the server's clock minus ours, in seconds
  lostAt: number | null = null; // when the server was last heard, by its clock; null while connected

  private socket: WebSocket | null = null;
  private greeted = false;
  private tries = 0;
  private n = 0;
  private filter: Filter | null = null;
  private retry: ReturnType<typeof setTimeout> | undefined;
  private beat: ReturnType<typeof setInterval> | undefined;
  private heard = 0;
  private readonly waiting = new Map<number, Waiting>();
  private readonly watched = new Map<string, { run: WatchedRun; users: number }>();

  constructor(private readonly options: Options = {}) {
    super();
  }

  /** Have we this right? A server that says nothing of rights decides by itself. */
  may(right: Right): boolean {
    const { rights } = this.me;
    return !rights || rights.includes("*") || rights.includes(right);
  }

  /** Where something of the server is: beside its socket. */
  at(path: string): string {
    return new URL(path, this.url().replace(/^ws/, "http")).href;
  }

  /** A run as it was last heard of, whether it is watched or only listed. */
  viewOf(id: string): RunView | undefined {
    return this.watched.get(id)?.run.view ?? this.runs.find((r) => r.id === id);
  }

  /** The server's time as far as it is known: without a connection, that at which it was last heard. */
  lately(): number {
    return this.lostAt ?? this.now();
  }

  /** The server's time now, in seconds since the epoch. */
  now(): number {
    return Date.now() / 1000 + this.offset;
  }

  open(): void {
    clearTimeout(this.retry);
    this.become(this.tries ? "reconnecting" : "connecting");
    const socket = (this.options.socket ?? ((to) => new WebSocket(to)))(this.url());
    this.socket = socket;
    this.greeted = false;
    socket.onmessage = (message) => {
      if (socket !== this.socket) return;
      this.heard = Date.now();
      this.receive(JSON.parse(String(message.data)) as FromServer);
    };
    socket.onclose = (close) => {
      if (socket === this.socket) void this.lost(close.reason);
    };
    this.heard = Date.now();
    clearInterval(this.beat);
    this.beat = setInterval(() => this.keepAlive(), PATIENCE / 4);
  }

  close(): void {
    clearTimeout(this.retry);
    clearInterval(this.beat);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
    this.become("closed");
  }

  /** Watch a run; the same object for everyone who watches it. Say `unwatch` when done. */
  watch(id: string): WatchedRun {
    const known = this.watched.get(id);
    if (known) {
      known.users++;
      return known.run;
    }
    const run = new WatchedRun(id);
    this.watched.set(id, { run, users: 1 });
    this.send({ op: "watch", run: id, after: 0 });
    return run;
  }

  unwatch(id: string): void {
    const known = this.watched.get(id);
    if (!known || --known.users > 0) return;
    this.watched.delete(id);
    this.send({ op: "unwatch", run: id });
  }

  list(filter: Filter): void {
    this.filter = filter;
    this.send({ op: "list", filter });
  }

  /** Ask for something; kept and sent again, under the same request id, if the connection is lost meanwhile. */
  verb(run: string | null, verb: Verb, args: { [key: string]: JsonValue } = {}): Promise<Answer> {
    const n = ++this.n;
    const request_id = newId();
    const message: ToServer & { op: "verb" } = { op: "verb", n, verb, args, request_id, ...(run === null ? {} : { run }) };
    return new Promise((resolve, reject) => {
      this.waiting.set(n, { message, resolve, reject });
      this.send(message);
    });
  }

  /** Something of the server; null if it cannot be had now: the socket says what is wrong. */
  async get(path: string): Promise<Response | null> {
    const asked = fetch(this.at(path), { headers: { accept: "application/json" }, credentials: "include" });
    const response = await asked.catch(() => null);
    return response?.ok ? response : null;
  }

  /** Workers may come and go: which agents there are now. */
  async readAgents(): Promise<void> {
    const response = await this.get("api/agents");
    if (!response) return;
    this.agents = ((await response.json()) as { agents: AgentInfo[] }).agents;
    this.changed();
  }

  private receive(message: FromServer): void {
    switch (message.op) {
      case "hello":
        this.greeted = true;
        this.tries = 0;
        this.me = message.me;
        this.agents = message.agents;
        this.version = message.version;
        this.shares = message.shares ?? false;
        this.verbs = message.verbs ?? this.verbs;
        this.offset = message.now - Date.now() / 1000;
        this.become("open");
        this.askAgain();
        return;
      case "view":
        this.watched.get(message.run)?.run.seen(message.view);
        return;
      case "event":
        this.watched.get(message.run)?.run.happened(message.event);
        return;
      case "delta":
        this.watched.get(message.run)?.run.said(message.delta);
        return;
      case "runs":
        this.runs = message.runs;
        this.runsKnown = true;
        this.changed();
        return;
      case "answer": {
        const asked = this.waiting.get(message.n);
        this.waiting.delete(message.n);
        if (message.answer) asked?.resolve(message.answer);
        else asked?.reject(new VerbProblem(message.problem ?? { title: "the server gave no answer" }));
        return;
      }
      case "gone":
        this.watched.get(message.run)?.run.lost(message.why);
        return;
      case "pong":
        this.offset = message.now - Date.now() / 1000;
        return;
      case "bye":
        this.why = message.why;
        return;
    }
  }

  private url(): string {
    return this.options.url ?? besideThisScript();
  }

  private askAgain(): void {
    for (const [id, { run }] of this.watched) this.transmit({ op: "watch", run: id, after: run.history.seq });
    if (this.filter) this.transmit({ op: "list", filter: this.filter });
    for (const { message } of this.waiting.values()) this.transmit(message);
  }

  private async lost(reason: string): Promise<void> {
    this.socket = null;
    this.lostAt ??= this.heard / 1000 + this.offset;
    clearInterval(this.beat);
    if (!this.greeted && this.options.session && !(await this.options.session().catch(() => true))) {
      this.become("unauthorised");
      return;
    }
    this.why = reason || this.why;
    this.tries++;
    this.become("reconnecting");
    const wait = Math.min(5000, 150 * 2 ** Math.min(this.tries, 6)) * (0.75 + Math.random() / 2);
    this.retry = setTimeout(() => this.open(), wait);
  }

  private keepAlive(): void {
    if (Date.now() - this.heard > PATIENCE) {
      const socket = this.socket;
      this.socket = null;
      socket?.close();
      void this.lost("the server has gone quiet");
    } else {
      this.send({ op: "ping", n: ++this.n });
    }
  }

  private send(message: ToServer): void {
    if (this.greeted) this.transmit(message); // all else is said after the greeting
  }

  private transmit(message: ToServer): void {
    if (this.socket?.readyState === 1) this.socket.send(JSON.stringify(message));
  }

  private become(connection: Connection): void {
    this.connection = connection;
    if (connection === "open") {
      this.why = "";
      this.lostAt = null;
    }
    this.changed();
  }
}

let shared: Client | undefined;

/** The page's one client; made and opened when first asked for. */
export function connect(options?: Options): Client {
  if (!shared || options) {
    shared = new Client(options);
    shared.open();
  }
  return shared;
}

/** The page's client, if somebody has connected already. */
export function useClient(client: Client): void {
  shared = client;
}

function besideThisScript(): string {
  const url = new URL(import.meta.url);
  const root = url.pathname.replace(/(assets\/)?[^/]*$/, "");
  return `${url.protocol === "https:" ? "wss:" : "ws:"}//${url.host}${root}ws`;
}

function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
}
