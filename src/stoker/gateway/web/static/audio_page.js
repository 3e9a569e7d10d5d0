// Speech from text, and text from speech.
import { bytes } from "./format.js";
import { html, useEffect, useRef, useState } from "./kit.js";
import { OneRequest } from "./one_request.js";
import { Problem } from "./parts.js";
import { mayRecord, record } from "./recorder.js";

export function Speech({ wanted }) {
  const [text, setText] = useState("The kettle is on. Tea will be ready in a minute.");
  const [voice, setVoice] = useState("alloy");
  const request = (model) => text.trim() && {
    path: "v1/audio/speech", call: "audio.speech.create", reads: "file",
    body: { model, input: text, voice: voice.trim() || "alloy", response_format: "wav" },
  };
  const read = async (reply) => reply.blob();
  return html`<${OneRequest} dialect="speech" wanted=${wanted} verb="Speak" request=${request} read=${read} Answer=${Sound}>
    <div class="field"><label for="text">Text</label><textarea id="text" rows="4" value=${text} onInput=${(event) => setText(event.target.value)} /></div>
    <div class="field short"><label for="voice">Voice</label><input id="voice" value=${voice} onInput=${(event) => setVoice(event.target.value)} /></div>
  <//>`;
}

function Sound({ value }) {
  const [url, setUrl] = useState("");
  useEffect(() => {
    const made = URL.createObjectURL(value);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [value]);
  return url && html`<audio controls src=${url} aria-label="The spoken text" /><p class="small"><a href=${url} download="speech.wav">Save</a> <span class="dim">${bytes(value.size)}</span></p>`;
}

export function Transcription({ wanted }) {
  const [file, setFile] = useState(null);
  const [recording, setRecording] = useState(null);
  const [problem, setProblem] = useState(null);
  const running = useRef(null);
  useEffect(() => () => running.current?.cancel(), []);
  const request = (model) => file && {
    path: "v1/audio/transcriptions", call: "audio.transcriptions.create", reads: "text", form: "file", file, body: { model, file: file.name },
  };
  const read = async (reply) => (await reply.json()).text ?? "";
  const toggle = async () => {
    setProblem(null);
    try {
      if (recording) {
        const found = await recording.end();
        setRecording(null);
        setFile(found);
      } else {
        running.current = await record();
        setRecording(running.current);
      }
    } catch (error) {
      setRecording(null);
      setProblem({ status: 1, message: `The microphone cannot be used: ${error.message}` });
    }
  };
  return html`<${OneRequest} dialect="transcription" wanted=${wanted} verb="Transcribe" request=${request} read=${read} Answer=${Written}>
    <div class="field"><label for="audio">Audio file</label>
      <input id="audio" type="file" accept="audio/*,video/*" onChange=${(event) => setFile(event.target.files[0] ?? null)} /></div>
    ${mayRecord() && html`<div class="buttons"><button type="button" class="quiet" aria-pressed=${Boolean(recording)} onClick=${toggle}>${recording ? "End the recording" : "Record from the microphone"}</button>
      ${recording && html`<span role="status" class="dim">Recording …</span>`}</div>`}
    ${problem && html`<${Problem} error=${problem} />`}
    ${file && html`<p class="dim small">To be transcribed: ${file.name}, ${bytes(file.size)}</p>`}
  <//>`;
}

function Written({ value }) {
  return html`<p class="said">${value || html`<span class="dim">It heard nothing.</span>`}</p>`;
}
