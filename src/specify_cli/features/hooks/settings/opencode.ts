// Written by `spec-kitty hooks install`; `spec-kitty hooks uninstall` removes it.
// Tells spec-kitty what tools are called. It never fails a call and never waits longer than 15 seconds.
import { spawn } from "node:child_process"

// One error may reach two copies of this file, the project's and the user's: both tell it with the same moment.
const moments = (globalThis[Symbol.for("spec-kitty.moments")] ??= { of: new WeakMap(), count: 0 })
const momentOf = (event) => {
  if (!moments.of.has(event)) moments.of.set(event, `${Date.now()}-${process.pid}-${++moments.count}`)
  return moments.of.get(event)
}

// The sessions that this process runs: it tells of any other that it runs it again.
const here = (globalThis[Symbol.for("spec-kitty.sessions")] ??= new Set())

export const SpecKitty = async ({ directory }) => {
  const parents = new Map()
  const told = new Set()
  const turns = new Map()
  const texts = new Map()
  const asked = new Map()
  const requests = new Map()
  const allowed = new Map()
  const tell = (session, value) =>
    new Promise((resolve) => {
      try {
        const parent = parents.get(session)
        const who = parent ? { session_id: parent, agent_id: session } : { session_id: session }
        const child = spawn("spec-kitty", ["hook", "opencode"], {
          cwd: directory,
          stdio: ["pipe", "ignore", "ignore"],
          timeout: 15000,
          killSignal: "SIGKILL",
        })
        child.on("error", () => resolve(undefined))
        child.on("close", () => resolve(undefined))
        child.stdin.on("error", () => undefined)
        child.stdin.end(JSON.stringify({ ...who, cwd: directory, ...value }))
      } catch {
        resolve(undefined)
      }
    })
  return {
    // Which session and call a command belongs to: `spec-kitty do` in it writes that down.
    "shell.env": async (input, output) => {
      if (!input.sessionID) return
      output.env.SPEC_KITTY_OPENCODE_SESSION = parents.get(input.sessionID) ?? input.sessionID
      if (input.callID) output.env.SPEC_KITTY_OPENCODE_CALL = input.callID
    },
    "tool.execute.before": async (input, output) => {
      await tell(input.sessionID, {
        hook_event_name: "tool.execute.before",
        tool_use_id: input.callID,
        tool_name: input.tool,
        tool_input: output.args,
      })
    },
    "tool.execute.after": async (input, output) => {
      told.add(input.callID)
      await allowed.get(input.callID)
      await tell(input.sessionID, {
        hook_event_name: "tool.execute.after",
        tool_use_id: input.callID,
        tool_name: input.tool,
        tool_input: input.args,
        // What a tool of an MCP server gave stands in `content`.
        tool_response: { title: output.title, output: output.output, metadata: output.metadata, content: output.content },
      })
    },
    "chat.message": async (input, output) => {
      if (parents.has(input.sessionID)) return
      asked.set(input.sessionID, output.message.id)
      const source = here.has(input.sessionID) ? undefined : "resume"
      here.add(input.sessionID)
      await tell(input.sessionID, {
        hook_event_name: "chat.message",
        source,
        prompt_id: output.message.id,
        prompt: output.parts.map((part) => (part.type === "text" && !part.synthetic ? part.text : "")).join("\n").trim(),
      })
    },
    event: async ({ event }) => {
      const part = event.properties?.part
      // A tool that failed, or was refused, has no "after".
      if (event.type === "message.part.updated" && part?.type === "tool" && part.state.status === "error") {
        if (told.has(part.callID)) return
        told.add(part.callID)
        await allowed.get(part.callID)
        await tell(part.sessionID, {
          hook_event_name: "tool.execute.failed",
          tool_use_id: part.callID,
          tool_name: part.tool,
          tool_input: part.state.input,
          error: part.state.error,
        })
      }
      if (event.type === "permission.asked") requests.set(event.properties.id, event.properties.tool?.callID)
      if (event.type === "permission.replied" && event.properties.reply !== "reject") {
        const call = requests.get(event.properties.requestID)
        if (call) allowed.set(call, tell(event.properties.sessionID, { hook_event_name: "permission.allowed", tool_use_id: call }))
      }
      if (event.type === "message.updated" && event.properties.info.role === "assistant") {
        // The newest count of each answer: they are summed when the turn is over.
        const info = event.properties.info
        const turn = turns.get(info.sessionID) ?? new Map()
        turns.set(info.sessionID, turn.set(info.id, { model: info.modelID, tokens: info.tokens, cost: info.cost }))
      }
      if (event.type === "message.part.updated" && part?.type === "text" && part.text && !part.synthetic) texts.set(part.sessionID, part)
      if (event.type === "session.idle" && !parents.has(event.properties.sessionID)) {
        const session = event.properties.sessionID
        const answers = [...(turns.get(session)?.values() ?? [])]
        const sum = (read) => answers.reduce((count, one) => count + (read(one.tokens ?? {}) ?? 0), 0)
        const text = texts.get(session)
        turns.delete(session)
        texts.delete(session) // what a person runs themselves ends in another idle, without words
        await tell(session, {
          hook_event_name: "session.idle",
          timestamp: momentOf(event),
          model: answers.at(-1)?.model,
          cost: answers.reduce((sum, one) => sum + (one.cost ?? 0), 0),
          tokens: {
            total: sum((of) => of.total),
            input: sum((of) => of.input),
            output: sum((of) => of.output),
            thinking: sum((of) => of.reasoning),
            cache_read: sum((of) => of.cache?.read),
            cache_write: sum((of) => of.cache?.write),
          },
          last_assistant_message: asked.get(session) === text?.messageID ? undefined : text?.text,
        })
      }
      if (event.type === "session.compacted") {
        await tell(event.properties.sessionID, { hook_event_name: "session.compacted", timestamp: momentOf(event) })
      }
      if (event.type === "session.created") {
        const { id, parentID } = event.properties.info
        here.add(id)
        if (parentID) parents.set(id, parents.get(parentID) ?? parentID)
      }
      if (event.type === "session.error" && event.properties.sessionID) {
        await tell(event.properties.sessionID, {
          hook_event_name: "session.error",
          timestamp: momentOf(event),
          error: event.properties.error,
        })
      }
    },
  }
}
