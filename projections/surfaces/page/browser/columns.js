// The streams of the page: unpacked, and their columns as arrays of numbers.

const META = JSON.parse(document.getElementById("meta").textContent);

/** Return the bytes of a text in base64. */
function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Return a column of whole numbers, stored in planes of bytes from `at` on. */
function readColumn(bytes, at, count, width, delta) {
  const numbers = width > 4 || delta ? new Float64Array(count) : new Uint32Array(count);
  for (let plane = 0, factor = 1; plane < width; plane++, factor *= 256) {
    for (let i = 0; i < count; i++) numbers[i] += bytes[at++] * factor;
  }
  if (!delta) return numbers;
  let last = 0;
  for (let i = 0; i < count; i++) {
    const n = numbers[i];
    last += n % 2 ? -(n + 1) / 2 : n / 2;
    numbers[i] = last;
  }
  return numbers;
}

const streams = new Map();

/** Return a promise of a stream's tables and columns in one object, null where the page has no such stream. */
function stream(name) {
  if (!streams.has(name)) streams.set(name, unpack($(`stream-${name}`)));
  return streams.get(name);
}

async function unpack(element) {
  if (!element) return null;
  const packed = new Blob([fromBase64(element.textContent.trim())]).stream();
  element.remove();
  const unpacked = packed.pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(unpacked).arrayBuffer());
  const head = new DataView(bytes.buffer).getUint32(0, true);
  const { columns = [], ...result } = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + head)));
  let at = 4 + head;
  for (const [name, count, width, delta] of columns) {
    result[name] = readColumn(bytes, at, count, width, delta);
    at += count * width;
  }
  return result;
}
