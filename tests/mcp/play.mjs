// A server of tools over stdio that plays a file: `node play.mjs FILE [METHOD]`.
//
// `tools` is what `tools/list` gives, `lines` are texts that are written as they are before anything else.
// Each `tools/call` is answered by the next text of `replies` (the last one goes on answering), or by `reply`, as it is,
// with `@ID@` in the place of the request's id. With METHOD that method is answered in this way instead.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const [file, played = "tools/call"] = process.argv.slice(2);
const play = JSON.parse(readFileSync(file, "utf8"));
const send = (value) => process.stdout.write((typeof value === "string" ? value : JSON.stringify(value)) + "\n");
const replies = play.replies ?? [play.reply];
const tools = play.tools ?? [{ name: "get", description: "gets", inputSchema: { type: "object", properties: {} } }];
let calls = 0;

(play.lines ?? []).forEach(send);
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  if (method === played) {
    send(replies[Math.min(calls++, replies.length - 1)].replaceAll("@ID@", JSON.stringify(id)));
  } else if (method === "initialize") {
    const result = { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "case", version: "1" } };
    send({ jsonrpc: "2.0", id, result });
  } else if (method === "tools/list") {
    send({ jsonrpc: "2.0", id, result: { tools } });
  } else {
    send({ jsonrpc: "2.0", id, error: { code: -32601, message: "not there" } });
  }
});
