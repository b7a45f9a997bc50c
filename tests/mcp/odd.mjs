// A server of tools over stdio that does what it is told to: `node odd.mjs MODE [ARGUMENT]`.
import { createInterface } from "node:readline";
import { appendFileSync, existsSync } from "node:fs";

const [mode, argument] = process.argv.slice(2);
const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const text = (text) => ({ content: [{ type: "text", text }] });
const tool = (name, inputSchema = { type: "object" }) =>
  ({ name, description: `What ${name} does.`, inputSchema, annotations: { readOnlyHint: true } });

if (argument && mode !== "late") appendFileSync(argument, `started ${process.pid}\n`);
if (mode === "die") { process.stderr.write("the key is wrong\n"); process.exit(3); }
if (mode === "hang") { process.on("SIGTERM", () => {}); setInterval(() => {}, 1000); }
if (mode === "flood") { const piece = "x".repeat(1 << 20); const more = () => { while (process.stdout.write(piece)); process.stdout.once("drain", more); }; more(); }
if (mode === "noise") { const more = () => { while (process.stdout.write("listening\n".repeat(5000))); process.stdout.once("drain", more); }; more(); }
if (mode === "chatter") { const line = JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params: { level: "info", data: "x".repeat(2000) } }) + "\n"; const more = () => { while (process.stdout.write(line.repeat(100))); process.stdout.once("drain", more); }; more(); }

const lists = {
  lie: [tool("fine"), tool("array", { type: "array" }), tool("text", "no"), { name: "bare" }, tool("evil\u001b[2J"), tool("odd")],
  ask: [tool("ask")],
  named: process.env.NAMES?.split(",").map((name) => tool(name)),
};
const answers = {
  echo: (a) => text(JSON.stringify(a)),
  environment: () => text(Object.keys(process.env).sort().join(" ")),
  large: () => text("0123456789".repeat(100000) + "END"),
  fail: () => ({ ...text("it broke"), isError: true }),
  die: () => { process.stderr.write("out of luck\n"); process.exit(7); },
  odd: () => [1, 2],
};

let asking;
if (!["hang", "flood", "noise", "chatter"].includes(mode)) {
  createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, method, params, result } = JSON.parse(line);
    if (method === undefined && id === "q") { say({ id: asking, result: text(JSON.stringify(result)) }); return; }
    if (argument && mode !== "late") appendFileSync(argument, `${method}${params?.requestId !== undefined ? " it" : ""}\n`);
    if (method === "initialize") {
      const result = { protocolVersion: params.protocolVersion, capabilities: { tools: {}, prompts: {}, resources: {} }, serverInfo: { name: "odd", version: "1" } };
      const answer = () => mode !== "late" || existsSync(argument) ? say({ id, result }) : setTimeout(answer, 20);
      answer();
    } else if (method === "tools/list") {
      say({ id, result: { tools: lists[mode] ?? Object.keys(answers).concat("wait").reverse().map((name) => tool(name)) } });
    } else if (method === "prompts/list") {
      say({ id, result: { prompts: [{ name: "greet", arguments: [{ name: "who", required: true }] }] } });
    } else if (method === "prompts/get") {
      say({ id, result: { messages: [{ role: "user", content: { type: "text", text: `Say hello to ${params.arguments.who}.` } }] } });
    } else if (method === "resources/list") {
      say({ id, result: { resources: [{ uri: "odd://one", name: "one" }] } });
    } else if (method === "resources/read") {
      if (params.uri === "odd://one") say({ id, result: { contents: [{ uri: params.uri, text: "the text of one" }] } });
      else say({ id, error: { code: -32002, message: "no such resource" } });
    } else if (method === "tools/call" && params.name === "ask") {
      asking = id;
      say({ id: "q", method: "elicitation/create", params: { message: "Who is it for?", requestedSchema: { type: "object", properties: { who: { type: "string" } }, required: ["who"] } } });
    } else if (method === "tools/call" && params.name !== "wait") {
      say({ id, result: (answers[params.name] ?? answers.echo)(params.arguments) });
    } else if (id !== undefined && method !== "tools/call") {
      say({ id, error: { code: -32601, message: "no such method" } });
    }
  });
}
