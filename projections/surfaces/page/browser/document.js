// The document of the page, unpacked.

const META = JSON.parse(document.getElementById("meta").textContent);

/** Return the bytes of a text in base64. */
function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

/** Return a promise of the document. */
async function unpack() {
  const element = $("document"),
    packed = new Blob([fromBase64(element.textContent.trim())]).stream();
  element.remove();
  return new Response(packed.pipeThrough(new DecompressionStream("deflate"))).json();
}
