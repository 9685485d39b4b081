// An operator's side of SMPP, by the npm package `smpp`. Commands are lines of JSON on standard input; events are lines of
// JSON on standard output.
const readline = require("readline");
const smpp = require("smpp");

const { password, tls } = JSON.parse(process.argv[2]);
const sessions = [];
const connections = new Set();
const CALM = { submits: "accept", refusals: 0, mute: false };
let mood = CALM;
const held = [];
const tell = (event) => process.stdout.write(`${JSON.stringify(event)}\n`);
const hex = (value) => (Buffer.isBuffer(value) ? value.toString("hex") : value ?? null);

const answerSubmit = (session, pdu) => {
  if (mood.submits === "hold") return held.push([session, pdu]);
  if (mood.refusals > 0) {
    mood.refusals -= 1;
    return session.send(pdu.response({ command_status: mood.status }));
  }
  session.send(pdu.response({ message_id: "1" }));
};

const serve = (session) => {
  connections.add(session);
  session.on("error", () => {});
  session.on("close", () => {
    connections.delete(session);
    const at = sessions.indexOf(session);
    if (at >= 0) sessions.splice(at, 1);
    tell({ event: "closed" });
  });
  session.on("bind_transceiver", (pdu) => {
    const ok = pdu.password === password;
    if (ok) sessions.push(session);
    session.send(pdu.response({ command_status: ok ? 0 : smpp.ESME_RBINDFAIL, system_id: "operator" }));
    tell({ event: "bind", ok, system_id: pdu.system_id, version: pdu.interface_version, at: Date.now() });
  });
  session.on("submit_sm", (pdu) => {
    tell({
      event: "submit",
      text: pdu.short_message.message,
      coding: pdu.data_coding,
      op: hex(pdu.ussd_service_op),
      session: hex(pdu.its_session_info),
      reference: pdu.user_message_reference ?? null,
      from: pdu.source_addr,
      to: pdu.destination_addr,
      type: pdu.service_type,
      at: Date.now(),
    });
    if (!mood.mute) answerSubmit(session, pdu);
  });
  session.on("enquire_link", (pdu) => {
    tell({ event: "enquire" });
    if (!mood.mute) session.send(pdu.response());
  });
  session.on("unbind", (pdu) => {
    session.send(pdu.response());
    tell({ event: "unbind" });
  });
  session.on("generic_nack", (pdu) => tell({ event: "nack", status: pdu.command_status }));
};

const commands = {
  deliver: ({ bind, session, ...fields }) => {
    const pdu = { service_type: "USSD", ...fields };
    if (session !== undefined) pdu.its_session_info = Buffer.from(session, "hex");
    sessions[bind || 0].deliver_sm(pdu, (answer) => tell({ event: "delivered", status: answer.command_status }));
  },
  enquire: ({ bind }) => sessions[bind || 0].enquire_link({}, () => tell({ event: "enquired" })),
  unbind: ({ bind }) => sessions[bind || 0].unbind({}, () => tell({ event: "unbound" })),
  raw: ({ bind, octets }) => sessions[bind || 0].socket.write(Buffer.from(octets, "hex")),
  burst: ({ steps, ...fields }) => steps.forEach((step) => commands.deliver({ ...fields, ...step })),
  reset: async () => {
    mood = CALM;
    held.length = 0;
    connections.forEach((session) => session.socket.destroy());
    while (connections.size) await new Promise((resolve) => setTimeout(resolve, 5));
  },
  kill: () => [...sessions].forEach((session) => session.socket.destroy()),
  mood: (wanted) => { mood = { ...mood, ...wanted }; },
  release: () => {
    mood.submits = "accept";
    held.splice(0).forEach(([session, pdu]) => session.send(pdu.response({ message_id: "1" })));
  },
};

const server = smpp.createServer(tls || {}, serve);
server.listen(0, "127.0.0.1", () => tell({ event: "listening", port: server.address().port }));
readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const { do: name, ...given } = JSON.parse(line);
  await commands[name](given);
  tell({ event: "done", name });
});
process.stdin.on("end", () => process.exit(0));
