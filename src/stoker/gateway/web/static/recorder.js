// The microphone, as a WAV file: not every engine reads what browsers record.

const RATE = 16_000;

/** Whether the browser lets this page record: over https, or from this machine. */
export function mayRecord() {
  return Boolean(navigator.mediaDevices?.getUserMedia && window.MediaRecorder);
}

/** Begin. `end()` resolves to a File; `cancel()` forgets it. Throws if the microphone is not allowed. */
export async function record() {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  const recorder = new MediaRecorder(stream);
  const pieces = [];
  recorder.addEventListener("dataavailable", (event) => pieces.push(event.data));
  const ended = new Promise((resolve) => { recorder.addEventListener("stop", resolve); });
  const cancel = () => {
    if (recorder.state !== "inactive") recorder.stop();
    for (const track of stream.getTracks()) track.stop();
  };
  recorder.start();
  return {
    cancel,
    end: async () => {
      cancel();
      await ended;
      return wav(await new Blob(pieces, { type: recorder.mimeType }).arrayBuffer());
    },
  };
}

async function wav(recorded) {
  const context = new OfflineAudioContext(1, 1, RATE);
  const samples = (await context.decodeAudioData(recorded)).getChannelData(0);
  const view = new DataView(new ArrayBuffer(44 + samples.length * 2));
  const word = (at, text) => [...text].forEach((sign, index) => view.setUint8(at + index, sign.charCodeAt(0)));
  word(0, "RIFF");
  view.setUint32(4, 36 + samples.length * 2, true);
  word(8, "WAVEfmt ");
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true); // PCM
  view.setUint16(22, 1, true); // mono
  view.setUint32(24, RATE, true);
  view.setUint32(28, RATE * 2, true);
  view.setUint16(32, 2, true);
  view.setUint16(34, 16, true);
  word(36, "data");
  view.setUint32(40, samples.length * 2, true);
  samples.forEach((sample, index) => view.setInt16(44 + index * 2, Math.max(-1, Math.min(1, sample)) * 32767, true));
  return new File([view], "recording.wav", { type: "audio/wav" });
}
