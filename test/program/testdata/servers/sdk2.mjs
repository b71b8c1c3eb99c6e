// An MCP server on version 2 of the TypeScript SDK: node sdk2.mjs stdio|sessions|dual|modern.
// Over HTTP it says on stdout where it listens. dual serves all revisions, and
// modern those from 2026-07-28 on.
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { McpServer, createMcpHandler, isInitializeRequest } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';

const how = process.argv[2];
const added = [];

function newServer() {
  const server = new McpServer({ name: 'sdk2', version: '1' });
  const echo = { description: 'Says what it is told.', inputSchema: z.object({ text: z.string() }) };
  const answer = async ({ text }) => ({ content: [{ type: 'text', text }], structuredContent: { text } });
  server.registerTool('echo', echo, answer);
  server.registerTool('grow', { ...echo, description: 'Adds a tool.' }, async ({ text }) => {
    added.push(text);
    server.registerTool(text, echo, answer);
    handler?.notify.toolsChanged();
    return answer({ text });
  });
  for (const name of added) server.registerTool(name, echo, answer);
  return server;
}

async function body(req) {
  let text = '';
  for await (const chunk of req) text += chunk;
  return text ? JSON.parse(text) : undefined;
}

const sessions = new Map();

async function serveSessions(req, res) {
  const message = await body(req);
  let transport = sessions.get(req.headers['mcp-session-id']);
  if (!transport && !isInitializeRequest(message)) {
    res.writeHead(400, { 'Content-Type': 'application/json' });
    return res.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32000, message: 'Bad Request: No valid session ID provided' }, id: null }));
  }
  if (!transport) {
    transport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => { sessions.set(id, transport); },
    });
    await newServer().connect(transport);
  }
  return transport.handleRequest(req, res, message);
}

let handler;
if (how === 'stdio') {
  serveStdio(newServer);
} else {
  let serve = serveSessions;
  if (how !== 'sessions') {
    handler = createMcpHandler(newServer, { legacy: how === 'modern' ? 'reject' : 'stateless' });
    serve = async (req, res) => toNodeHandler(handler)(req, res);
  }
  const web = createServer((req, res) => serve(req, res).catch((e) => { console.error(e); res.destroy(); }));
  web.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${web.address().port}/mcp`));
}
