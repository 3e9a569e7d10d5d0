// Image files as `data:` URLs.
import { bytes } from "./format.js";

const KINDS = ["image/png", "image/jpeg", "image/webp", "image/gif"];
const LARGEST = 10 * 2 ** 20;
const MOST = 8;

/** `{ urls, problem }`: those that can be sent, and in a sentence why others cannot. `had`: how many there are already. */
export async function readPictures(files, had) {
  const urls = [];
  let problem = "";
  for (const file of files) {
    if (!KINDS.includes(file.type)) problem = `${file.name || "This"} is no PNG, JPEG, WebP or GIF image.`;
    else if (file.size > LARGEST) problem = `${file.name} is larger than ${bytes(LARGEST)}.`;
    else if (had + urls.length >= MOST) problem = `At most ${MOST} images go with one message.`;
    else urls.push(await read(file));
  }
  return { urls, problem };
}

function read(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
