// A client on version 1 of the official TypeScript SDK, which speaks the era of
// sessions: node sdk1.mjs URL call|task TOOL ARGUMENTS [PATIENCE]
//
// What happens is told on standard output, a line of JSON each. What a person
// would do comes on standard input: an answer for each question, or "cancel". The
// client ends with it. It comes back to a stream that broke as the SDK does by
// default, or, with a patience, that many times.
import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [url, how, name, args, patience] = process.argv.slice(2);
const tell = (what, value) => console.log(JSON.stringify({ what, value }));

const cancelling = new AbortController();
const waiting = [];
createInterface({ input: process.stdin }).on('close', () => process.exit()).on('line', (line) => {
  if (line === 'cancel') cancelling.abort('the user does not want it any more');
  else waiting.shift()?.(JSON.parse(line));
});

const client = new Client({ name: 'sdk1', version: '1' }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  tell('asked', params.message);
  return new Promise((answer) => waiting.push(answer));
});
client.onerror = (error) => tell('trouble', String(error));
await client.connect(new StreamableHTTPClientTransport(new URL(url), patience && {
  reconnectionOptions: { initialReconnectionDelay: 1000, maxReconnectionDelay: 5000, reconnectionDelayGrowFactor: 1.5, maxRetries: Number(patience) },
}));
tell('tools', (await client.listTools()).tools.map((tool) => tool.name));

const call = { name, arguments: JSON.parse(args) };
const options = {
  signal: cancelling.signal,
  timeout: 180_000,
  onprogress: (progress) => tell('progress', progress),
};
try {
  if (how === 'call') {
    tell('result', await client.callTool(call, CallToolResultSchema, options));
  } else {
    for await (const message of client.experimental.tasks.callToolStream(call, CallToolResultSchema, { ...options, task: {} })) {
      tell(message.type, message.result ?? message.task ?? String(message.error));
    }
  }
} catch (error) {
  tell('error', String(error));
}
