// Keeps what was said in OpenCode, and shows the agent what is known. A memory that fails never stops the chat.
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"

const WHERE = ["--user", process.env.REME_USER || "me", "--dir", process.env.REME_DIR || "~/.reme"]
const PATIENCE_MS = 10_000

// What the command prints, or nothing.
function reme(command, options, input) {
  return new Promise((resolve) => {
    const child = spawn("reme-memory", [command, ...options, ...WHERE], { stdio: ["pipe", "pipe", "ignore"] })
    const timer = setTimeout(() => child.kill(), PATIENCE_MS)
    let printed = ""
    child.stdout.setEncoding("utf8").on("data", (text) => (printed += text))
    child.stdin.on("error", () => {})
    child.on("error", () => resolve(""))
    child.on("close", () => {
      clearTimeout(timer)
      resolve(printed)
    })
    child.stdin.end(input)
  })
}

async function told(event) {
  const printed = await reme("hook", [], JSON.stringify(event))
  try {
    return JSON.parse(printed).hookSpecificOutput.additionalContext
  } catch {
    return ""
  }
}

export const ReMe = async ({ client }) => {
  const begun = new Set()
  return {
    "chat.message": async (input, output) => {
      const session_id = input.sessionID
      const prompt = output.parts
        .filter((part) => part.type === "text" && !part.synthetic)
        .map((part) => part.text)
        .join("\n")
      const texts = []
      if (!begun.has(session_id)) texts.push(await told({ hook_event_name: "SessionStart", session_id }))
      begun.add(session_id)
      texts.push(await told({ hook_event_name: "UserPromptSubmit", session_id, prompt }))
      for (const text of texts.filter(Boolean)) {
        output.parts.push({
          id: `prt_${randomUUID().replaceAll("-", "")}`,
          sessionID: session_id,
          messageID: output.message.id,
          type: "text",
          text,
          synthetic: true,
        })
      }
    },
    event: async ({ event }) => {
      if (event.type !== "session.idle" && event.type !== "session.compacted") return
      const id = event.properties.sessionID
      const found = await client.session.messages({ path: { id } }).catch(() => ({}))
      const lines = (found.data ?? []).map((message) => JSON.stringify(message))
      await reme("capture", ["--transcript", "-", "--session", id], lines.join("\n"))
    },
  }
}
