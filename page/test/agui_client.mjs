// The official AG-UI client, driven over stdin: one JSON command a line, one JSON answer a line. No rule of the
// protocol is kept here: what it answers is what the client made of the stream, and what the client complained of.
import { createInterface } from "node:readline";
import { buildResumeArray, HttpAgent } from "@ag-ui/client";

const complaints = [];
for (const level of ["warn", "error"]) console[level] = (...said) => complaints.push(said.map(String).join(" "));

const { url, token, threadId, state } = JSON.parse(process.argv[2]);
const agent = new HttpAgent({ url, threadId, initialState: state, headers: { Authorization: `Bearer ${token}` } });

const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

async function run({ runId, text, messageId, responses }) {
  if (text !== undefined) agent.addMessage({ id: messageId, role: "user", content: text });
  const resume = responses === undefined ? undefined : buildResumeArray(agent.pendingInterrupts, responses);
  const told = { events: [], growth: [], end: null, error: null, complaints };
  complaints.length = 0;
  const watching = {
    onEvent: ({ event }) => void told.events.push(event.type),
    onTextMessageContentEvent: ({ event, textMessageBuffer }) => void told.growth.push(textMessageBuffer + event.delta),
    onRunFinishedEvent: ({ outcome, event, pendingToolCallIds }) =>
      void (told.end = { outcome, result: event.result, pendingToolCallIds }),
    onRunErrorEvent: ({ event }) => void (told.end = { outcome: "error", message: event.message }),
  };
  try {
    const { result, newMessages } = await agent.runAgent({ runId, resume }, watching);
    Object.assign(told, { result, newMessages });
  } catch (error) {
    told.error = `${error.name}: ${error.message}`;
  }
  const { messages, pendingInterrupts } = agent;
  say({ ...told, messages, state: agent.state, interrupts: pendingInterrupts });
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  if (command.op === "abort") agent.abortRun();
  else void run(command);
}
