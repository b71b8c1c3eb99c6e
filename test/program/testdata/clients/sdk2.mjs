// A client on version 2 of the official TypeScript SDK, which speaks 2026-07-28:
// node sdk2.mjs URL TOOL ARGUMENTS
//
// What happens is told on standard output, a line of JSON each. The answers to
// questions come on standard input, with which the client ends.
import { createInterface } from 'node:readline';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, name, args] = process.argv.slice(2);
const tell = (what, value) => console.log(JSON.stringify({ what, value }));

const waiting = [];
createInterface({ input: process.stdin }).on('close', () => process.exit()).on('line', (line) => {
  waiting.shift()?.(JSON.parse(line));
});

const client = new Client({ name: 'sdk2', version: '1' }, {
  capabilities: { elicitation: { form: {} } },
  versionNegotiation: { mode: { pin: '2026-07-28' } },
});
client.setRequestHandler('elicitation/create', ({ params }) => {
  tell('asked', params.message);
  return new Promise((answer) => waiting.push(answer));
});
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
tell('tools', (await client.listTools()).tools.map((tool) => tool.name));
try {
  tell('result', await client.callTool({ name, arguments: JSON.parse(args) }, {
    timeout: 180_000,
    onprogress: (progress) => tell('progress', progress),
  }));
} catch (error) {
  tell('error', String(error));
}
