// The socket: it reconnects by itself, asks for what is missing only, and sends an unanswered verb again under the same id.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Client, VerbProblem } from "../src/client";
import { emptyView } from "../src/reduce";
import type { Event } from "../src/types.gen";
import type { FromServer, ToServer } from "../src/wire";

class Socket {
  static all: Socket[] = [];
  readyState = 1;
  sent: ToServer[] = [];
  onmessage: ((message: { data: string }) => void) | null = null;
  onclose: ((close: { reason: string; code: number }) => void) | null = null;

  constructor() {
    Socket.all.push(this);
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text) as ToServer);
  }

  close(): void {
    this.drop();
  }

  drop(reason = ""): void {
    if (this.readyState !== 1) return;
    this.readyState = 3;
    this.onclose?.({ reason, code: 1006 });
  }

  say(message: FromServer): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  hello(): void {
    this.say({ op: "hello", version: "1", me: { name: "ada" }, now: Date.now() / 1000 + 100, agents: [], verbs: [] });
  }

  got<O extends ToServer["op"]>(op: O): Extract<ToServer, { op: O }>[] {
    return this.sent.filter((m): m is Extract<ToServer, { op: O }> => m.op === op);
  }
}

const event = (seq: number): Event => ({ type: "noted", seq, at: seq, run: "run-1", text: `note ${seq}`, attempt: 1 });

function opened(session?: () => Promise<boolean>): { client: Client; socket: Socket } {
  const client = new Client({ url: "ws://x/ws", socket: () => new Socket() as unknown as WebSocket, ...(session ? { session } : {}) });
  client.open();
  const socket = Socket.all.at(-1)!;
  return { client, socket };
}

beforeEach(() => {
  vi.useFakeTimers();
  Socket.all = [];
});
afterEach(() => {
  vi.useRealTimers();
});

test("nothing is said before the greeting, and all of it after", () => {
  const { client, socket } = opened();
  client.watch("run-1");
  client.list({ needs: true });
  expect(socket.sent).toEqual([]);
  socket.hello();
  expect(client.connection).toBe("open");
  expect(socket.got("watch")).toEqual([{ op: "watch", run: "run-1", after: 0 }]);
  expect(socket.got("list")).toEqual([{ op: "list", filter: { needs: true } }]);
});

test("a lost connection comes back by itself, and no event is lost or doubled", async () => {
  const { client, socket } = opened();
  const run = client.watch("run-1");
  socket.hello();
  socket.say({ op: "event", run: "run-1", event: event(1) });
  socket.say({ op: "event", run: "run-1", event: event(2) });
  socket.drop("gone");
  await vi.advanceTimersByTimeAsync(0);
  expect(client.connection).toBe("reconnecting");
  await vi.advanceTimersByTimeAsync(2000);
  const again = Socket.all.at(-1)!;
  expect(again).not.toBe(socket);
  again.hello();
  expect(again.got("watch")).toEqual([{ op: "watch", run: "run-1", after: 2 }]);
  for (const seq of [2, 3, 3, 4]) again.say({ op: "event", run: "run-1", event: event(seq) });
  socket.say({ op: "event", run: "run-1", event: event(9) }); // the old socket has nothing to say any more
  expect(run.history.entries.map((e) => e.seq)).toEqual([1, 2, 3, 4]);
});

test("while nothing is heard, time stands still for what is drawn of a run", async () => {
  const { client, socket } = opened();
  socket.hello();
  const before = client.lately();
  socket.drop();
  await vi.advanceTimersByTimeAsync(1500);
  const lost = client.lately();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(client.lately()).toBe(lost);
  expect(client.now() - lost).toBeGreaterThan(30);
  expect(lost).toBeGreaterThanOrEqual(before);
});

test("a verb without an answer is asked again, under the same request id", async () => {
  const { client, socket } = opened();
  socket.hello();
  const asked = client.verb("run-1", "cancel", { reason: "enough" });
  const first = socket.got("verb")[0]!;
  socket.drop();
  await vi.advanceTimersByTimeAsync(2000);
  const again = Socket.all.at(-1)!;
  again.hello();
  expect(again.got("verb")[0]!.request_id).toBe(first.request_id);
  again.say({ op: "answer", n: first.n, answer: { answer: "accepted", at: 1, seq: 2, in_flight: [], mail: null, note: "" } });
  expect((await asked).answer).toBe("accepted");
});

test("a problem is thrown, with its hint", async () => {
  const { client, socket } = opened();
  socket.hello();
  const asked = client.verb("run-1", "edit", {});
  socket.say({ op: "answer", n: socket.got("verb")[0]!.n, problem: { title: "no", detail: "not like this", hint: "like that" } });
  await expect(asked).rejects.toThrow("not like this");
  await asked.catch((error: VerbProblem) => expect(error.problem.hint).toBe("like that"));
});

test("who is not let in is told so, and the page does not knock for ever", async () => {
  const { client, socket } = opened(async () => false);
  socket.drop();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(client.connection).toBe("unauthorised");
  expect(Socket.all).toHaveLength(1);
});

test("a server that is down is not mistaken for one that lets nobody in", async () => {
  const { client, socket } = opened(() => Promise.reject(new Error("no network")));
  socket.drop();
  await vi.advanceTimersByTimeAsync(50);
  expect(client.connection).toBe("reconnecting");
});

test("a socket that has gone quiet is given up", async () => {
  const { client, socket } = opened();
  socket.hello();
  await vi.advanceTimersByTimeAsync(26_000);
  expect(socket.got("ping").length).toBeGreaterThan(1);
  expect(Socket.all.length).toBeGreaterThan(1);
  expect(client.connection).not.toBe("open");
});

test("an older view of the server does not take back what events have told", () => {
  const { client, socket } = opened();
  const run = client.watch("run-1");
  socket.hello();
  socket.say({ op: "view", run: "run-1", view: { ...emptyView("run-1"), seq: 5, status: "paused" } });
  socket.say({ op: "view", run: "run-1", view: { ...emptyView("run-1"), seq: 4, status: "running" } });
  expect(run.view.status).toBe("paused");
});

test("two who watch one run share it, and the last one who leaves unwatches", () => {
  const { client, socket } = opened();
  socket.hello();
  expect(client.watch("run-1")).toBe(client.watch("run-1"));
  client.unwatch("run-1");
  expect(socket.got("unwatch")).toHaveLength(0);
  client.unwatch("run-1");
  expect(socket.got("unwatch")).toHaveLength(1);
});

test("the server's clock counts, not ours", () => {
  const { client, socket } = opened();
  socket.hello();
  expect(Math.round(client.now() - Date.now() / 1000)).toBe(100);
});

test("while the connection is lost it is known when the server was last heard", async () => {
  const { client, socket } = opened();
  socket.hello();
  expect(client.lostAt).toBeNull();
  const heard = client.now();
  await vi.advanceTimersByTimeAsync(4000);
  socket.drop();
  expect(client.lostAt).toBeCloseTo(heard, 1);
  await vi.advanceTimersByTimeAsync(2000);
  Socket.all.at(-1)!.drop();
  expect(client.lostAt).toBeCloseTo(heard, 1); // one more try that failed was no hearing
  await vi.advanceTimersByTimeAsync(5000);
  Socket.all.at(-1)!.hello();
  expect(client.lostAt).toBeNull();
});
