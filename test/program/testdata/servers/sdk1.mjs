// An MCP server on version 1 of the TypeScript SDK: node sdk1.mjs stdio|sessions|stateless.
// Over HTTP it says on stdout where it listens.
import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { isInitializeRequest } from '@modelcontextprotocol/sdk/types.js';

const how = process.argv[2];

function newServer() {
  const server = new McpServer({ name: 'sdk1', version: '1' });
  const echo = { description: 'Says what it is told.', inputSchema: { text: z.string() } };
  const answer = async ({ text }) => ({ content: [{ type: 'text', text }], structuredContent: { text } });
  server.registerTool('echo', echo, answer);
  server.registerTool('grow', { ...echo, description: 'Adds a tool.' }, async ({ text }) => {
    server.registerTool(text, echo, answer);
    return answer({ text });
  });
  return server;
}

async function body(req) {
  let text = '';
  for await (const chunk of req) text += chunk;
  return text ? JSON.parse(text) : undefined;
}

const sessions = new Map();

async function serve(req, res) {
  const message = await body(req);
  if (how === 'stateless') {
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await newServer().connect(transport);
    return transport.handleRequest(req, res, message);
  }
  let transport = sessions.get(req.headers['mcp-session-id']);
  if (!transport && !isInitializeRequest(message)) {
    res.writeHead(400, { 'Content-Type': 'application/json' });
    return res.end(JSON.stringify({ jsonrpc: '2.0', error: { code: -32000, message: 'Bad Request: No valid session ID provided' }, id: null }));
  }
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => { sessions.set(id, transport); },
    });
    await newServer().connect(transport);
  }
  return transport.handleRequest(req, res, message);
}

if (how === 'stdio') {
  await newServer().connect(new StdioServerTransport());
} else {
  const web = createServer((req, res) => serve(req, res).catch((e) => { console.error(e); res.destroy(); }));
  web.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${web.address().port}/mcp`));
}
