// A client on version 2 of the official TypeScript SDK:
// node sdk2.mjs URL TOOL ARGUMENTS [ERA [TIMEOUT]]
//
// The era is 2026-07-28, or "default" for the one that the SDK speaks by itself,
// 2025-11-25. What happens is told on standard output, a line of JSON each. The
// answers to questions come on standard input, with which the client ends; after
// an error a line has it call again.
import { createInterface } from 'node:readline';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, name, args, era = '2026-07-28', timeout = '180000'] = process.argv.slice(2);
const tell = (what, value) => console.log(JSON.stringify({ what, value }));

const waiting = [];
const said = () => new Promise((say) => waiting.push(say));
createInterface({ input: process.stdin }).on('close', () => process.exit()).on('line', (line) => {
  waiting.shift()?.(JSON.parse(line));
});

const client = new Client({ name: 'sdk2', version: '1' }, {
  capabilities: { elicitation: { form: {} } },
  ...(era === 'default' ? {} : { versionNegotiation: { mode: { pin: era } } }),
});
client.setRequestHandler('elicitation/create', ({ params }) => {
  tell('asked', params.message);
  return said();
});
client.onerror = (error) => tell('trouble', String(error));
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
tell('tools', (await client.listTools()).tools.map((tool) => tool.name));
for (;;) {
  try {
    tell('result', await client.callTool({ name, arguments: JSON.parse(args) }, {
      timeout: Number(timeout),
      onprogress: (progress) => tell('progress', progress),
    }));
    break;
  } catch (error) {
    tell('error', String(error));
    await said();
  }
}
